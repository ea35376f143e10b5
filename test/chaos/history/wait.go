package history

import "time"

// Wait is a line of waits.jsonl: a program waited for a key, and has released it since, or has given up. One that was
// killed leaves no line.
type Wait struct {
	Waiter string // its Locker: unique in the run
	Beside string // the replica over whose edges it asks
	Key    string
	Kind   Together
	Asked  time.Time // before the request was sent
	Queued time.Time // after the service had acknowledged its place; zero: it was granted at once, or there is no queue
	Ended  time.Time // after the grant was known, or when it gave up
	Token  int64     // 0: it gave up
	// Moved says that its session ended meanwhile: it had to ask again.
	Moved bool
}

// Together says who may hold a key at once: 1 alone, more a limit, 0 all that share it.
type Together int
