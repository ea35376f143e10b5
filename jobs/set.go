package jobs

import "regexp"

// DefaultPool is the pool of jobs that name none.
const DefaultPool = "default"

// NamePattern is what names of jobs, pools and kinds look like. Names are unique without regard
// to case; "default" and "notifications" are taken, also where a Set does not define them.
var NamePattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)

// Set is what one replica knows: its jobs and its pools, by name. The zero Set is valid and empty.
// The pool "default" exists always, and "notifications" where something notifies; a Set may define
// them to change their limits.
type Set struct {
	Name  string // prefix of idempotency keys and the lock namespace; empty: none
	Jobs  map[string]Job
	Pools map[string]Pool
}
