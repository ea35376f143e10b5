package work

import (
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

const (
	// skipMost is how many jobs a claim leaves out: each is an argument of its statement. Tasks beyond them
	// that cannot be run here stay in front of the rest until another replica has claimed some.
	skipMost = 1000
	// backMost is how long, at most, the poll leaves a pool alone whose claims find nothing to take.
	backMost = 10 * time.Second
)

// skip remembers up to skipMost jobs that this replica cannot run, so that their tasks are not in front of the rest, and
// reports whether to ask again: there was something new, or the answer is older than unskip. The number of kinds that it
// cannot run has no bound: it remembers that there are some, and from then on asks for those that it knows.
func (f *feeder) skip(asked int, foreign []jobs.Task) (learned bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if asked != f.unskips {
		return true
	}
	for _, t := range foreign {
		switch {
		case t.Job == "":
			learned = learned || !f.byKind
			f.byKind = true
			f.s.meetUnknown()
		case len(f.skipJobs) < skipMost && !slices.Contains(f.skipJobs, t.Job):
			f.skipJobs, learned = append(f.skipJobs, t.Job), true
		}
	}
	return learned
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

// unskip forgets which jobs could not be run: this replica may govern them again.
func (f *feeder) unskip() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget()
}

// forget is unskip for a caller that holds f.mu.
func (f *feeder) forget() {
	f.skipJobs = nil
	f.seen = lookout{}
	f.vain, f.notBefore = 0, time.Time{}
	f.unskips++
}

// scope is which tasks to ask for. asked is for skip and back. The caller holds f.mu.
func (f *feeder) scope() (scope ledger.Scope, asked int) {
	scope.SkipJobs = slices.Clone(f.skipJobs)
	if kinds := f.governs.KindsOf(f.pool); f.byKind || len(kinds) < len(f.pool.KindNames) {
		scope.Kinds = kinds
	}
	return scope, f.unskips
}

// back makes the poll leave the pool alone for a while, longer each time, after a claim that found nothing to take
// although the pool has work; any other claim ends that.
func (f *feeder) back(asked int, vain bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case asked != f.unskips:
	case vain:
		f.notBefore = time.Now().Add(min(pollSlow<<min(f.vain, 10), backMost))
		f.vain++
	default:
		f.vain, f.notBefore = 0, time.Time{}
	}
}

// eager reports whether the poll is to wake the feeder if the pool has tasks that are due, and whether those count
// as work: not while claims find nothing, and not tasks that this replica cannot run.
func (f *feeder) eager() (wake, work bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !time.Now().Before(f.notBefore), f.vain == 0 && !f.seen.nothing
}
