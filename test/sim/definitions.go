package sim

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// By which definition an attempt runs, ends and is retried. The handlers of each version are its own, so each attempt says which one it is of.

// drawDefinitions gives jobs and pools of the newer configuration other timeouts and retries, and removes some jobs.
func (p *plan) drawDefinitions(d draw) {
	if p.Edited == nil || p.Slow {
		return
	}
	timeout := func() time.Duration { return pick(d, 1500*time.Millisecond, 3*time.Second, 6*time.Second) }
	for _, name := range p.names() {
		j, edited := p.Edited[name]
		if _, kept := p.Jobs[name]; !kept || !edited || !d.chance(0.5) {
			continue
		}
		if d.chance(0.3) {
			delete(p.Edited, name)
			continue
		}
		if j.Timeout = timeout(); d.chance(0.5) {
			j.Retries = jobs.Retries{Limit: 1 + d.IntN(3), Backoff: 300 * time.Millisecond, MaxBackoff: time.Second}
			if d.chance(0.3) {
				j.Retries.On = []int{1}
			}
		}
		p.Edited[name] = j
	}
	for name := range p.EditedPools {
		if d := keyed(p.Seed, "definition of "+name, 0); d.chance(0.3) {
			pool := p.EditedPools[name]
			pool.Timeout = pick(d, 3*time.Second, 6*time.Second)
			p.EditedPools[name] = pool
		}
	}
}

// hashes names the definitions of a version, as replicas take it: those of jobs by their names. Of a pool, whose name follows poolOf, it is what two versions have in
// common if the tasks of both run in the same way.
func (p *plan) hashes(version int) map[string]string {
	written, set, all := loaded(p.configuration(version, &handler{})), p.read(version, &handler{}).WithDefaults(), map[string]string{}
	compiler := set.Compiler()
	for name, j := range set.Jobs {
		all[name] = compiler.Hash(j)
	}
	for name, pool := range written {
		all[poolOf+name] = fmt.Sprint(pool.Timeout, pool.OnLost, max(pool.Retries.Limit, 0), pool.Retries.Backoff, pool.Retries.MaxBackoff, pool.Retries.On, pool.Locks, pool.RunsOn)
	}
	return all
}

// watchPoolDefinition notes by which definition the tasks of a pool run. With w.mu held.
func (w *world) watchPoolDefinition(before, r memstore.Pool) {
	if r.Hash == before.Hash {
		return
	}
	w.governs[poolOf+r.Name] = ""
	for version := range w.plan.versions() {
		if is, in := loaded(w.plan.configuration(version, &handler{}))[r.Name]; in && is.Hash() == r.Hash {
			w.governs[poolOf+r.Name] = w.defined[version][poolOf+r.Name]
		}
	}
}

const poolOf = "pool "

// ruledBy is what the definition is called that a task is of.
func ruledBy(job, pool string) string {
	if job != "" {
		return job
	}
	return poolOf + pool
}

// judgeDefinition: an attempt is of the definition that governed when its task was claimed. With w.mu held.
func (w *world) judgeDefinition(me *run, c claim) {
	by := ruledBy(me.task.Job, me.task.Pool)
	if own := w.defined[me.version][by]; own != c.defined {
		w.violate(me.task.ID, "task %s runs by definition %s of version %d, and was claimed when %s of %s governed", me.task.ID, cmp.Or(own, "none"), me.version, c.defined, by)
	}
	if me.version != w.newest() {
		w.counted["starts by an older version"]++
	}
}

// newest is the version that was written last. With w.mu held.
func (w *world) newest() int {
	return len(w.plan.versions()) - 1
}

// timeoutOf and retriesOf are what the definition of an attempt says.
func (w *world) timeoutOf(me *run) time.Duration {
	if j, is := w.plan.versions()[me.version][me.task.Job]; is {
		return j.Timeout
	}
	return w.plan.pools(me.version)[me.task.Pool].WithDefaults().Timeout
}

func (w *world) retriesOf(me *run) jobs.Retries {
	if me.task.Job != "" {
		return w.plan.versions()[me.version][me.task.Job].Retries
	}
	return w.plan.pools(me.version)[me.task.Pool].WithDefaults().Retries
}

// endsAfter is how much longer than its timeout an attempt may take that obeys.
const endsAfter = 250 * time.Millisecond

// judgeTimeout: an attempt has the time of its own definition, whatever was loaded since. With w.mu held.
func (w *world) judgeTimeout(me *run) {
	timeout, took := w.timeoutOf(me), me.to.Sub(me.from)
	if !me.ignores && !me.r.frozenSince(me.from) && took > timeout+endsAfter {
		w.violate(me.task.ID, "task %s took %v, and its timeout by version %d is %v", me.task.ID, took, me.version, timeout)
	}
}

// judgeTimedOut: an attempt that ended for its timeout had that time. With w.mu held.
func (w *world) judgeTimedOut(row memstore.Task, code reason.Code) {
	me := w.runs[claimKey{row.ID, row.Token}]
	if code != reason.Timeout || me == nil || me.to.IsZero() {
		return
	}
	w.counted["timed out"]++
	if timeout, took := w.timeoutOf(me), me.to.Sub(me.from); took < timeout-endsAfter {
		w.violate(row.ID, "task %s timed out after %v, and its timeout by version %d is %v", row.ID, took, me.version, timeout)
	}
}

// judgeRetryLimit: what failed is retried as often as the definition of its attempt says. With w.mu held.
func (w *world) judgeRetryLimit(me *run, row memstore.Task, retried bool, code reason.Code) {
	failures, limit := row.Attempt-row.Losses, max(w.retriesOf(me).Limit, 0)
	switch {
	case row.OwnAttempts > 0:
	case retried && failures > limit:
		w.violate(row.ID, "task %s is retried after %d failures, of which version %d lets it have %d", row.ID, failures, me.version, limit)
	case !retried && failures <= limit && code != reason.NotRetried:
		w.violate(row.ID, "task %s is not retried after %d failures, %s, of which version %d lets it have %d", row.ID, failures, cmp.Or(code, "nothing"), me.version, limit)
	}
}

// watchRetired notes that a job or pool has no definition any more. What waits then of a job is cancelled in the same transaction, and of a pool it stays. With w.mu held.
func (w *world) watchRetired(name, before, hash string) {
	if hash == "" && before != "" {
		w.everRetired[name] = true
		w.retiredAt[name] = moment{time.Now(), len(w.history)}
	} else {
		delete(w.retiredAt, name)
	}
}

// watchWaiting notes since when a task is pending. With w.mu held.
func (w *world) watchWaiting(r memstore.Task, began bool) {
	if began || r.State == memstore.Running {
		delete(w.pending, r.ID)
	} else if _, known := w.pending[r.ID]; !known {
		w.pending[r.ID] = pending{r.Job, moment{time.Now(), len(w.history)}}
	}
}

// pending is a task that is not running.
type pending struct {
	job   string
	since moment
}

// moment is a time, and how much had happened by then: several things happen at one time.
type moment struct {
	at time.Time
	n  int
}

// judgeRetired: no task of a removed job is left that was pending when that was removed. With w.mu held.
func (w *world) judgeRetired() {
	now := time.Now()
	for id, p := range w.pending {
		if at, is := w.retiredAt[p.job]; is && p.job != "" && at.at.Before(now) && p.since.n <= at.n {
			w.violate(id, "job %s was removed at %v, and its task %s, pending since %v, is not cancelled", p.job, at.at.Format(time.TimeOnly), id, p.since.at.Format(time.TimeOnly))
			delete(w.pending, id)
		}
	}
}

// judgeCancelled: what was cancelled before its end was so by a user, or its job was removed, suspended, or replaced its run; the tasks of a removed pool wait. With w.mu held.
func (w *world) judgeCancelled(r memstore.Done) {
	if r.State != string(jobs.StateCancelled) {
		return
	}
	switch r.ReasonCode {
	case reason.Cancelled:
		if !w.unwanted[r.ID] {
			w.violate(r.ID, "task %s of %s was cancelled, %s, and nobody has asked for it", r.ID, r.Job+r.Pool, r.Reason)
		}
	case reason.JobRemoved:
		if _, is := w.retiredAt[r.Job]; !is || r.Job == "" {
			w.violate(r.ID, "task %s of %s was cancelled as if its job was removed", r.ID, r.Job+r.Pool)
		}
		w.counted["cancelled with its job"]++
	case reason.CancelledByHandler, reason.Expired, reason.Replaced, reason.Suspended:
	default:
		w.violate(r.ID, "task %s of %s was cancelled, %s: %s", r.ID, r.Job+r.Pool, cmp.Or(r.ReasonCode, "nothing"), r.Reason)
	}
}
