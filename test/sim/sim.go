// Package sim runs whole clusters of replicas in simulated time: the real scheduler and the real portable
// lock, on a store and a lock service in memory, under faults that a seed draws.
//
// A seed draws everything in advance: jobs with their due times and policies, pools, the number of
// replicas, what handlers do, what users ask for, and what breaks when. A simulation is some ten seconds of
// work, and outages of up to half a day, in which nobody runs and which therefore cost nothing: the replicas'
// loops look at the store several times a second, so a whole day of them would cost seconds.
//
//	plan.go, faults.go, draw.go        what the seed draws
//	world.go, steps.go, quiesce.go     a plan as it is lived through, until all has come to rest
//	weather.go, edge.go, edgecalls.go  what lies between a process and the store
//	lockedge.go, ids.go                and the lock service, and the clock by which it mints ids
//	node.go, replica.go, life.go       processes that freeze, die and drain
//	handler.go                         and what they run
//	seen.go, history.go, tape.go       what happened, and what the replicas said of it
//	watch.go, ledger.go                what was written, row by row, and what ran in fact
//	oracle.go, judge.go                when things were due, by arithmetic on periods, and whether all that is right
//	forgotten.go                       and whether somebody keeps a lock that he has forgotten
//
// What a process does while it is frozen waits at its edges: calls, answers, and the starts and ends of handlers.
// The wall clock of a process counts where the product reads it: in the ids that it mints.
//
// A seed decides all but the order of goroutines that are ready at the same moment. So a failure may
// take some runs of its seed to come again: make sim SEED=7 COUNT=20.
//
// docs/reliability.md says which mistakes of a scheduler the judge has noticed.
package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// tally is what was seen over many seeds.
type tally struct {
	mu      sync.Mutex
	seeds   int
	failed  int
	counted map[string]int // things that happened
	applied map[string]int // faults that struck, by kind
}

// runSeed simulates one seed. A violation fails t, with the plan and what happened to the job or task that it
// is about.
func runSeed(t *testing.T, seed uint64, all *tally) {
	t.Helper()
	p := newPlan(seed)
	w := simulate(t, p, nil)
	all.add(w)
	if len(w.violations) == 0 {
		return
	}
	var b strings.Builder
	for _, v := range w.violations {
		fmt.Fprintf(&b, "%s\n", v.text)
	}
	first := w.violations[0]
	t.Errorf("seed %d:\n%s\nto see it again: make sim SEED=%d   (goroutines may run in another order: COUNT=20 tries it 20 times)\n\n%s\nwhat happened to %s:\n%s",
		seed, &b, seed, p, first.about, w.story(first.about, 120))
}

// simulate runs a plan. The replicas have the store by way of between, where that is not nil.
func simulate(t *testing.T, p *plan, between func(ledger.Store) ledger.Store) (w *world) {
	synctest.Test(t, func(*testing.T) {
		w = newWorld(p)
		w.between = between
		w.run()
	})
	return w
}

func (y *tally) add(w *world) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.counted == nil {
		y.counted, y.applied = map[string]int{}, map[string]int{}
	}
	y.seeds++
	if len(w.violations) > 0 {
		y.failed++
	}
	for what, n := range w.counted {
		y.counted[what] += n
	}
	for kind, n := range w.weather.applied {
		y.applied[kind] += n
	}
}

// missing names what no seed has shown: a run that lacks some of it proves nothing about it.
func (y *tally) missing() (missing []string) {
	for _, kind := range faultKinds {
		if y.applied[kind] == 0 {
			missing = append(missing, "fault "+kind)
		}
	}
	for _, what := range []string{
		"triggers", "tasks", "starts", "outcome ran", "outcome skipped", "outcome missed", "outcome lost", "task succeeded", "task failed",
		"task lost", "task cancelled", "late", "finish fenced", "manual runs", "manual retries", "cancels", "overlaps", "stale effects refused",
	} {
		if y.counted[what] == 0 {
			missing = append(missing, what)
		}
	}
	return missing
}

// String is the tally for people. What was simulated is to follow it, as the last line.
func (y *tally) String() string {
	return fmt.Sprintf("faults: %s\nseen: %s\n%d simulated, %d failed: ", list(y.applied), list(y.counted), y.seeds, y.failed)
}

func list(all map[string]int) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, all[what]))
	}
	return strings.Join(parts, ", ")
}
