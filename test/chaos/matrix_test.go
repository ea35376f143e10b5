//go:build linux && chaos

package chaos

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/arena"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/chaos/judge"
	"github.com/lockstep-scheduler/lockstep/test/chaos/nemesis"
)

// The part of the matrix to run; without flags, all of it.
var (
	onlyCells = flag.String("cell", "", "these cells, with commas between")
	onlyThese = flag.String("nemesis", "", "these nemeses, with commas between; a/b strike at the same time")
	seed      = flag.Uint64("seed", 0, "choices of the run; 0: others each time")
	pairs     = flag.Int("pairs", 10, "pairs of nemeses in each cell; -1: all there are")
	length    = flag.Duration("window", 20*time.Second, "of a nemesis that does not know better")
	healthy   = flag.Duration("healthy", 5*time.Second, "before each window")
	slack     = flag.Duration("slack", 0, "how much later than promised things may be; 0 where figures are taken")
	whenDown  = flag.String("when-down", "store", "lock.when_down of the replicas: store or wait")
)

// Every cell holds under every nemesis that fits it, alone and in pairs, in one long run.
func TestMatrix(t *testing.T) {
	choose(t)
	cells, err := cellsNamed(*onlyCells)
	if err != nil {
		t.Fatal(err)
	}
	windows := map[arena.Cell][][]nemesis.Nemesis{}
	if *onlyThese != "" {
		if windows, err = windowsNamed(*onlyThese, cells); err != nil {
			t.Fatal(err)
		}
		cells = slices.DeleteFunc(cells, func(c arena.Cell) bool { return len(windows[c]) == 0 })
	} else {
		for _, c := range cells {
			windows[c] = chosenFaults(c)
		}
	}
	dir := folder(t)
	kept := ", and gone when all has held; CHAOS_DIR names a folder that stays"
	if os.Getenv("CHAOS_DIR") != "" {
		kept = ""
	}
	t.Logf("artifacts in %s%s", dir, kept)
	var all []part
	for _, c := range cells {
		all = append(all, parts(c, windows[c])...)
	}
	for _, p := range all { // now, and not when its turn comes in an hour
		if err := history.Unused(filepath.Join(dir, p.name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("run", func(t *testing.T) {
		for n, lane := range packed(all, min(lanes(), len(all))) {
			t.Run(fmt.Sprint("lane", n+1), func(t *testing.T) {
				t.Parallel()
				for _, p := range lane {
					t.Run(p.name, func(t *testing.T) { runPart(t, p, filepath.Join(dir, p.name)) })
				}
			})
		}
	})
	var reports []judge.Report
	for _, p := range all {
		t.Run("judge/"+p.name, func(t *testing.T) {
			reports = append(reports, held(t, filepath.Join(dir, p.name)))
		})
	}
	slices.SortStableFunc(reports, func(a, b judge.Report) int { return strings.Compare(a.Run.Cell, b.Run.Cell) })
	tables := judge.Tables(reports)
	fmt.Println(tables)
	if err := os.WriteFile(filepath.Join(dir, "report.md"), []byte(tables), 0o600); err != nil {
		t.Error(err)
	}
}

func runPart(t *testing.T, one part, dir string) {
	clocks := slices.ContainsFunc(slices.Concat(one.faults...), func(n nemesis.Nemesis) bool { return n.Clocks })
	p := plan{
		cell: one.cell, seed: *seed, dir: dir, faults: one.faults, healthy: *healthy, window: *length, slack: *slack,
		minimum: history.Minimum{Triggers: 40 + 20*len(one.faults), Tasks: 150 + 50*len(one.faults)},
		arena:   arena.Options{Clocks: clocks, WhenDown: *whenDown},
	}
	if *onlyThese == "" {
		p.first = 30 * time.Second // figures of a cell in which nothing is broken, to compare with
	}
	run(t, p)
}

// held judges a run, and fails the test if a promise is broken.
func held(t *testing.T, dir string) judge.Report {
	report := judged(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "report.txt"), []byte(report.String()), 0o600); err != nil {
		t.Error(err)
	}
	t.Log(report)
	if !report.OK() {
		t.Errorf("%d violations of %v in %s with seed %d", len(report.Violations), report.Broken(), report.Run.Cell, report.Run.Seed)
	}
	return report
}

// choose settles the seed.
func choose(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", *seed)
}

// chosenFaults are the windows of a cell when none are named. Those that step the database's clock come last, see
// nemesis.Order.
func chosenFaults(c arena.Cell) (all [][]nemesis.Nemesis) {
	for _, n := range nemesis.All() {
		if n.FitsIn(c) {
			all = append(all, []nemesis.Nemesis{n})
		}
	}
	two := nemesis.AllPairs(c)
	if *pairs >= 0 {
		two = nemesis.Pairs(c, *seed, *pairs)
	}
	for _, p := range two {
		all = append(all, p[:])
	}
	slices.SortStableFunc(all, func(a, b []nemesis.Nemesis) int { return nemesis.Order(a) - nemesis.Order(b) })
	return all
}
