package jobs

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

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
	Missed  Outcome = "missed"  // it could not be decided in time
	Lost    Outcome = "lost"    // the owner died and no retry is due
)

// Trigger is one row of the ledger: a due time of a job. A missed or skipped one may stand for a
// range of Count due times from At to Until.
type Trigger struct {
	Job        string      `json:"job"`
	At         time.Time   `json:"at"`             // nominal, UTC
	Seq        int         `json:"-"`              // 0 = schedule; each due time has exactly one such row. Manual runs have more
	Until      time.Time   `json:"until,omitzero"` // zero unless a range
	Count      int         `json:"count"`          // due times covered, ≥ 1
	Cause      Cause       `json:"cause"`
	By         string      `json:"by,omitempty"`    // the user that asked, for manual runs and backfills
	Order      string      `json:"order,omitempty"` // the id of the order that it was made for
	Outcome    Outcome     `json:"outcome,omitempty"`
	Reason     string      `json:"reason,omitempty"`      // why it ended so, for people
	ReasonCode reason.Code `json:"reason_code,omitempty"` // the same for programs
	Result     State       `json:"result,omitempty"`      // of the task, once it ended
	TaskID     string      `json:"task_id,omitempty"`
	Replica    string      `json:"replica,omitempty"` // that decided it
	// Definition is the one that the job had then, as the job's history names it; Config is the number of the decider's configuration. They are
	// empty in rows by older programs.
	Definition string    `json:"definition,omitempty"`
	Config     int64     `json:"config,omitempty"`
	DecidedAt  time.Time `json:"decided_at,omitzero"`
	StartedAt  time.Time `json:"started_at,omitzero"`
	FinishedAt time.Time `json:"finished_at,omitzero"` // as that of its task
}
