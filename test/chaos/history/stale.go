package history

import "time"

// Stale is a line of stale.jsonl: a replayed write with the token of an earlier owner.
type Stale struct {
	At      time.Time
	What    string // "finish", "extend", "report", "output", "handback", "beat", "release"
	TaskID  string
	Token   int64
	Refused bool // the write was refused
	Changed bool // the row was another one afterwards
	Error   string
}
