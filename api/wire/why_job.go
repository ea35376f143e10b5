package wire

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// WhyJob says why a due time of a job ran, did not run, or when and whether it will. It is as the store was at ReadAt; what replicas and the lock
// service alone know was read right after that.
type WhyJob struct {
	Job     string    `json:"job"`
	At      time.Time `json:"at,omitzero"`     // the due time; absent: there is no further one
	Local   string    `json:"local,omitempty"` // the same in the zone of the job
	ReadAt  time.Time `json:"read_at"`         // the store's time of the read
	Summary string    `json:"summary"`         // one sentence
	Causes  []Cause   `json:"causes"`          // at least one, the most important first

	Trigger    *WhyTrigger    `json:"trigger,omitempty"`    // the row of the ledger that covers it
	ByHand     []jobs.Trigger `json:"by_hand,omitempty"`    // of the same moment, that no schedule asked for
	Definition *Definition    `json:"definition,omitempty"` // that it was decided under, or that governs
	Before     time.Time      `json:"before,omitzero"`      // the due times next to it, of what was not due
	After      time.Time      `json:"after,omitzero"`
}

// WhyTrigger is a row of the ledger, and how it was decided.
type WhyTrigger struct {
	jobs.Trigger
	Late        string `json:"late,omitempty"`         // a Go duration: from the due time to the decision
	Overdue     bool   `json:"overdue,omitempty"`      // another replica decided it than the owner of its stripe
	ClockOffset string `json:"clock_offset,omitempty"` // a Go duration: how far the decider's clock was ahead of the database's
	Took        string `json:"took,omitempty"`         // a Go duration: how long the store took for the decision
	LockTook    string `json:"lock_took,omitempty"`    // a Go duration: for how long locks were waited for before its task started; absent: for none, or it is not known
	Attempts    int    `json:"attempts,omitempty"`     // of its task, that have started
}
