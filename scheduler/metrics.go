package scheduler

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Observer is told what a replica does, when it does it. The methods are called from many goroutines
// and must return quickly. A *metrics.Metrics is one; the state of the
// replica is in Vitals.
type Observer interface {
	// Decided is told of each row that this replica wrote into the ledger: due times that are
	// skipped or missed, or, without an outcome, one that is to run.
	Decided(t jobs.Trigger)
	// Claimed is told of each attempt to claim tasks of a pool.
	Claimed(c ledger.ClaimTry)
	// Started is told of each attempt, and how long after its task was due its handler is called: for
	// the first attempt at a due time that was not caught up, since that due time.
	Started(t jobs.Task, lag time.Duration)
	// Ended is told of each attempt whose handler has returned, its result, and how long it took.
	Ended(t jobs.Task, r ledger.Result, took time.Duration)
	// Recorded is told what the store did with a result, which may be a HandBack.
	Recorded(t jobs.Task, r ledger.Result, f ledger.Finished)
	// Reaped is told of each task that this replica freed from an expired session.
	Reaped(r ledger.Reaped)
}

// unmeasured is the Observer of a replica without metrics.
type unmeasured struct{}

func (unmeasured) Decided(jobs.Trigger)                               {}
func (unmeasured) Claimed(ledger.ClaimTry)                            {}
func (unmeasured) Started(jobs.Task, time.Duration)                   {}
func (unmeasured) Ended(jobs.Task, ledger.Result, time.Duration)      {}
func (unmeasured) Recorded(jobs.Task, ledger.Result, ledger.Finished) {}
func (unmeasured) Reaped(ledger.Reaped)                               {}
