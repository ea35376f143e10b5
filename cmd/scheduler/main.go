// Command scheduler runs jobs on several machines, each due time on one of them, and works through shared task pools.
// "scheduler --help" lists its commands.
package main

import (
	"context"
	"io"
	"log"
	"os"

	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
)

func main() {
	if exechandler.Warden() { // this process runs the commands of a replica
		return
	}
	// net/http logs there what servers send after a response, which may repeat a secret. No other package uses it.
	log.SetOutput(io.Discard)
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
