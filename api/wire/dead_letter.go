package wire

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// DeadLetters are the tasks of a pool that failed, or were lost, for good in the same way, and were not retried since: those with the same
// fingerprint, see [jobs.Fingerprint].
type DeadLetters struct {
	Pool        string      `json:"pool"`
	Kind        string      `json:"kind,omitempty"`
	Job         string      `json:"job,omitempty"`
	Fingerprint string      `json:"fingerprint"`
	State       jobs.State  `json:"state"` // failed or lost
	ReasonCode  reason.Code `json:"reason_code,omitempty"`
	Error       string      `json:"error,omitempty"`    // of the task TaskID: the first 1 KiB
	Reason      string      `json:"reason,omitempty"`   // of the same
	Count       int         `json:"count"`              // how many they are, 1,000 at most
	AtLeast     bool        `json:"at_least,omitempty"` // there are more than Count
	First       time.Time   `json:"first"`              // when the first of them ended; with AtLeast, when the one did that was enqueued first
	Last        time.Time   `json:"last"`               // when the last of them ended; with AtLeast, of the 1,000 that were enqueued last
	TaskID      string      `json:"task_id"`            // the one that was enqueued last
}

// DeadLetterFilter selects groups of dead letters, in the order of pool and fingerprint. A page has 100 at most, and may have fewer than its
// limit, or none, before the last.
type DeadLetterFilter struct {
	Pool        string
	Fingerprint string // with Pool: the one group with it, or none
	Page
}
