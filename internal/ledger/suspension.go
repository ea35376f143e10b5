package ledger

import "time"

// Suspension is the override of whether a job is suspended.
type Suspension struct {
	Suspended *bool     // nil: there is none, the definition holds
	Until     time.Time // it ends then, by the database's time; zero: when it is reset
}

// MostSkipped is how many of the next due times can be skipped.
const MostSkipped = 1000

// UntilPassed is what is wrong with an end that has passed.
const UntilPassed = "has passed, by the database's time; give a later time, or none"

// At is the override at a time: none once it has ended.
func (s Suspension) At(now time.Time) Suspension {
	if s.Suspended == nil || !s.Until.IsZero() && !now.Before(s.Until) {
		return Suspension{}
	}
	return s
}

// Holds reports whether a job is suspended by an override, or else by its definition.
func (s Suspension) Holds(defined bool) bool {
	if s.Suspended != nil {
		return *s.Suspended
	}
	return defined
}

// Resumes reports whether it resumes a job until it is reset. Of a job that its definition does not suspend there is nothing to resume from then on: no
// override says the same, and does not stand in the way of a definition that suspends the job later.
func (s Suspension) Resumes() bool { return s.Suspended != nil && !*s.Suspended && s.Until.IsZero() }
