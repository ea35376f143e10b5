package judge

import (
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// degraded is I10: a replica that cannot reach the store starts nothing once its session is not trusted any
// more, reports that it is not ready, and keeps answering; a live replica expires only after it was silent for
// a session ttl; and none expires, and no attempt is lost, without a fault that strikes its replica. A store
// that is down for all replicas harms no session (Window.Spares). With when_down: wait, a replica that cannot
// reach the lock service claims nothing once its leases have expired.
//
// While a replica cannot reach the store, it stops attempts at their deadline: may_run_until of their row, or
// with on_lost: retry the trust window of the session. Those are lost even if the session is not.
//
// A worker may lose a session, and what it ran, by more: see workerMayLose.
//
// What may cost sessions and attempts: replica-down, -frozen, restarts, and store-down or -slow that spare
// nothing, each for the replicas that it strikes. A lock service that is down, or a wrong wall clock, excuses
// nothing. With Run.Slack, the machine is so busy that a replica may be silent without a fault: then its
// silence excuses the rest, but not where a fault spares. Nothing excuses an expiry without silence.
func (t *trial) degraded() {
	for _, w := range t.h.Windows {
		if w.Applied && has(w, history.StoreDown) {
			for _, r := range t.run.Replicas {
				if w.Strikes(r) {
					t.withoutStore(w, r)
				}
			}
		}
	}
	for _, l := range t.losses() {
		if t.sameClock(l.seq) && !t.mayBeLost(l.replica, l.at) && !t.timeWasOver(l) {
			t.violate(Degrades, "task "+l.task, l.at, "lost under %s (token %d), which no fault had struck: %s", l.replica, l.token, l.reason)
		}
	}
	t.sessions()
	t.waiting()
}

// harmful are the kinds that may cost sessions.
var harmful = []history.Kind{
	history.ReplicaDown, history.ReplicaFrozen, history.HelperFrozen, history.StoreDown, history.StoreSlow, history.Restarts,
}

// mayBeLost reports whether what replica had at a moment may be lost.
func (t *trial) mayBeLost(replica string, at time.Time) bool {
	if ofWorker(replica) {
		return t.workerMayLose(replica, at)
	}
	from := at.Add(-t.run.SessionTTL - reapTime - t.run.Slack)
	for _, w := range t.applied(from, at) {
		if w.Strikes(replica) && has(w, harmful...) && !w.Spares {
			return true
		}
	}
	for _, p := range t.h.Processes {
		end := p.Ended
		if !p.Told.IsZero() {
			end = p.Told
		}
		// Work of a killed process may be found later, as long as no replica could look for it.
		if p.Replica == replica && !end.IsZero() && end.Before(at.Add(clockError)) && !t.postponed(end, end.Add(t.run.SessionTTL+reapTime+t.run.DrainTimeout+t.run.Slack)).Before(at) {
			return true
		}
	}
	return false
}

// lastGrace is how long before its deadline an attempt may be told to end.
const lastGrace = 2 * time.Second

// timeWasOver reports whether the attempt had to stop because its replica had no answer of the store for too
// long, or, on a busy machine, the others had no heartbeat of the replica.
func (t *trial) timeWasOver(l loss) bool {
	if t.starved(l.replica, l.at) && !t.spared(l.at) {
		return true
	}
	if !t.silent(l.replica, l.at) {
		return false
	}
	c := t.claims[claimKey{l.task, l.token}]
	from := l.at.Add(-t.run.SessionTTL)
	away := t.excused(from, l.at, l.replica, history.StoreDown, history.StoreSlow, history.StoreFar) ||
		slices.ContainsFunc(t.applied(from, l.at), t.holdsStore)
	return away && c != nil && !c.until.After(l.at.Add(lastGrace))
}

// spared reports whether a fault that must not cost anything was open at a moment.
func (t *trial) spared(at time.Time) bool {
	return slices.ContainsFunc(t.applied(at, at), func(w history.Window) bool { return w.Spares })
}

// withoutStore checks one replica while it cannot reach the store.
func (t *trial) withoutStore(w history.Window, replica string) {
	trust := w.Began.Add(t.run.SessionTTL + t.run.Slack)
	for _, e := range t.begun {
		c := t.claims[claimKey{e.TaskID, e.Token}]
		if e.Replica == replica && e.At.After(trust) && e.At.Before(w.Healed) && c != nil && t.sameClock(c.seq) && c.from.Before(w.Began) {
			t.violate(Degrades, replica, e.At, "started task %s %v after its claim, without the store", e.TaskID, ms(e.At.Sub(c.from)))
		}
	}
	// A store that took a heartbeat was reachable for a while.
	for _, c := range t.h.Audit {
		if c.Table != "sessions" || c.Before == nil || c.After == nil || c.After.Replica != replica || c.After.Beat == c.Before.Beat {
			continue
		}
		if at := dbTime(c.At); !t.sameClock(c.Seq) || at.After(w.Began.Add(500*time.Millisecond)) && at.Before(w.Healed) {
			return
		}
	}
	if slices.ContainsFunc(t.h.Windows, func(o history.Window) bool { // the other fault of a pair: a frozen replica is silent
		return o.Applied && has(o, history.ReplicaFrozen) && o.Strikes(replica) && o.Began.Before(w.Healed) && w.Began.Before(o.Healed)
	}) {
		return
	}
	for _, p := range t.h.Probes {
		if p.Replica != replica || p.At.Before(trust.Add(2*time.Second)) || !p.At.Before(w.Healed) || !t.alive(replica, p.At) {
			continue
		}
		switch {
		case !p.Live:
			t.violate(Degrades, replica, p.At, "does not answer while the store is away")
		case p.Ready:
			t.violate(Degrades, replica, p.At, "ready, and the store is away since %v", ms(p.At.Sub(w.Began)))
		default:
			continue
		}
		return
	}
}

// alive reports whether a process of the replica was up, and not about to end, at a moment.
func (t *trial) alive(replica string, at time.Time) bool {
	known := false
	for _, p := range t.h.Processes {
		if p.Replica != replica {
			continue
		}
		known = true
		if !p.Ready.IsZero() && at.After(p.Ready) && at.Before(p.Ended) && (p.Told.IsZero() || at.Before(p.Told)) {
			return true
		}
	}
	return !known
}

// sessions checks why each session expired.
func (t *trial) sessions() {
	last := map[string]time.Time{} // last heartbeat of each
	for _, c := range t.h.Audit {
		if c.Table != "sessions" || c.After == nil {
			continue
		}
		r, at := c.After, dbTime(c.At)
		died := c.Before != nil && c.Before.Dead == 0 && r.Dead != 0
		if died && t.sameClock(c.Seq) && !t.gone(r.Replica, at) {
			quiet := at.Sub(last[r.ID])
			switch {
			case quiet < t.run.SessionTTL-clockError && t.unheard(r.Replica):
			case quiet < t.run.SessionTTL-clockError:
				t.violate(Degrades, r.Replica, at, "session %s expired %v after its last heartbeat", r.ID, ms(quiet))
			case (t.run.Slack == 0 || t.spared(at)) && !t.mayBeLost(r.Replica, at):
				t.violate(Degrades, r.Replica, at, "session %s was silent for %v, and no fault had struck it", r.ID, ms(quiet))
			}
		}
		last[r.ID] = at
	}
}

// gone reports whether the latest process of a replica had ended, or was told to, at a moment. A new process on
// the same machine evicts the session of an ended one at once.
func (t *trial) gone(replica string, at time.Time) bool {
	var latest history.Process
	for _, p := range t.h.Processes {
		if p.Replica == replica && p.Started.Before(at) && p.Started.After(latest.Started) {
			latest = p
		}
	}
	ended := !latest.Ended.IsZero() && latest.Ended.Before(at)
	told := !latest.Told.IsZero() && latest.Told.Before(at)
	// A process that has just begun finds the session of its predecessor.
	fresh := !latest.Started.IsZero() && (latest.Ready.IsZero() || at.Before(latest.Ready))
	return ended || told || fresh
}

// waiting checks lock.when_down: wait: a replica that cannot reach the lock service for longer than its leases
// last claims nothing until it can.
func (t *trial) waiting() {
	if t.run.WhenDown != "wait" {
		return
	}
	for _, w := range t.h.Windows {
		if !w.Applied || w.Pair != "" || !has(w, history.LockGone) {
			continue
		}
		from := w.Began.Add(t.run.LockTTL + time.Second + t.run.Slack)
		for _, c := range t.ordered {
			if t.sameClock(c.seq) && w.Strikes(c.row.Replica) && c.from.After(from) && c.from.Before(w.Healed) {
				t.violate(Degrades, c.row.Replica, c.from, "claimed task %s %v after the lock service was away, with when_down wait", c.row.ID, ms(c.from.Sub(w.Began)))
			}
		}
	}
}
