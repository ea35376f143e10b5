package jobs

import "time"

// Cause says why a trigger exists.
type Cause string

const (
	CauseSchedule Cause = "schedule"
	CauseCatchUp  Cause = "catch_up"
	CauseManual   Cause = "manual"
	CauseBackfill Cause = "backfill"
)

// Outcome is how a trigger ended; empty while it is open.
type Outcome string

const (
	Ran     Outcome = "ran"     // at least one attempt started and the last one ended
	Skipped Outcome = "skipped" // decided not to run; the reason says why
	Missed  Outcome = "missed"  // nobody could decide it in time
	Lost    Outcome = "lost"    // the owner died and no retry is due
)

// Trigger is one row of the ledger: a due time of a job. A missed or skipped one may stand for a
// range of Count due times from At to Until.
type Trigger struct {
	Job        string
	At         time.Time // nominal, UTC
	Seq        int       // 0 = schedule; each due time has exactly one such row. Manual runs have more
	Until      time.Time // zero unless a range
	Count      int       // due times covered, ≥ 1
	Cause      Cause
	By         string // who asked, for manual runs
	Outcome    Outcome
	Reason     string
	Result     State // of the task, once it ended
	TaskID     string
	Replica    string // who decided it
	DecidedAt  time.Time
	StartedAt  time.Time
	FinishedAt time.Time
}
