package history

import "time"

// Hold is a line of holds.jsonl: a program held a key, and its lease said that it may be trusted. At was read
// before the lease was asked.
type Hold struct {
	At     time.Time
	Holder string // the replica beside which the program runs, over the same edges
	Waiter string `json:",omitempty"` // of several that run there
	Key    string
	Kind   *Together `json:",omitempty"` // nil: alone
	Token  int64
}
