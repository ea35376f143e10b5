package ledger

import "time"

// JobStanding is how a live job stands: one that the governing configuration has.
type JobStanding struct {
	Name        string
	Suspended   *bool     // override; nil = none
	Failing     bool      // from a failed, lost or missed end to the next success
	LastSuccess time.Time // when a run of it ended well for the last time; zero: never
	// Unmet is the first due time since LastSuccess, of those in the ledger that were not skipped
	// because the job was suspended, or by hand; zero: none.
	Unmet  time.Time
	NextAt time.Time // next due time, which may start later; zero: none
}
