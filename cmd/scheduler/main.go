// Command scheduler runs jobs on several machines at once, each due time on one of them, and works
// through shared task pools. "scheduler --help" lists what it can do.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
