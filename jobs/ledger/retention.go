package ledger

import "time"

// Retention says how long ended things are kept. Zero means for ever.
type Retention struct {
	Triggers  time.Duration // and the audit
	Succeeded time.Duration
	Failed    time.Duration // failed, lost and cancelled tasks
	Output    time.Duration
}
