package work

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

const (
	// lookMost is how many tasks of one priority a look reads.
	lookMost = 1000
	// lookFor is how long claims go on where a look found work, while tasks of a higher priority may come.
	lookFor = pollSlow
	// lookAgain is how long passed tasks, which this replica cannot run, are left alone.
	lookAgain = maxBackoff
	// skipMost is how many jobs a claim leaves out: each is an argument of its statement. Tasks beyond them
	// that cannot be run here stay in front of the rest until another replica has claimed some.
	skipMost = 1000
	// maxBackoff is how long, at most, the poll leaves a pool alone whose claims find nothing to take.
	maxBackoff = 10 * time.Second
)

// lookout is where a feeder looks for tasks that this replica can run, in a pool with tasks that it cannot. It passes
// those in front, lookMost in each look, and from then on looks behind them, where new tasks are added. A task may also
// come among those that were passed (a retry does, and one that was handed back): so after each lookAgain a second walk
// passes them once more, in turn with looks at the tasks behind.
type lookout struct {
	work    *ledger.Window // where to claim; nil: look first
	looked  time.Time
	past    map[int]time.Time // by priority: passed up to this run_at
	again   map[int]time.Time // by the second walk; nil: none is under way
	next    time.Time         // when the second walk begins
	turn    bool              // the next look is one of the second walk
	nothing bool              // the last look reached the end, and there is nothing to claim
}

// ask returns, for the next look, up to where tasks are passed.
func (l *lookout) ask(now time.Time) map[int]time.Time {
	if l.again == nil && len(l.past) > 0 && !now.Before(l.next) {
		l.again, l.turn = map[int]time.Time{}, true
	}
	if l.turn {
		return maps.Clone(l.again)
	}
	return maps.Clone(l.past)
}

// tell takes the answer of a look.
func (l *lookout) tell(now time.Time, seen ledger.Seen) {
	l.work, l.looked = seen.Work, now
	ended := seen.Work == nil && len(seen.Past) == 0
	switch {
	case l.turn && ended:
		l.past, l.again, l.next = l.again, nil, now.Add(lookAgain)
	case l.turn:
		maps.Copy(l.again, seen.Past)
	default:
		if len(l.past) == 0 {
			l.past, l.next = map[int]time.Time{}, now.Add(lookAgain)
		}
		maps.Copy(l.past, seen.Past)
	}
	l.turn = !l.turn && l.again != nil
	l.nothing = ended && l.again == nil
}

// look returns which tasks to claim, and the definitions of the plan and the pool for that; false if this replica can run none. asked is for
// skip and backOff.
func (f *feeder) look(ctx context.Context) (scope ledger.Scope, p *plan.Plan, under plan.Governing, asked int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	scope, asked = f.scope()
	p, under = f.plan, f.known()
	if len(scope.SkipJobs) == 0 && scope.Kinds == nil {
		return scope, p, under, asked, true
	}
	if f.seen.work == nil || time.Since(f.seen.looked) > lookFor {
		past := f.seen.ask(time.Now())
		f.mu.Unlock()
		cctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		seen, err := f.executor.store.Look(cctx, f.name, ledger.Look{Scope: scope, Past: past, Most: lookMost})
		cancel()
		f.mu.Lock()
		if asked != f.forgets {
			wake.Send(f.wake) // the answer is older than forget
			return scope, p, under, asked, false
		}
		if err != nil {
			f.executor.member.StoreFailed(err)
			return scope, p, under, asked, false
		}
		f.seen.tell(time.Now(), seen)
	}
	scope.Within = f.seen.work
	return scope, p, under, asked, scope.Within != nil
}

// lookOn makes the next claim look first: nothing is left to claim where the last look found work.
func (f *feeder) lookOn() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen.work = nil
}

// skip remembers up to skipMost jobs that this replica cannot run, so that their tasks are not in front of the rest, and
// reports whether to ask again: there was something new, or the answer is older than forget. The number of kinds that it
// cannot run has no bound: it remembers that there are some, and from then on asks for those that it knows.
func (f *feeder) skip(asked int, foreign []jobs.Task) (learned bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if asked != f.forgets {
		return true
	}
	for _, t := range foreign {
		switch {
		case t.Job == "":
			learned = learned || !f.byKind
			f.byKind = true
			f.executor.meetUnknown()
		case len(f.skipJobs) < skipMost && !slices.Contains(f.skipJobs, t.Job):
			f.skipJobs, learned = append(f.skipJobs, t.Job), true
		}
	}
	return learned
}

// skips reports whether tasks of a job are left out, as this replica cannot run them.
func (f *feeder) skips(job string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return job != "" && slices.Contains(f.skipJobs, job)
}

// askForAll makes the feeder of a pool in which nothing waits ask for tasks of all kinds again, and reports whether it
// asks only for those that this replica knows.
func (f *feeder) askForAll(idle bool) (byKind bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if idle && f.byKind {
		f.byKind, f.seen = false, lookout{}
	}
	return f.byKind
}

// forget forgets which jobs could not be run: this replica may govern them again. The caller holds f.mu.
func (f *feeder) forget() {
	f.skipJobs = nil
	f.seen = lookout{}
	f.fruitless, f.notBefore = 0, time.Time{}
	f.forgets++
}

// scope is which tasks to ask for. asked is for skip and backOff. The caller holds f.mu.
func (f *feeder) scope() (scope ledger.Scope, asked int) {
	scope.SkipJobs = slices.Clone(f.skipJobs)
	if kinds := f.governs.KindsOf(f.pool); f.byKind || len(kinds) < len(f.pool.KindNames) {
		scope.Kinds = kinds
	}
	return scope, f.forgets
}

// backOff makes the poll leave the pool alone for a while, longer each time, after a claim that found nothing to take
// although the pool has work; any other claim ends that.
func (f *feeder) backOff(asked int, fruitless bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case asked != f.forgets:
	case fruitless:
		f.notBefore = time.Now().Add(min(pollSlow<<min(f.fruitless, 10), maxBackoff))
		f.fruitless++
	default:
		f.fruitless, f.notBefore = 0, time.Time{}
	}
}

// forPoll reports whether the poll is to wake the feeder if the pool has tasks that are due, and whether those count
// as work: not while claims find nothing, and not tasks that this replica cannot run, or that it takes without being told, as its last
// claim has left some behind.
func (f *feeder) forPoll() (wake, work bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wake, work = !time.Now().Before(f.notBefore), f.fruitless == 0 && !f.seen.nothing && !f.more
	f.polled = wake && work
	return wake, work
}

// noteArrival notes that tasks were taken that the poll had found, and nobody had told of; but not those that had waited for their keys, nor
// the last ones that the limits let start: they may have waited for that.
func (f *feeder) noteArrival(got ledger.Claimed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.polled && len(got.Tasks) > got.Freed && !limitReached(got) {
		f.arrival = time.Now()
	}
	f.polled = false
}

// tasksArrive reports whether there was an arrival within arrivalsFor, unless the feeder takes what comes without being told.
func (f *feeder) tasksArrive() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.more && !f.arrival.IsZero() && time.Since(f.arrival) < arrivalsFor
}
