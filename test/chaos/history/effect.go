package history

import "time"

// What a handler did.
const (
	Start  = "start"  // the first thing that a command does
	Beat   = "beat"   // every 100 ms while it works
	End    = "end"    // the last thing; missing if it was killed
	Open   = "open"   // an HTTP request arrived at the lane that lets everybody pass
	Fenced = "fenced" // an HTTP request arrived at the lane that compares tokens
)

// Effect is a line of effects.jsonl: one O_APPEND write by whoever did it. What it says of itself
// is what the attempt was given (LOCKSTEP_…, or the headers).
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
	PID         int  // of the command; 0 for requests
	Refused     bool // fenced: a larger token of this job (or task, if it has no job) was seen before
	Fails       bool // the handler ended with a failure on purpose
}

// Ask is a line of asks.jsonl: one call of a client, written when its answer is there or given up.
type Ask struct {
	What     string // "enqueue", "run", "cancel", "retry", "pause", "resume", "suspend"
	Target   string // pool, job or task id
	Key      string // idempotency key of an enqueue
	Called   time.Time
	Returned time.Time
	Answer   string   // "ok", "refused" (it surely did not happen), "unknown"
	Status   int      // HTTP; 0: none
	TaskIDs  []string // acknowledged
	Replica  string   // asked
	Error    string   // code of the answer, or of the connection
}

// Probe is a line of probes.jsonl: one look at a replica's readiness.
type Probe struct {
	At      time.Time
	Replica string
	Live    bool     // /healthz answered 200
	Ready   bool     // /readyz answered 200
	Red     []string // conditions of /readyz that do not hold, with reasons
}

// Stale is a line of stale.jsonl: the harness replayed a write with the token of an earlier owner.
type Stale struct {
	At      time.Time
	What    string // "finish", "extend", "handback", "beat", "release"
	TaskID  string
	Token   int64
	Refused bool // the caller was told that it owns nothing
	Changed bool // the row was another one afterwards
	Error   string
}

// Leftover is an item of leftovers.json.
type Leftover struct {
	What    string // "redis keys", "znodes", "processes", "fds of r1", "temp files"
	Before  int
	After   int
	Allowed int // how many more are no leak
}
