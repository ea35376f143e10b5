// Command chaos judges chaos runs again, from their artifacts.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/chaos/judge"
)

const usage = `Judges chaos runs again, from the files that they left behind.

Usage:
  chaos check DIR…                print the report of each run; exit code 1 if a promise did not hold
  chaos report [-into FILE] DIR…  print all of them as Markdown tables, or put them into a page,
                                  between its lines "chaos report: begin" and "… end"

A DIR is the folder of one run: the one with run.json in it.
`

var errUsage = errors.New("usage")

func main() {
	err := run(os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// run executes the arguments. Runs that cannot be read, and those with a broken promise, are an error, after
// all others were judged.
func run(args []string, out io.Writer) error {
	if len(args) == 1 && (args[0] == "help" || args[0] == "-h" || args[0] == "--help") {
		_, err := io.WriteString(out, usage)
		return err
	}
	if len(args) < 2 || args[0] != "check" && args[0] != "report" {
		return errUsage
	}
	dirs, page := args[1:], ""
	if args[0] == "report" && dirs[0] == "-into" {
		if len(dirs) < 3 {
			return errUsage
		}
		page, dirs = dirs[1], dirs[2:]
	}
	var reports []judge.Report
	var problems []error
	for _, dir := range dirs {
		h, err := history.Read(dir)
		if err != nil {
			problems = append(problems, err) // which names the folder
			continue
		}
		r := judge.Judge(h)
		reports = append(reports, r)
		if args[0] == "check" {
			fmt.Fprintf(out, "%s: %s", dir, r)
			if !r.OK() {
				problems = append(problems, fmt.Errorf("%s: %d violations", dir, len(r.Violations)))
			}
		}
	}
	switch {
	case args[0] != "report" || len(reports) == 0:
	case page != "":
		problems = append(problems, put(page, judge.Tables(reports)))
	default:
		fmt.Fprint(out, judge.Tables(reports))
	}
	return errors.Join(problems...)
}
