// Command scheduler runs jobs on several machines at once, each due time on one of them, and works
// through shared task pools. "scheduler --help" lists what it can do.
package main

import (
	"context"
	"io"
	"log"
	"os"

	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
)

func main() {
	if exechandler.Warden() { // the process that runs the commands of a replica
		return
	}
	// net/http quotes there what servers send behind their answers, with what they repeat of a secret. Nothing else is
	// said there: errors are returned, and a replica has a log of its own.
	log.SetOutput(io.Discard)
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
