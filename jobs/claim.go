package jobs

import "time"

// ClaimTry is one try of a replica to take tasks of a pool, from asking for the lock to the answer
// of the store. scheduler.Observer is told of it.
type ClaimTry struct {
	Pool        string
	LockBackend string // "store" where the store's own rows are the locks
	// Result is what came of it:
	//   - "took": at least one task
	//   - "empty": there was none that this replica can run
	//   - "full": max_running is reached
	//   - "paused": the pool is
	//   - "outdated": a newer configuration has the pool otherwise
	//   - "failed": no answer of the store, or of the lock service under when_down: wait
	Result string
	Tasks  int // that were taken
	Took   time.Duration
}
