package jobs

import "time"

// Retention says how long ended things are kept.
type Retention struct {
	Triggers  time.Duration // and the audit
	Succeeded time.Duration
	Failed    time.Duration // failed, lost and cancelled tasks
	Output    time.Duration
}
