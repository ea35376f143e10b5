package store

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// admission decides which tasks become running in a transaction, by the rules of ledger.Admission. Claims and decisions use it,
// and nothing else makes a task running.
type admission struct {
	ledger.Admission
	now   time.Time
	pools map[string]*poolRow
	keys  bool // one pool is read, and what its keys limit, by poolKeys.read; decisions start tasks of jobs, which have none
}

// poolRow is a row of {pools}, and what of the pool this transaction may use.
type poolRow struct {
	hash        string
	paused      bool
	limits      ledger.Limits
	unlocked    bool // it has limits, by key or whole, and was read without a lock: none of its tasks becomes running
	full        bool // as many tasks as may run do, or the rate lets none start
	bucket      ledger.Bucket
	now         time.Time // when the bucket was read, by the database
	admitted    int
	corrected   bool // the bucket is not as the row has it
	maxAttempts int  // this and onLost are those of its tasks from their next claim on
	onLost      jobs.OnLost
	lostLimit   int
	room        int       // tasks that may still become running
	left        int       // the same by the limits alone
	keys        *poolKeys // nil: it has no limits by key
	keysDue     bool      // see keysDue
	setKeys     *encoded[wire.PoolLimits]
	ahead       []int // ranks of its pending tasks, in the order of claims, as many as there is room for; nil: not read
}

func newAdmission(a ledger.Admission, now time.Time) *admission {
	return &admission{Admission: a, now: now, pools: map[string]*poolRow{}}
}

// readFree reads the rows of pools, and locks the limited ones that no other transaction has locked. No task of the others
// becomes running. It may be called with locks on rows that come later in the order of locks, since it waits for none.
func (a *admission) readFree(t *tx, pools []string) error {
	var limited, others []string
	for _, name := range sqlkit.Distinct(pools) {
		switch share := a.Pools[name]; {
		case share.Room < 1:
		case share.Limited:
			limited = append(limited, name)
		default:
			others = append(others, name)
		}
	}
	if err := a.read(t, limited, "{for_update}{skip_locked}"); err != nil {
		return err
	}
	return a.read(t, others, "")
}

// read reads the rows of pools, and how much room there is in those that are limited; lock ends the statement.
//
// Index: primary key of pools; the count tasks_claim.
func (a *admission) read(t *tx, names []string, lock string) error {
	if len(names) == 0 {
		return nil
	}
	var counted, rated []string
	due, args := "", []any{sqlkit.Keys(names)}
	if a.keys {
		due, args = keysDue, append(args, keysDueArgs(names[0], a.now)...)
	}
	err := each(t.rows("SELECT "+poolColumns+due+" FROM {pools}{by_key} WHERE {in name name} ORDER BY name"+lock, args...),
		func(r *struct {
			Pool    poolModel `gorm:"embedded"`
			KeysDue int
		}) {
			m := &r.Pool
			share := a.Pools[m.Name]
			p := &poolRow{
				hash: m.Hash, paused: m.Paused != nil && *m.Paused, limits: m.limits(), bucket: m.BucketFullAt,
				maxAttempts: m.MaxAttempts, lostLimit: m.LostLimit, onLost: jobs.OnLost(m.OnLost), keys: m.keys(), keysDue: r.KeysDue > 0, setKeys: m.SetKeyLimits,
			}
			a.pools[m.Name] = p
			switch {
			case p.hash == "" || p.hash != share.Hash || p.paused || m.KeysMoved != nil:
				return
			case p.limited() && lock == "":
				p.unlocked = true
				return
			}
			if p.room = share.Room; p.limited() {
				p.left = math.MaxInt
			}
			if a.keys && p.keys != nil {
				return
			}
			if p.limits.MaxRunning > 0 {
				counted = append(counted, m.Name)
			}
			if p.limits.Rate != (jobs.Rate{}) {
				rated = append(rated, m.Name)
			}
		})
	if err != nil {
		return err
	}
	return a.limit(t, counted, rated)
}

const poolColumns = "name, hash, paused, max_running, rate, burst, set_max_running, set_rate, set_burst, bucket_full_at, max_attempts, on_lost, lost_limit, " +
	"key_max_running, key_rate, key_burst, key_order, key_fair, key_pass, kind_limits, set_key_limits, keys_left, keys_moved"

// limited reports whether the pool has limits, as a whole or by key.
func (p *poolRow) limited() bool { return !p.limits.None() || p.keys != nil }

// limit makes the room of pools that which their max_running and their rates leave. The time is read now, under the locks: that of a
// statement that waited for them is from before, and what another transaction took meanwhile would come back in the bucket.
//
// Index: tasks_claim.
func (a *admission) limit(t *tx, counted, rated []string) error {
	running, now := map[string]int{}, time.Time{}
	if len(counted) > 0 {
		err := each(t.rows(`SELECT '' AS pool, 0 AS n, COALESCE({now}, 0) AS since UNION ALL
			SELECT pool, COUNT(*), 0 FROM {tasks}{index}{tasks}_claim{end} WHERE state=2 AND {in name pool} GROUP BY pool`, sqlkit.Keys(counted)),
			func(c *tally) {
				if c.Pool == "" {
					now = fromMicros(c.Since)
				}
				running[c.Pool] = c.N
			})
		if err != nil {
			return err
		}
	}
	if len(rated) > 0 && now.IsZero() {
		var err error
		if now, err = t.Now(); err != nil {
			return err
		}
	}
	for _, name := range sqlkit.Distinct(slices.Concat(counted, rated)) {
		a.pools[name].bound(running[name], now)
	}
	return nil
}

// bound bounds the room of a pool by its limits, as so many of its tasks run now.
func (p *poolRow) bound(running int, now time.Time) {
	if p.limits.MaxRunning > 0 {
		p.leave(p.limits.MaxRunning - running)
	}
	if p.limits.Rate != (jobs.Rate{}) {
		possible := p.limits.Possible(p.bucket, now)
		p.now, p.bucket, p.corrected = now, possible, possible != p.bucket
		p.leave(p.limits.Starts(p.bucket, now))
	}
}

// leave bounds the room of a pool by what one of its limits leaves.
func (p *poolRow) leave(room int) {
	room = max(0, room)
	p.full = p.full || room == 0
	p.room, p.left = min(p.room, room), min(p.left, room)
}

// spend writes the buckets from which the admitted tasks have taken, and those that could not be as they were. It is called once, before
// the end of the transaction.
//
// Index: primary key of pools.
func (a *admission) spend(t *tx) error {
	for _, name := range slices.Sorted(maps.Keys(a.pools)) {
		p := a.pools[name]
		if k := p.keys; k != nil && k.fair != nil && k.fair.changed {
			if _, err := t.Exec("UPDATE {pools} SET key_pass=? WHERE name=?", k.fair.pass, name); err != nil {
				return err
			}
		}
		if p.limits.Rate == (jobs.Rate{}) || p.admitted == 0 && !p.corrected {
			continue
		}
		p.bucket = p.limits.Started(p.bucket, p.now, p.admitted)
		n, err := t.Exec("UPDATE {pools} SET bucket_full_at=? WHERE name=?", int64(p.bucket), name)
		if err == nil && n != 1 {
			err = fmt.Errorf("the bucket of pool %s was not written", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// outdated reports whether a pool has another definition than the one that the replica has loaded, or none.
func (a *admission) outdated(pool string) bool {
	p := a.pools[pool]
	return p == nil || p.hash == "" || p.hash != a.Pools[pool].Hash
}

// admit makes a pending task running if it may be; else it returns the task as it is. job is the row of its job, locked;
// nil if it has none. foreign: there is room, and the replica may not run it, or cannot. What was said of its locks is in the answer.
func (a *admission) admit(r openTask, job *jobRow) (_ openTask, ok, foreign bool) {
	p := a.pools[r.Pool]
	if p == nil || p.room < 1 || !p.keys.lets(&r) || ledger.Expired(r.Task, a.now) {
		return r, false, false
	}
	c := ledger.Candidate{Task: r.Task}
	if r.Job == "" {
		c.Task.MaxAttempts, c.Task.OnLost, c.Task.LostLimit = cmp.Or(r.OwnAttempts, p.maxAttempts), p.onLost, p.lostLimit
	}
	if job != nil {
		c.JobHash = job.Hash
	}
	until, may := a.Admit(a.now, c)
	if !may || r.Job != "" && job == nil {
		return r, false, true
	}
	if a.Locks != nil {
		if r.locking = a.Locks(c); r.locking.State != ledger.LocksHeld {
			return r, false, false
		}
	}
	p.room--
	p.left--
	p.admitted++
	p.keys.start(&r)
	r.Token++
	if job != nil { // the job's fence orders all its runs
		job.Fence++
		job.changed = true
		r.Token = job.Fence
	}
	r.row, r.State, r.Attempt = rowRunning, jobs.StateRunning, r.Attempt+1
	r.session, r.Replica, r.StartedAt, r.mayRunUntil = a.Session, a.Replica, a.now, until
	r.MaxAttempts, r.OnLost, r.LostLimit = c.Task.MaxAttempts, c.Task.OnLost, c.Task.LostLimit
	return r, true, false
}

// admitNew is admit for a task that is not in the table yet. In a limited pool it competes with the pending tasks. Those of its
// own priority come first.
//
// Index: tasks_claim, equality on state and pool, then its order.
func (a *admission) admitNew(t *tx, r openTask, job *jobRow) (_ openTask, ok bool, err error) {
	p := a.pools[r.Pool]
	if p == nil || p.room < 1 || r.row != rowReady {
		return r, false, nil
	}
	if !p.limits.None() {
		if p.ahead == nil {
			ranks, err := column[int](t.rows("SELECT rank_order FROM {tasks}{index}{tasks}_claim{end} WHERE state=0 AND pool=? ORDER BY rank_order, run_at, id LIMIT ?", r.Pool, p.room))
			if err != nil {
				return r, false, err
			}
			p.ahead = append([]int{}, ranks...)
		}
		if sort.SearchInts(p.ahead, -r.Priority+1) >= p.room {
			return r, false, nil
		}
	}
	r, ok, _ = a.admit(r, job)
	return r, ok, nil
}
