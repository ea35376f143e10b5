package history

import "time"

// Hold is a line of holds.jsonl: a program that takes locks for itself had a key, and was told by
// its lease that it may trust that. It was so at At, which was read before the lease was asked.
type Hold struct {
	At     time.Time
	Holder string // the replica beside which the program runs, over the same edges
	Key    string
	Token  int64
}
