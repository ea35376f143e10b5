// Package sim runs clusters of replicas in simulated time: the real scheduler and the real portable lock, on a
// store and a lock service in memory, under faults that a seed draws.
//
//	plan (seed) ──▶ steps: faults, calls ──▶ heal ──▶ quiesce ──▶ finish ──▶ judge
//	                  each commit: watch;  each start and end of an attempt: ledger
//
// A seed draws everything in advance: jobs with their due times and policies, pools, the number of replicas,
// the behaviour of handlers, calls of clients, and faults with their times. A simulation is some ten seconds of
// work, and outages of up to half a day, in which no replica runs and which therefore cost nothing: the
// replicas' loops call the store several times a second, so a whole day of them would cost seconds.
//
//	plan.go, faults.go, draw.go        what the seed draws
//	world.go, steps.go, quiesce.go     the run of a plan, until it has come to rest
//	weather.go, edge.go, edgecalls.go  faults between a process and the store
//	lockedge.go, ids.go                and the lock service, and the clock of its ids
//	node.go, replica.go, process.go    processes that freeze, are killed and drain
//	handler.go                         and their handlers
//	seen.go, history.go, tape.go       the history, and the logs of replicas
//	watch.go, ledger.go                checks of each row, and of each attempt
//	oracle.go, judge.go                due times by arithmetic on periods, and the checks at the end
//	definitions.go                     the definitions that attempts run by
//	orders.go, orders_judge.go         runs at a time and backfills
//	schedules.go, fields.go, zones.go  and those of fields in zones, by a walk
//	catch_up.go                        and which of them run late
//	calendars.go                       and what calendars leave out, by intervals
//	delays.go                          spread and jitter
//	priorities.go, codes.go            priority, and retries.on
//	notify.go, notify_judge.go         events and notifications
//	forgotten.go, keys.go              and of locks that are held too long, and those of jobs
//
// While a process is frozen its calls, answers, and the starts and ends of handlers wait. The wall clock of a
// process is simulated where the product reads it: in the ids that it mints.
//
// A seed decides all but the order of goroutines that are ready at the same moment. So a failure may take some
// runs of its seed to repeat: make sim SEED=7 COUNT=20.
//
// docs/reliability.md lists the bugs of a scheduler that the judge has found.
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

// tally counts the events of many seeds.
type tally struct {
	mu      sync.Mutex
	seeds   int
	failed  int
	counted map[string]int // things that happened
	applied map[string]int // faults that struck, by kind
}

// runSeed simulates one seed. A violation fails t, with the plan and the history of the job or task that it is
// about.
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
		seed, &b, seed, p, first.about, w.story(first.about, 250))
}

// simulate runs a plan. The replicas use the store through between, if that is not nil.
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

// missing names what no seed has shown: a run without it proves nothing about it.
func (y *tally) missing() (missing []string) {
	for _, kind := range faultKinds {
		if y.applied[kind] == 0 {
			missing = append(missing, "fault "+kind)
		}
	}
	for _, what := range []string{
		"triggers", "tasks", "starts", "outcome ran", "outcome skipped", "outcome missed", "outcome lost", "task succeeded", "task failed",
		"task lost", "task cancelled", "late", "finish fenced", "starts with a lock", "locks held together", "waits for a lock", "waits abandoned", "starts with a key", "starts of a limited kind", "starts with jitter", "starts with spread", "starts with jitter and a calendar", "tasks expired", "progress", "chunk", "manual runs", "manual retries", "cancels", "waits for a slot", "slots after a wait", "skipped queue_full", "skipped replaced", "task replaced", "suspended after failures", "starts where a pool runs", "left out", "left out before an edit", "pools edited", "pools removed", "waits for its pool", "put off", "claimed before others", "not retried", "retried by its code", "caught up latest", "caught up all", "missed beyond a limit", "cancelled with its job", "timed out", "starts by an older version", "activated", "orders run", "orders backfill", "orders cancelled", "order done", "order skipped", "order cancelled", "runs of orders", "due at @at", "due at a jump", "due in a zone", "due within bounds", "due by L", "due by W", "due by #", "due by H", "overlaps", "stale effects refused", "event started", "event succeeded", "told started", "told succeeded", "told late", "told suspended", "told again", "ends recorded later", "pauses of a pool that fails", "told paused",
	} {
		if y.counted[what] == 0 {
			missing = append(missing, what)
		}
	}
	return missing
}

// String is the tally as text. The last line should name the seeds.
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
