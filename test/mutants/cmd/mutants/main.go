// Mutants makes the mutants of some packages one by one, and reports which of them their tests do not notice.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/lockstep-scheduler/lockstep/test/mutants"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run() error {
	dir := flag.String("dir", filepath.Join(os.TempDir(), "lockstep-mutants"), "folder of the results; a later run goes on there")
	which := flag.String("mutants", "", "only those whose name matches")
	tests := flag.String("tests", "", "only tests whose name matches judge")
	again := flag.Bool("again", false, "try those again that survived or were not reached")
	sample := flag.Int("sample", 0, "only so many of them")
	whole := flag.Bool("whole", false, "let tests judge as a whole, which takes long, and not by their subtests")
	list := flag.Bool("list", false, "say what has been found so far, and run nothing")
	atOnce := flag.Int("p", 1, "runs of the tests at once")
	wrap := flag.String("exec", "", "a command to run builds and tests with, as nice")
	flag.Parse()
	packages := flag.Args()
	if len(packages) == 0 {
		packages = mutants.Packages
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	survived := 0
	for _, p := range packages {
		o := mutants.Options{
			Root: ".", Package: strings.TrimPrefix(filepath.Clean(p), "./"), Again: *again, Sample: *sample, Whole: *whole, AtOnce: *atOnce,
			Wrap: strings.Fields(*wrap), Log: os.Stdout,
		}
		o.Dir = filepath.Join(*dir, strings.ReplaceAll(o.Package, "/", "-"))
		var err error
		if o.Mutants, err = pattern(*which); err != nil {
			return err
		}
		if o.Tests, err = pattern(*tests); err != nil {
			return err
		}
		do := mutants.Run
		if *list {
			do = mutants.Known
		}
		results, err := do(ctx, o)
		survived += report(o.Package, results)
		if err != nil {
			return err
		}
	}
	if survived > 0 {
		return fmt.Errorf("%d mutants survived or were not reached", survived)
	}
	return nil
}

func pattern(text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil
	}
	return regexp.Compile(text)
}

// report prints the survivors and the score, and returns how many survived.
func report(name string, results []mutants.Result) int {
	count := map[string]int{}
	for _, r := range results {
		count[r.Fate]++
		if r.Fate == mutants.Survived || r.Fate == mutants.Unreached {
			fmt.Printf("%s: %s (line %d)\n", r.Fate, r.Name, r.Line)
		}
	}
	fmt.Printf("%s: %d mutants: %d killed, %d equivalent, %d survived, %d not reached\n", name, len(results),
		count[mutants.Killed], count[mutants.Equivalent], count[mutants.Survived], count[mutants.Unreached])
	return count[mutants.Survived] + count[mutants.Unreached]
}
