package scheduler

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Observer is told what a replica does, when it does it. The methods are called from many goroutines
// and must return quickly. A *metrics.Metrics is one; the state of the
// replica is in Vitals.
//
// An attempt is Started, then Ended, and then Recorded, HandedBack or Fenced, as the store answers: of several replicas, the one that has
// written the end is told that it was Recorded. It may be another one than that which was told that the attempt Started and Ended, if a server had
// accepted the work of the attempt and called that other one; and it alone is told of an attempt of a worker. In these and in
// Reaped the State of its task is what the task is now, or empty if the store does not say.
type Observer interface {
	// Decided is told of each row that this replica wrote into the ledger: due times that are
	// skipped or missed, or, without an outcome, one that is to run.
	Decided(t jobs.Trigger)
	// Claimed is told of each attempt to claim tasks of a pool.
	Claimed(c jobs.ClaimTry)
	// Started is told of each attempt, and how long after its task was due its handler is called: for
	// the first attempt at a due time that was not caught up, since that due time.
	Started(t jobs.Task, lag time.Duration)
	// Ended is told of each attempt whose handler has returned, the state in which it ended, and how long it took. The state
	// is empty if the handler could not start, for lack of memory or processes: the task is handed back. It is pending if the handler
	// snoozed the task.
	Ended(t jobs.Task, end jobs.State, took time.Duration)
	// Recorded is told of each end of an attempt that the store has written. A task that is pending now is retried, and if end is pending,
	// too, it was snoozed. late: the task had been declared lost, and this end replaced that.
	Recorded(t jobs.Task, end jobs.State, late bool)
	// HandedBack is told of each task that was claimed and did not start. It is as if it had not been claimed.
	HandedBack(t jobs.Task)
	// Fenced is told of each end that the store refused: the task has another owner, or none. end is empty for a task that
	// was to be handed back, and pending for one that was snoozed.
	Fenced(t jobs.Task, end jobs.State)
	// Reaped is told of each task that this replica freed from an expired session, which was that of replica.
	Reaped(t jobs.Task, replica string)
}

// unmeasured is the Observer of a replica without metrics.
type unmeasured struct{}

func (unmeasured) Decided(jobs.Trigger)                       {}
func (unmeasured) Claimed(jobs.ClaimTry)                      {}
func (unmeasured) Started(jobs.Task, time.Duration)           {}
func (unmeasured) Ended(jobs.Task, jobs.State, time.Duration) {}
func (unmeasured) Recorded(jobs.Task, jobs.State, bool)       {}
func (unmeasured) HandedBack(jobs.Task)                       {}
func (unmeasured) Fenced(jobs.Task, jobs.State)               {}
func (unmeasured) Reaped(jobs.Task, string)                   {}
