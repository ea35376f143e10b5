package jobs

// Set is what one replica knows: its jobs, its pools and its calendars, by name. The zero Set is valid and empty.
// The pool "default" exists always, and "notifications" where something notifies; a Set may define
// them to change their limits. Names are unique without regard to case.
type Set struct {
	Name  string // prefix of idempotency keys and the lock namespace; empty: none
	Jobs  map[string]Job
	Pools map[string]Pool

	Calendars map[string]Calendar // that jobs name in their Calendars

	Ping Ping // who is told outside that the replicas work
}
