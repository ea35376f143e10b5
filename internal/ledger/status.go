package ledger

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// JobStatus is a job's row for people. What a configuration says of the job is added by a replica.
type JobStatus struct {
	wire.Job
	Hash   string // "" = retired: no live configuration has it
	Config int64
	Cursor time.Time
	Fence  int64
}

// PoolMost is how far the tasks of a pool in one state are counted for people: counting a million takes half a second.
const PoolMost = 10_000

// PoolStatus is a pool's row and its counts for people.
type PoolStatus struct {
	Name          string
	Hash          string
	Limits                          // those that hold
	Override      *wire.PoolLimits  // of limits; nil = none
	Aside         []wire.LimitAside // of these, what does not hold
	LimitsBy      string
	PerKey        jobs.KeyLimits // that hold, as PerKind and Fair
	PerKind       map[string]jobs.KindLimits
	Order         jobs.Order // empty: none
	Fair          *jobs.Fair
	Paused        *bool // override; nil = none
	PausedBy      string
	PauseReason   string // of a pool that was paused since its attempts failed
	Pending       int    // due now
	Scheduled     int    // waits for its time
	Running       int
	OldestPending time.Time // run_at; zero = none
	// Approximate: Pending and Scheduled are lower bounds where they are PoolMost or more.
	Approximate bool
	// Kinds are those of the tasks that some live replica has a handler for, sorted, or that one had where none
	// is live; "" is for tasks without a kind. Nil: any, or it is not known.
	Kinds      []string
	ByWorkers  []string     // the kinds whose tasks workers run, by the newest configuration; they are in Kinds while a live worker takes them
	Unrunnable []Unrunnable // by kind; empty while there is a live replica or worker for all that is due
}

// View is what people see of the row. What a configuration says of the pool is added by a replica.
func (p PoolStatus) View() wire.Pool {
	v := wire.Pool{
		Name:          p.Name,
		MaxRunning:    p.MaxRunning,
		Rate:          p.Rate,
		Burst:         p.Burst,
		Limits:        p.Override,
		LimitsAside:   p.Aside,
		LimitsBy:      p.LimitsBy,
		PerKey:        wire.KeyLimits(p.PerKey),
		PerKind:       wire.PerKind(p.PerKind),
		Order:         p.Order,
		Fair:          (*wire.Fair)(p.Fair),
		Paused:        p.Paused != nil && *p.Paused,
		Override:      p.Paused,
		PausedBy:      p.PausedBy,
		PausedReason:  p.PauseReason,
		Retired:       p.Hash == "",
		Pending:       p.Pending,
		Scheduled:     p.Scheduled,
		Running:       p.Running,
		OldestPending: p.OldestPending,
		Approximate:   p.Approximate,
	}
	for _, u := range p.Unrunnable {
		v.Unrunnable += u.Tasks
	}
	return v
}
