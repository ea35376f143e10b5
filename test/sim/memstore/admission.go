package memstore

import (
	"cmp"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// admission is ledger.Admission in one transaction.
type admission struct {
	ledger.Admission
	t     *tx
	now   time.Time
	taken map[string]int // by pool
	locks bool           // rows of pools with limits that the replica does not know of are locked, too

	locking ledger.Locking // what was said of the last candidate's locks
}

// room is how many tasks of a pool may still become running; full: as many as may run do, or its rate lets none start.
func (a *admission) room(pool string) (room int, full bool) {
	row, share := a.t.pools.rows[pool], a.Pools[pool]
	l := row.Limits()
	if a.t.makes(ClaimsRemoved) && row.Hash == "" {
		row.Hash = share.Hash
	}
	if row.Hash == "" || row.ByKey() && !share.Limited && !a.locks || row.Hash != share.Hash || row.Paused != nil && *row.Paused || !l.None() && !share.Limited && !a.locks {
		return 0, false
	}
	left := a.left(pool)
	return max(0, min(left, share.Room-a.taken[pool])), left == 0
}

func (a *admission) hasRoom(pool string) bool {
	room, _ := a.room(pool)
	return room > 0
}

// left is how many tasks the limits of a pool let start.
func (a *admission) left(pool string) int {
	l := a.t.pools.rows[pool].Limits()
	left := l.Starts(a.t.pools.rows[pool].Bucket, a.t.now())
	if l.MaxRunning > 0 {
		running := 0
		for _, r := range a.t.tasks.rows {
			if r.Pool == pool && r.State == Running {
				running++
			}
		}
		left = min(left, l.MaxRunning-running)
	}
	return max(0, left)
}

// correct writes the bucket of a pool that cannot be as its row has it.
func (a *admission) correct(pool string) {
	row, share := a.t.pools.rows[pool], a.Pools[pool]
	l := row.Limits()
	if l.Rate == (jobs.Rate{}) || row.Hash != share.Hash || row.Paused != nil && *row.Paused || !share.Limited && !a.locks || share.Room < 1 {
		return
	}
	if possible := l.Possible(row.Bucket, a.t.now()); possible != row.Bucket {
		row.Bucket = possible
		put(a.t, &a.t.pools, row)
	}
}

// admit makes a task running if it may be. job is the row of its job; nil if it has none. Neither row is written.
func (a *admission) admit(r Task, job *Job) (_ Task, started ledger.Started, ok, foreign bool) {
	a.locking = ledger.Locking{}
	if room, _ := a.room(r.Pool); room < 1 {
		return r, started, false, false
	}
	if lets, _ := a.t.lets(r); !lets || ledger.Expired(r.task(), a.now) {
		return r, started, false, false
	}
	pool := a.t.pools.rows[r.Pool]
	c := ledger.Candidate{Task: r.task()}
	if r.Job == "" {
		c.Task.MaxAttempts, c.Task.OnLost, c.Task.LostLimit = cmp.Or(r.OwnAttempts, pool.MaxAttempts), jobs.OnLost(pool.OnLost), pool.LostLimit
	}
	if job != nil {
		c.JobHash = job.Hash
	}
	until, may := a.Admit(a.now, c)
	if !may || r.Job != "" && job == nil {
		return r, started, false, true
	}
	if a.Locks != nil {
		if a.locking = a.Locks(c); a.locking.State != ledger.LocksHeld {
			return r, started, false, false
		}
	}
	a.taken[r.Pool]++
	if l := pool.Limits(); l.Rate != (jobs.Rate{}) {
		pool.Bucket = l.Started(pool.Bucket, a.t.now(), 1)
		put(a.t, &a.t.pools, pool)
	}
	a.t.startKey(r)
	r.Token++
	if job != nil {
		job.Fence++
		r.Token = job.Fence
	}
	r.State, r.Attempt, r.Session, r.Replica = Running, r.Attempt+1, a.Session, a.Replica
	r.MayRunUntil, r.StartedAt = micros(until), micros(a.now)
	r.MaxAttempts, r.OnLost, r.LostLimit = c.Task.MaxAttempts, string(c.Task.OnLost), c.Task.LostLimit
	task := r.task()
	return r, ledger.Started{Task: &task, Until: until}, true, false
}

// behind reports whether the pending tasks of a limited pool that go before a new one take all the room.
func (a *admission) behind(r Task) bool {
	if a.t.pools.rows[r.Pool].Limits().None() {
		return false
	}
	room, _ := a.room(r.Pool)
	for _, other := range a.t.tasks.rows {
		if other.Pool == r.Pool && other.State == Ready && other.Rank <= r.Rank {
			room--
		}
	}
	return room < 1
}
