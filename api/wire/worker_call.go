package wire

import (
	"encoding/json"
	"time"
)

// WorkerCaller is who calls for a worker.
type WorkerCaller struct {
	Owner string   // the name of its token; empty without access control
	Pools []string // that it may take tasks of; nil: any
}

// WorkerClaim asks for tasks for a worker.
type WorkerClaim struct {
	WorkerCaller
	Session string   // empty: a new one is opened
	Name    string   // of a new one's worker: its id is this and a random part
	Pool    string   // of the session
	Kinds   []string // that the worker knows; "" is for tasks without a kind. Nil: those of the session, or of a new one tasks without a kind
	Max     int      // how many tasks, ≥ 1
	Wait    time.Duration
	// Have are the ids of the tasks that the worker has: those that its session runs beside them were in answers that it did not
	// get, and are its answer now. Nil: it does not say.
	Have []string
	Stop <-chan struct{} // ends the wait; nil: nothing does
}

// WorkerAttempt is an attempt that a worker says it runs.
type WorkerAttempt struct {
	WorkerCaller
	Session string // empty: an attempt of a replica, whose http handler was answered with 202
	Task    string
	Token   int64
}

// WorkerProgress is how far an attempt has come, as [jobs.Task.Progress] has it.
type WorkerProgress struct {
	Done float64
	Text string
}

// WorkerOutput is a part of what an attempt writes while it runs.
type WorkerOutput struct {
	At   int64 // how many bytes of its output, in UTF-8, were sent before
	Text string
}

// WorkerReport is what a heartbeat says beside that the worker lives.
type WorkerReport struct {
	Progress *WorkerProgress // nil: nothing
	Output   *WorkerOutput   // nil: nothing
}

// WorkerEnd is what a worker says of the end of an attempt.
type WorkerEnd struct {
	How    WorkerHow
	Error  string          // of one that failed
	Final  bool            // it failed, and is not retried
	In     time.Duration   // until the next attempt of one that failed; below 0: as the pool has it. Until the task is due that was snoozed
	Reason string          // why it was snoozed; may be empty
	Output string          // all of it; empty: what came with heartbeats
	Result json.RawMessage // as [jobs.Task.SetResult] has it; nil: none
}

// WorkerHow is how an attempt ended.
type WorkerHow int

const (
	WorkerCompleted WorkerHow = iota
	WorkerFailed
	WorkerSnoozed
)
