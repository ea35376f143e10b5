package judge

import (
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// workers is what is promised of processes that take tasks over HTTP, as far as other invariants do not ask for it of every task: an
// attempt ends once, and one of which a replica has said that it is complete is the one that succeeded (I7); a worker's call with the
// token of an earlier attempt is refused (I5); what a killed one ran is decided within session ttl + 3 s (I9); what runs elsewhere since a
// worker was silent for the ttl was lost by it, see workerMayLose (I10); and no replica answers 500, and no worker ends by itself (I12).
//
// Excused is what is for a killed replica: reaping while no replica could do it.
func (t *trial) workers() {
	if t.run.Format < 4 {
		return // it had none
	}
	t.saidOfAttempts()
	t.reapedOfWorkers()
	for _, w := range t.h.Workers {
		if w.How == "ended" || w.How == "stopped" && w.Exit != 0 {
			t.violate(Clean, w.Name, w.Ended, "%s with exit code %d, log %s", w.How, w.Exit, w.Log)
		}
		if w.Log != "" && t.run.Directory != "" {
			t.log(w.Log)
		}
	}
}

// saidOfAttempts compares what workers said, and were answered, with the record.
func (t *trial) saidOfAttempts() {
	succeeded, ended := map[claimKey]bool{}, map[claimKey]bool{}
	for _, c := range t.h.Audit {
		if c.After == nil || c.Table != "done" && c.Table != "attempts" {
			continue
		}
		key := claimKey{rowID(*c.After), c.After.Token}
		ended[key] = true
		succeeded[key] = succeeded[key] || c.After.State == "succeeded"
	}
	completed := map[string]history.Said{} // by task
	broken := map[string]bool{}
	for _, s := range t.h.Said {
		who, good := "task "+s.TaskID, s.Status/100 == 2
		key := claimKey{s.TaskID, s.Token}
		switch {
		case s.Status == 500:
			if !broken[s.What] {
				t.violate(Clean, s.Worker, s.At, "answered 500 to %s of task %q", s.What, s.TaskID)
			}
			broken[s.What] = true
		case s.Stale && good:
			t.violate(StaleOwners, who, s.At, "%s of %s with the token %d of an earlier attempt was not refused", s.What, s.Worker, s.Token)
		case s.Stale || !good:
		case s.What == "complete":
			if other, twice := completed[s.TaskID]; twice && other.Token != s.Token {
				t.violate(OneEnd, who, s.At, "complete for %s with token %d, and for %s with token %d", other.Worker, other.Token, s.Worker, s.Token)
			}
			completed[s.TaskID] = s
			if !succeeded[key] {
				t.violate(OneEnd, who, s.At, "complete for %s with token %d, and the record does not have it", s.Worker, s.Token)
			}
		case s.What == "fail" && !ended[key]:
			t.violate(OneEnd, who, s.At, "failed for %s with token %d, and the record does not have it", s.Worker, s.Token)
		}
	}
}

// reapedOfWorkers is the part of I9 about killed workers.
func (t *trial) reapedOfWorkers() {
	for _, w := range t.h.Workers {
		if w.How != "killed" {
			continue
		}
		for _, c := range t.ordered {
			if history.WorkerOf(c.row.Replica) != w.Name || !t.sameClock(c.seq) {
				continue
			}
			from := maxTime(w.Ended, c.from) // a claim may be committed when its worker is dead
			if !c.to.IsZero() && !c.to.After(from) {
				continue
			}
			bound := t.postponed(from, from.Add(t.run.SessionTTL+reapTime+t.run.Slack))
			switch {
			case bound.After(t.ended):
			case c.to.IsZero():
				t.violate(Recovers, w.Name, w.Ended, "killed while it had task %s, which is running to the end", c.row.ID)
			case t.sameClock(c.toSeq) && t.waitsAgain(c, bound):
				t.violate(Recovers, w.Name, c.to, "killed while it had task %s, which waits for another worker since, and %v are allowed", c.row.ID, ms(bound.Add(again).Sub(from)))
			case t.sameClock(c.toSeq) && c.to.After(bound.Add(t.unready(from, c.to))):
				t.violate(Recovers, w.Name, c.to, "killed while it had task %s, which was decided %v later, and %v are allowed", c.row.ID, ms(c.to.Sub(from)), ms(bound.Sub(from)))
			}
		}
	}
}

// again is how long after its loss was decided a task may wait for another worker: its pool may be full.
const again = 5 * time.Second

// waitsAgain reports whether a task that a killed worker had is pending since, for longer than it may, with no fault but that one.
func (t *trial) waitsAgain(c *claim, bound time.Time) bool {
	until := bound.Add(again)
	if until.After(t.ended) || slices.ContainsFunc(t.applied(c.to, until), func(w history.Window) bool { return !has(w, history.WorkerDown) }) {
		return false
	}
	for _, a := range t.h.Audit {
		if a.Table == "tasks" && a.Seq > c.toSeq && changed(a).ID == c.row.ID && !dbTime(a.At).After(until.Add(t.unready(c.to, until))) && (a.After == nil || a.After.State == running || a.After.RunAt > until.UnixMicro()) {
			return false // it runs, has ended, or is not due
		}
	}
	return slices.ContainsFunc(t.h.Audit, func(a history.Change) bool {
		return a.Table == "tasks" && a.Seq == c.toSeq && a.After != nil && a.After.RunAt <= until.UnixMicro()
	})
}

// ofWorker reports whether the id of a session's owner is that of a worker.
func ofWorker(id string) bool { return history.WorkerOf(id) != "" }

// workerMayLose is the part of I10 about workers: the session of a worker is expired, and what it runs is lost, where a fault has struck
// the worker; or one that strikes replicas or the store, as its calls go through them. With Run.Slack, silence is the machine's.
func (t *trial) workerMayLose(id string, at time.Time) bool {
	from := at.Add(-t.run.SessionTTL - reapTime - t.run.Slack)
	for _, w := range t.applied(from, at) {
		if t.strikesWorker(w, id) || has(w, harmful...) || has(w, history.StoreFar, history.StoreHeld, history.StoreClock, history.ReplicaClock) {
			return true
		}
	}
	stopped := slices.ContainsFunc(t.h.Workers, func(w history.Worker) bool {
		return w.Name == history.WorkerOf(id) && w.How != "ended" && !w.Ended.After(at)
	})
	return stopped || t.run.Slack > 0 && t.silent(id, at)
}

// unheard reports whether a worker has done nothing under a session: a claim that opened it ends it again where its answer cannot be delivered.
func (t *trial) unheard(id string) bool {
	return ofWorker(id) && !slices.ContainsFunc(t.h.Said, func(s history.Said) bool { return s.Worker == id }) &&
		!slices.ContainsFunc(t.begun, func(e history.Effect) bool { return e.Replica == id })
}

// strikesWorker reports whether a fault strikes the worker of a session.
func (t *trial) strikesWorker(w history.Window, id string) bool {
	return has(w, history.WorkerDown, history.WorkerFrozen, history.WorkerCut) && ofWorker(id) && slices.Contains(w.Replicas, history.WorkerNamed(id))
}

// frozenWorker reports whether the process that wrote an effect stood still at a moment, or shortly before: it does not know its time to be over.
func (t *trial) frozenWorker(e history.Effect, at time.Time) bool {
	return ofWorker(e.Replica) && slices.ContainsFunc(t.h.Windows, func(w history.Window) bool {
		return w.Applied && has(w, history.WorkerFrozen) && t.strikesWorker(w, e.Replica) && w.Began.Before(at) && !e.At.After(w.Healed.Add(frozenMargin+t.run.Slack))
	})
}

// ofWorkers counts what there is to judge of them.
func (t *trial) ofWorkers() []figure {
	if t.run.Format < 4 || !slices.ContainsFunc(t.run.Pools, func(p history.Pool) bool { return p.Lane == "worker" }) {
		return nil
	}
	complete, stale := 0, 0
	for _, s := range t.h.Said {
		switch {
		case s.Stale && s.Status != 0:
			stale++
		case s.What == "complete" && s.Status/100 == 2:
			complete++
		}
	}
	all := []figure{{"tasks that workers completed", complete, t.each(30 * time.Second)}}
	if t.unhurried() { // a session has to get a task twice, and to be answered in time
		all = append(all, figure{"answers to a stale end of a worker", stale, t.each(often)})
	}
	for _, w := range t.h.Windows {
		if !w.Applied || !has(w, history.WorkerDown, history.WorkerFrozen, history.WorkerCut) {
			continue
		}
		had := 0
		for _, c := range t.ordered {
			// It was struck some time after its window began: when it had something.
			within := c.from.Before(w.Healed) && (c.to.IsZero() || c.to.After(w.Began))
			if t.strikesWorker(w, c.row.Replica) && (within || !t.sameClock(c.seq)) {
				had++
			}
		}
		all = append(all, figure{"tasks that " + strings.Join(w.Replicas, ",") + " ran when it was struck by " + w.Nemesis, had, 1})
	}
	return all
}
