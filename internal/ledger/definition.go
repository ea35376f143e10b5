package ledger

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Definitions is the part of a replica's configuration that the store keeps.
type Definitions struct {
	Jobs  []JobDef // sorted by name
	Pools []PoolDef
	Now   Judge // nil: the database's time is not checked
}

// Assertion is what became of an attempt to make definitions hold.
type Assertion struct {
	Governs bool // they hold
	// Jobs are the names, sorted, of those that the governing configuration has otherwise, or that only one of the
	// two has; nil where Governs.
	Jobs []string
	// Pools are those that it has otherwise, or that only one of the two has, by name; nil where Governs.
	Pools []OtherPool
}

// OtherPool is a pool as its row defines it: what a replica goes by that has it otherwise.
type OtherPool struct {
	Name       string
	Hash       string // "": no live configuration has it
	MaxRunning int
	Rate       jobs.Rate
	ByKey      bool              // it has limits or an order by the tasks' keys
	Kinds      map[string]string // as in PoolDef; nil: any, or the program that governs does not say
}

// JobDef is one job's row.
type JobDef struct {
	Name     string
	Stripe   int    // 0 … 63
	Hash     string // of the whole definition
	Schedule string // hash of schedules and zone alone; a change moves the cursor to now: edits never fire retroactively
	// Next returns the first due time after t, zero if there is none.
	Next func(t time.Time) time.Time
}

// PoolDef is one pool's row. Its policies hold for tasks from their next claim on.
type PoolDef struct {
	Name        string
	Hash        string
	MaxRunning  int
	Rate        jobs.Rate
	Burst       int
	PerKey      jobs.KeyLimits
	PerKind     map[string]jobs.KindLimits
	Order       jobs.Order
	Fair        *jobs.Fair
	MaxAttempts int
	Retry       bool // on_lost: retry
	LostLimit   int  // how many attempts of a task may be lost then; 0: limits.Losses
	// Kinds are those of the tasks that it has a handler for, and what tells the handler from others, see
	// [jobs.Pool.HandlerHashes]; "" is for tasks without a kind. Nil: any.
	Kinds map[string]string
}

// KeyRules is what the pool has by key and kind.
func (d PoolDef) KeyRules() KeyRules { return KeyRules{d.PerKey, d.PerKind, d.Order, d.Fair} }

// Upcoming is one job's next due time as its row has it.
type Upcoming struct {
	Job    string
	NextAt time.Time
	Waits  bool // for its slot: NextAt is when to look again
}
