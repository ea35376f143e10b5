package history

import (
	"strings"
	"time"
)

// Worker is a line of workers.jsonl, written when a process has ended that took tasks over HTTP.
type Worker struct {
	Name    string // "w2.7", the seventh process of w2; the ids of its sessions are this, "-", and a random part
	PID     int
	Started time.Time
	Ended   time.Time
	Exit    int    // exit code; -1 after a signal
	How     string // "killed", "stopped", "ended" (by itself)
	Log     string // file below logs/
}

// WorkerOf is the name of the process that an id of a worker's session has; empty: it is the id of a replica.
func WorkerOf(id string) string {
	name, _, _ := strings.Cut(id, "-")
	if !strings.Contains(name, ".") {
		return ""
	}
	return name
}

// WorkerNamed is what a window says it strikes, of an id of a worker's session: w2, whichever its process; empty: it is the id of a replica.
func WorkerNamed(id string) string {
	name, _, _ := strings.Cut(WorkerOf(id), ".")
	return name
}

// Said is a line of said.jsonl: one call of a worker about an attempt, after its answer, or after it came too late. Of heartbeats and
// claims only those are there that were answered with 500, and those with Stale.
type Said struct {
	What   string    // "complete", "fail", "snooze", "heartbeat", "claim"
	At     time.Time // after the answer
	Worker string    // the id of its session
	TaskID string
	Token  int64
	Stale  bool   // on purpose: the token is that of an earlier attempt, and the session runs a later one of the task
	Status int    // HTTP; 0: no answer
	Code   string // of an error
}
