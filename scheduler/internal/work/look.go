package work

import (
	"context"
	"maps"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

const (
	// lookMost is how many tasks of one priority a look reads.
	lookMost = 1000
	// lookFor is how long claims go on where a look found work, while tasks of a higher priority may come.
	lookFor = pollSlow
	// lookAgain is how long passed tasks, which this replica cannot run, are left alone.
	lookAgain = backMost
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

// look returns which tasks to claim, and the pool's definition for that; false if this replica can run none. asked is for
// skip and back.
func (f *feeder) look(ctx context.Context) (scope ledger.Scope, under plan.Governing, asked int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	scope, asked = f.scope()
	under = f.governs
	if len(scope.SkipJobs) == 0 && scope.Kinds == nil {
		return scope, under, asked, true
	}
	if f.seen.work == nil || time.Since(f.seen.looked) > lookFor {
		past := f.seen.ask(time.Now())
		f.mu.Unlock()
		cctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		seen, err := f.s.store.Look(cctx, f.pool.Name, ledger.Look{Scope: scope, Past: past, Most: lookMost})
		cancel()
		f.mu.Lock()
		if asked != f.unskips {
			wake.Send(f.wake) // the answer is older than unskip
			return scope, under, asked, false
		}
		if err != nil {
			f.s.member.StoreFailed(err)
			return scope, under, asked, false
		}
		f.seen.tell(time.Now(), seen)
	}
	scope.Within = f.seen.work
	return scope, under, asked, scope.Within != nil
}

// lookOn makes the next claim look first: nothing is left to claim where the last look found work.
func (f *feeder) lookOn() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen.work = nil
}
