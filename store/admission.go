package store

import (
	"sort"
	"time"

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
}

// poolRow is a row of {pools}, and what of the pool this transaction may use.
type poolRow struct {
	hash        string
	paused      bool
	full        bool // max_running tasks are running
	maxRunning  int
	maxAttempts int // this and onLost are those of its tasks from their next claim on
	onLost      jobs.OnLost
	room        int   // tasks that may still become running
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
	var limited []string
	err := each(t.rows("SELECT name, hash, paused, max_running, max_attempts, on_lost FROM {pools}{by_key} WHERE {in name name} ORDER BY name"+lock, sqlkit.Keys(names)),
		func(m *poolModel) {
			share := a.Pools[m.Name]
			p := &poolRow{
				hash: m.Hash, paused: m.Paused != nil && *m.Paused,
				maxRunning: m.MaxRunning, maxAttempts: m.MaxAttempts, onLost: jobs.OnLost(m.OnLost),
			}
			switch {
			case p.hash == "" || p.hash != share.Hash || p.paused:
			case p.maxRunning == 0:
				p.room = share.Room
			case lock != "":
				limited = append(limited, m.Name)
			}
			a.pools[m.Name] = p
		})
	if err != nil || len(limited) == 0 {
		return err
	}
	running := map[string]int{}
	err = each(t.rows("SELECT pool, COUNT(*) AS n FROM {tasks}{index}{tasks}_claim{end} WHERE state=2 AND {in name pool} GROUP BY pool", sqlkit.Keys(limited)),
		func(c *tally) { running[c.Pool] = c.N })
	for _, name := range limited {
		p := a.pools[name]
		free := p.maxRunning - running[name]
		p.full = free <= 0
		p.room = max(0, min(free, a.Pools[name].Room))
	}
	return err
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
	if p == nil || p.room < 1 {
		return r, false, false
	}
	c := ledger.Candidate{Task: r.Task}
	if r.Job == "" {
		c.Task.MaxAttempts, c.Task.OnLost = p.maxAttempts, p.onLost
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
	r.Token++
	if job != nil { // the job's fence orders all its runs
		job.Fence++
		job.changed = true
		r.Token = job.Fence
	}
	r.row, r.State, r.Attempt = rowRunning, jobs.StateRunning, r.Attempt+1
	r.session, r.Replica, r.StartedAt, r.mayRunUntil = a.Session, a.Replica, a.now, until
	r.MaxAttempts, r.OnLost = c.Task.MaxAttempts, c.Task.OnLost
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
	if p.maxRunning > 0 {
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
