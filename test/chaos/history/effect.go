package history

import "time"

// What a handler did.
const (
	Start  = "start"  // the first thing that a command does
	Beat   = "beat"   // every 100 ms while it works
	End    = "end"    // the last thing; missing if it was killed
	Open   = "open"   // an HTTP request arrived at the lane without a check
	Fenced = "fenced" // an HTTP request arrived at the lane that compares tokens
)

// Effect is a line of effects.jsonl: one O_APPEND write of a handler. Its attempt is described as its variables
// or headers say (LOCKSTEP_…).
type Effect struct {
	What        string
	At          time.Time
	Key         string // idempotency key: the same over all attempts
	Job         string // empty for tasks of clients
	Pool        string
	TaskID      string
	ScheduledAt time.Time // nominal; zero for tasks of clients
	Attempt     int
	Token       int64
	Replica     string
	PID         int   // of the command; 0 for requests
	Refused     bool  // fenced: a larger token of this job (or task, if it has no job) was seen before
	Fails       bool  // the handler ended with a failure on purpose
	LockToken   int64 `json:",omitempty"` // of the one lock of its locks:; 0: it has none
}

// Does is what a task of a client does: the payload, for commands and for requests.
type Does struct {
	IgnoresTerm bool   `json:"ignores_term"`
	Takes       string `json:"takes"` // a duration; empty: no time
	Fails       int    `json:"fails"` // so many attempts fail, the first ones
}
