//go:build linux && chaos

package chaos

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/clock"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/chaos/judge"
	"github.com/lockstep-scheduler/lockstep/test/chaos/seeded"
	"github.com/lockstep-scheduler/lockstep/test/program"
)

var onlyBug = flag.String("bug", "", "this seeded bug alone; without, all of them and the runs without any")

// tries is the number of runs in which a bug must be found.
const tries = 3

// caught is a line of the table: the run that found a bug.
type caught struct {
	bug        string
	invariants []judge.Invariant // that were broken; those that the bug is expected to break come first
	run        int               // from 1; 0: it was not found
	took       time.Duration
}

// The judge finds each of the seeded bugs within three runs, and nothing in the same runs without them.
func TestSelf(t *testing.T) {
	bugs, err := bugsNamed(*onlyBug)
	if err != nil {
		t.Fatal(err)
	}
	var lines []caught
	for _, b := range bugs {
		t.Run(b.Name, func(t *testing.T) {
			began := time.Now()
			line := caught{bug: b.Name}
			for n := 1; n <= tries && line.run == 0; n++ {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					report := try(t, tolerant{t}, b, uint64(n), withBug(b))
					t.Log(report)
					if line.invariants = wanted(b, report); len(line.invariants) > 0 {
						line.run = n
					}
				})
			}
			line.took = time.Since(began)
			lines = append(lines, line)
			if line.run == 0 {
				t.Errorf("not caught in %d runs; expected: %v", tries, b.Caught)
			}
		})
	}
	t.Log("\n" + table(lines))
	if *onlyBug != "" {
		return
	}
	for _, b := range controls() {
		t.Run("none, in "+b.Cell, func(t *testing.T) {
			report := try(t, t, b, 1, arena.Options{Clocks: slices.ContainsFunc(b.Nemeses, needsClock)})
			t.Log(report)
			if !report.OK() {
				t.Error("there is no bug, and something was found")
			}
		})
	}
}

// try makes one run in the bug's cell, with its nemeses window after window.
func try(t *testing.T, tb testing.TB, b seeded.Bug, seed uint64, o arena.Options) judge.Report {
	t.Helper()
	cell, err := arena.ParseCell(b.Cell)
	if err != nil {
		t.Fatal(err)
	}
	p := plan{
		cell: cell, seed: seed, dir: filepath.Join(folder(t), strings.NewReplacer(" ", "-", "/", "-").Replace(t.Name())), bug: b.Name, arena: o,
		healthy: 3 * time.Second, window: 9 * time.Second, after: 10 * time.Second, slack: 2 * time.Second,
		minimum: history.Minimum{Triggers: 20, Tasks: 20},
	}
	for _, names := range b.Nemeses {
		windows, err := windowsNamed(names, []arena.Cell{cell})
		if err != nil {
			t.Fatal(err)
		}
		p.faults = append(p.faults, windows[cell]...)
	}
	run(tb, p)
	return judged(tb, p.dir)
}

// withBug builds the programs of a run with the bug.
func withBug(b seeded.Bug) arena.Options {
	clocks := slices.ContainsFunc(b.Nemeses, needsClock)
	flags := func(t testing.TB) []string {
		t.Helper()
		var more []string
		if clocks {
			own, err := clock.Overlay(program.Dir(t))
			if err != nil {
				t.Fatal(err)
			}
			more = own[1:]
		}
		flags, err := b.Overlay("../..", filepath.Join(program.Dir(t), "seeded-"+b.Name), more...)
		if err != nil {
			t.Fatal(err)
		}
		return flags
	}
	return arena.Options{
		Clocks: clocks,
		Binary: func(t testing.TB) string {
			return program.BuildWith(t, arena.SchedulerSource, slices.Concat(program.Race, flags(t)))
		},
		Beside: func(t testing.TB, source string) string { return program.BuildWith(t, source, flags(t)) },
	}
}

func needsClock(nemeses string) bool { return strings.Contains(nemeses, "-clock") }

// wanted are the broken invariants that the bug is expected to break.
func wanted(b seeded.Bug, report judge.Report) (all []judge.Invariant) {
	for _, i := range report.Broken() {
		if slices.Contains(b.Caught, string(i)) {
			all = append(all, i)
		}
	}
	return all
}

// controls are runs without a bug for each cell, with the nemeses of all bugs there.
func controls() (all []seeded.Bug) {
	for _, b := range seeded.All() {
		i := slices.IndexFunc(all, func(c seeded.Bug) bool { return c.Cell == b.Cell })
		if i < 0 {
			i, all = len(all), append(all, seeded.Bug{Cell: b.Cell})
		}
		for _, n := range b.Nemeses {
			if !slices.Contains(all[i].Nemeses, n) {
				all[i].Nemeses = append(all[i].Nemeses, n)
			}
		}
	}
	return all
}

func table(lines []caught) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "bug\tcaught by\trun\tseconds")
	for _, l := range lines {
		fmt.Fprintf(w, "%s\t%v\t%d\t%.0f\n", l.bug, l.invariants, l.run, l.took.Seconds())
	}
	_ = w.Flush()
	return b.String()
}

// tolerant lets a run with a bug go on to its judgement, whatever else fails.
type tolerant struct{ testing.TB }

func (t tolerant) Error(args ...any) { t.Helper(); t.Log(args...) }

func (t tolerant) Errorf(format string, args ...any) { t.Helper(); t.Logf(format, args...) }
