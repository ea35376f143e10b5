package history

import "time"

// How a run of "locks exec" ended.
const (
	ExecEnded  = "ended"  // by itself
	ExecKilled = "killed" // it was killed, and its helper was not
	ExecFrozen = "frozen" // it stood still for longer than the lock's ttl, and went on
)

// Exec is a line of execs.jsonl: a run of "scheduler locks exec" beside a replica, with the replica's configuration and
// over its edges. It is written when that has ended.
type Exec struct {
	Name   string // unique in the run; its command is told
	Beside string // the replica
	Key    string // as it was asked for
	Wait   time.Duration
	Began  time.Time
	Struck time.Time // after it was killed, or stopped; zero: it ended by itself
	How    string
	Ended  time.Time
	Exit   int    // exit code; -1 after a signal
	Log    string // file below logs/; several have one
}

// Locked is a line of locked.jsonl: one O_APPEND write of a command under "locks exec".
type Locked struct {
	What  string // Start, Beat or End, as those of an Effect
	At    time.Time
	Exec  string // the name of its Exec
	Key   string // as LOCKSTEP_LOCK has it
	Token int64
	PID   int
}
