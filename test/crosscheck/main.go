// Command crosscheck checks the types of this module, tests included, as they are on other systems:
//
//	go run ./test/crosscheck [-tags TAGS] GOOS…
//
// It finds what go vet with that GOOS would refuse to compile, in a tenth of the time: of other modules only the
// declarations are read, and nothing is compiled. Compiling SQLite alone takes a minute for each system.
//
//  1. go list -deps -test names the packages and their files, dependencies first.
//  2. Each is parsed and checked with those before it as its imports.
//  3. Errors of the main module are printed, and the status is 1; those of others are not, since they lack their bodies.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	tags := flag.String("tags", "", "build tags, separated by commas")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: go run ./test/crosscheck [-tags TAGS] GOOS…")
		os.Exit(2)
	}
	status := 0
	for _, goos := range flag.Args() {
		found, err := check(".", goos, *tags)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", goos, err)
			os.Exit(1)
		}
		for _, problem := range found {
			fmt.Fprintf(os.Stderr, "%s: %s\n", goos, problem)
			status = 1
		}
	}
	os.Exit(status)
}
