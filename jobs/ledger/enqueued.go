package ledger

import "github.com/lockstep-scheduler/lockstep/jobs"

// Enqueued is the outcome of enqueueing one task.
type Enqueued struct {
	Task    jobs.Task
	Existed bool // its idempotency key was used before; Task is that one
}
