package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// The keys: one for all tasks with the same payload, and one for all jobs, which tasks may want, too.
const (
	itemKey = "item-{{.payload.i}}"
	jobsKey = "orders-db"
)

// drawKeys gives some jobs and pools locks, in a third of all seeds: alone, shared, or up to a limit.
func (p *plan) drawKeys(d draw) {
	if !d.chance(0.33) {
		return
	}
	for name, pool := range p.Pools {
		if d := keyed(p.Seed, "key of "+name, 0); name != "default" && d.chance(0.6) {
			pool.Locks = []jobs.Lock{p.drawMode(name, jobs.Lock{Key: pick(d, itemKey, itemKey, jobsKey)})}
			p.Pools[name] = pool
		}
	}
	for _, set := range p.versions() {
		for name, j := range set {
			// One that is due each second, and waits, would never come to rest.
			slow := j.Times.count(time.Unix(0, 0), time.Unix(60, 0)) <= 6
			if slow && j.Concurrency == jobs.Forbid && keyed(p.Seed, "key of "+name, 0).chance(0.6) {
				j.Locks, j.RunsOn = []jobs.Lock{p.drawMode(name, jobs.Lock{Key: jobsKey})}, nil
				set[name] = j
			}
		}
	}
}

// drawMode says how what has that name holds a lock.
func (p *plan) drawMode(name string, l jobs.Lock) jobs.Lock {
	switch d := keyed(p.Seed, "mode of "+name, 0); {
	case d.chance(0.3):
		l.Mode = jobs.LockShared
	case d.chance(0.4):
		l.Limit = pick(d, 2, 2, 3)
	}
	return l
}

// hasKeys reports whether anything has locks.
func (p *plan) hasKeys() bool {
	for _, pool := range p.Pools {
		if len(pool.Locks) > 0 {
			return true
		}
	}
	for _, set := range p.versions() {
		for _, j := range set {
			if len(j.Locks) > 0 {
				return true
			}
		}
	}
	return false
}

// lock is the lock of a task, by the plan and not by the product; without a key: it has none in some version. The jobs here have
// handlers of their own, so they do not hold the locks of their pools.
func (w *world) lock(t jobs.Task) jobs.Lock {
	if t.Job == "" {
		var l jobs.Lock
		if all := w.plan.Pools[t.Pool].Locks; len(all) > 0 {
			l = all[0]
		}
		if l.Key == itemKey {
			var i int
			if _, err := fmt.Sscanf(string(t.Payload), `{"i":%d}`, &i); err != nil {
				panic(err) // enqueue makes no other payloads
			}
			l.Key = fmt.Sprint("item-", i)
		}
		return l
	}
	versions := w.specs[t.Job]
	if len(versions) == 0 || slices.ContainsFunc(versions, func(j job) bool { return len(j.Locks) == 0 }) {
		return jobs.Lock{}
	}
	return versions[0].Locks[0] // the same in all of them
}

// judgeKeys: what executes with the lock when an attempt starts may hold it together with that one, unless its process was frozen, its
// handler ignores its context, or the lock service ended its session without notice. With w.mu held.
func (w *world) judgeKeys(me *run) {
	mine := w.lock(me.task)
	if mine.Key == "" {
		return
	}
	w.counted["starts with a lock"]++
	together := 1
	for _, list := range w.active {
		for _, older := range list {
			theirs := w.lock(older.task)
			if theirs.Key != mine.Key || older.ignores || older.r.frozenSince(older.from) || w.weather.bad(-1, older.from, lockExpire) {
				continue
			}
			together++
			if theirs == mine && (mine.Mode == jobs.LockShared || together <= mine.Limit) {
				w.counted["locks held together"]++
				continue
			}
			w.violate(me.task.ID, "lock %+v: %s (token %d, %+v) still executes on %s when %s (token %d) starts on %s",
				mine, older.task.ID, older.task.Token, theirs, older.r.id, me.task.ID, me.task.Token, me.r.id)
		}
	}
}

// waitKey names a row of lock_waits.
type waitKey struct{ key, task string }

func (w *world) watchWait(r memstore.LockWait) {
	k := waitKey{r.Key, r.TaskID}
	if _, known := w.waits[k]; !known {
		w.counted["waits for a lock"]++
	}
	w.waits[k] = r
	delete(w.abandoned, r.TaskID)
}

// abandon notes which tasks a session had queued that was declared dead. With w.mu held.
func (w *world) abandon(session string) {
	for _, r := range w.waits {
		if r.Session == session {
			w.counted["waits abandoned"]++
			w.abandoned[r.TaskID] = time.Now()
		}
	}
}

// queuedAgain is how long after the end of a session, and while it is first, another one may take to queue what it had queued.
const queuedAgain = 5 * time.Second

// judgeAbandoned: what the session of a dead replica had queued is queued by another one that works, if it is first. With w.mu held.
func (w *world) judgeAbandoned() {
	if w.plan.Edited != nil {
		return // who may run it is not known here
	}
	for task, since := range w.abandoned {
		if !w.isFirst(task) { // one that came before it was locked later, or its pool is paused
			w.abandoned[task] = time.Now()
			continue
		}
		if time.Since(since) < queuedAgain {
			continue
		}
		for _, r := range w.replicas {
			if !r.isDead() && r.drained.IsZero() && !r.joined.IsZero() && r.joined.Before(since) && w.untouched(r, since.Add(-answered)) && !w.lockFaults(r, since.Add(-answered)) &&
				!w.weather.bad(-1, since.Add(-answered), lockExpire) {
				w.violate(task, "task %s waits behind a session that is dead, and is the first since %v, and %s works", task, since.Format(time.TimeOnly), r.id)
				delete(w.abandoned, task)
				break
			}
		}
	}
}

// isFirst reports whether a task is first for its keys, in a pool that is not paused.
func (w *world) isFirst(task string) bool {
	for k, r := range w.waits {
		if k.task != task {
			continue
		}
		if w.paused[r.Pool] || w.pausedSince(time.Now().Add(-3*time.Second)) {
			return false
		}
		for other, o := range w.waits {
			if other.key == k.key && o.Before(r) < 0 {
				return false
			}
		}
	}
	return true
}
