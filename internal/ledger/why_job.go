package ledger

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// JobQuestion asks about a due time of a job.
type JobQuestion struct {
	Job string
	At  time.Time // zero: the next one that is not decided

	// As far as the asker knows: where the job's tasks run, so that what would hold up the next one is looked for.
	Pool, Kind string
}

// JobFacts are what the store knows of a due time of a job, at one moment. Package why explains them.
type JobFacts struct {
	At        time.Time // the store's time
	Job       JobStatus // its row
	BusyUntil time.Time // a lost attempt may run until then
	About     time.Time // the due time; zero: no further one was asked about, and there is none

	Row           *DecidedRow      // of the schedule, which covers About; nil: none does
	ByHand        []jobs.Trigger   // at About that no schedule asked for
	Orders        []Order          // that these were made for
	Before, After *jobs.Trigger    // the nearest rows of the schedule; nil: none
	First         time.Time        // due time of the oldest row of the job; zero: there is none
	Known         time.Time        // when its first definition that is known began to govern; zero: none is
	Definition    *wire.Definition // that the row was decided under, or that governed at About; nil: it is not known
	Task          *jobs.Task       // of the row; nil: it has none, or it is not kept any more
	Named         *jobs.Task       // that the reason of the row names, as what had the slot; nil: none
	Suspension    wire.AuditEntry  // the last suspension of the job by the API before it was decided, or until now; zero: none is known
	Quiet         *Quiet           // of a row that was decided late; nil: it was not

	// Of what was not decided yet:
	Open  []jobs.Task // of the job, the first WhyTasks by id
	OpenN Count       // all of them
	Lost  []LostTask  // whose attempts may run
	Next  Facts       // of a pending task that a due time would make: what its pool and the replicas are like
}

// DecidedRow is a row of the ledger with what its decider has measured.
type DecidedRow struct {
	jobs.Trigger
	Overdue     bool          // its decider looked for what the owner of its stripe had left
	ClockOffset time.Duration // how far the decider's clock was ahead of the database's
	Took        time.Duration // from the call of the decider until the row was written; 0: not recorded
	LockTook    time.Duration // for how long the locks were waited for before its task started; 0: not recorded, or no lock was asked for
}

// Late is how long after its due time it was decided; that of a range is that of its last due time.
func (r DecidedRow) Late() time.Duration {
	if at := r.At; r.Until.After(at) {
		return r.DecidedAt.Sub(r.Until)
	}
	return r.DecidedAt.Sub(r.At)
}

// Quiet is what the ledger and the sessions show of the time from a due time until it was decided.
type Quiet struct {
	From, Until time.Time     // nothing was decided between them; From is zero: as far back as was looked
	Other       *jobs.Trigger // a due time of some job that was decided meanwhile; nil: none was found
	Live        []Peer        // sessions of replicas that are known to have lived at the due time
	Decider     *Peer         // the session of the decider, if it joined after the due time

	Paused  wire.AuditEntry // the pause of everything that held decisions back then; zero: none is known
	Resumed wire.AuditEntry // what ended it; zero: it ended by itself
}
