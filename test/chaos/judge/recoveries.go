package judge

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// recoveries is I9: the tasks of a killed replica are lost or pending again within session ttl + 3 s, and after
// a fault is healed all replicas are ready and triggers on time again within the recovery time of its kinds,
// without help. Lateness counts also after the next fault has begun, unless that one began early enough to be
// the reason, see deadline. A fault of another cell excuses what is late or not ready meanwhile.
//
// Excused is reaping while no replica could do it: the store is down or slow for all or has another time, everything is paused, or
// every replica is down or frozen; and a second more beside one that is frozen, disconnected or slow, which may
// hold rows. With Run.Slack, a replica that was ready once has recovered: later delays are due to the machine.
func (t *trial) recoveries() {
	t.reaped()
	t.resumed()
	all, faults := t.punctuals(), t.faults()
	for i, w := range faults {
		until := t.ended
		for _, next := range faults {
			if next.Began.After(w.Healed) && next.Began.Before(until) {
				until = next.Began
			}
		}
		r := t.window(w, all, until)
		t.report.Windows = append(t.report.Windows, r)
		if limit := t.recovery(w); w.Applied && r.Recovery > max(limit, promised+t.run.Slack) {
			t.violate(Recovers, fmt.Sprintf("window %d", i+1), w.Healed.Add(r.Recovery), "%s: recovered %v after it was healed, and %v are allowed",
				windowName(w), ms(r.Recovery), limit)
		}
	}
}

// faults are the windows of this cell, see pairs.
func (t *trial) faults() []history.Window {
	return pairs(slices.DeleteFunc(slices.Clone(t.h.Windows), func(w history.Window) bool { return w.Elsewhere }))
}

// strained is until when another cell loaded the machine, if it did so at a moment; zero if it did not.
func (t *trial) strained(at time.Time) (until time.Time) {
	for _, w := range t.h.Windows {
		if w.Elsewhere && !w.Began.After(at) {
			if over := t.over(w); !over.Before(at) {
				until = maxTime(until, over)
			}
		}
	}
	return until
}

// pairs are the windows with two faults at the same time as one.
func pairs(windows []history.Window) []history.Window {
	var all []history.Window
	for _, w := range windows {
		i := slices.IndexFunc(all, func(o history.Window) bool {
			return w.Pair != "" && o.Nemesis == w.Pair && o.Pair == w.Nemesis && o.Began.Before(w.Healed) && w.Began.Before(o.Healed)
		})
		if i < 0 {
			all = append(all, w)
			continue
		}
		o := &all[i]
		if len(o.Replicas) == 0 || len(w.Replicas) == 0 {
			o.Replicas = nil
		} else {
			o.Replicas = slices.Compact(slices.Sorted(slices.Values(slices.Concat(o.Replicas, w.Replicas))))
		}
		if w.Began.Before(o.Began) {
			o.Began = w.Began
		}
		if w.Healed.After(o.Healed) {
			o.Healed = w.Healed
		}
		o.Kinds = slices.Concat(o.Kinds, w.Kinds)
		o.Applied = o.Applied && w.Applied
		o.Ahead = max(o.Ahead, w.Ahead)
		o.Evidence += "; " + w.Evidence
	}
	return all
}

// window measures one fault, or two at the same time.
func (t *trial) window(w history.Window, all []punctual, until time.Time) WindowReport {
	r := WindowReport{
		Name: windowName(w), Replicas: w.Replicas, Began: w.Began, Lasted: w.Healed.Sub(w.Began),
		Applied: w.Applied, Evidence: w.Evidence,
	}
	over := minTime(t.over(w), until)
	within := func(at time.Time) bool { return !at.Before(w.Began) && !at.After(over) }
	for _, l := range t.losses() {
		if within(l.at) {
			r.Lost++
		}
	}
	last := w.Healed
	for _, p := range all {
		if within(p.decided) && p.row.Outcome == "missed" {
			r.Missed += int(max(p.row.Count, 1))
		}
		if p.waited {
			continue
		}
		if within(p.due) {
			r.Timed++
			r.Latest = max(r.Latest, p.late)
		}
		late := p.due.Add(promised + t.run.Slack)
		late = maxTime(late, t.strained(late))
		if p.decided.After(late) && p.decided.After(last) && late.After(w.Began) && p.due.Before(until) &&
			!t.starved(p.row.Replica, p.decided) && !t.lateByNext(w, p, until) {
			last = p.decided
		}
	}
	if red := t.lastRed(w.Healed, until); red.After(last) {
		last = red
	}
	r.Recovery = last.Sub(w.Healed)
	return r
}

// lateByNext reports whether a trigger may be late by a fault that began after w was healed, at next or
// later, and before w had to have recovered.
func (t *trial) lateByNext(w history.Window, p punctual, next time.Time) bool {
	by := maxTime(p.due.Add(promised+t.run.Slack), t.over(w))
	return slices.ContainsFunc(t.h.Windows, func(o history.Window) bool {
		return o.Applied && !o.Began.Before(next) && !o.Began.After(by) && t.putsOff(o, p.due).After(by)
	})
}

// lastRed is when a replica was last seen not to be ready between two moments. On a busy machine,
// those that had been ready once since the first moment do not count any more.
func (t *trial) lastRed(from, to time.Time) (last time.Time) {
	green := map[string]bool{}
	for _, p := range t.h.Probes {
		switch {
		case !p.At.After(from) || !p.At.Before(to) || !t.strained(p.At).IsZero():
		case p.Ready:
			green[p.Replica] = true
		case p.At.After(last) && (t.run.Slack <= 0 || !green[p.Replica] && !t.silent(p.Replica, p.At)):
			last = p.At
		}
	}
	return last
}

// reapTime is how long after session ttl the tasks of a killed replica are decided.
const reapTime = 3 * time.Second

func (t *trial) reaped() {
	for _, p := range t.h.Processes {
		if p.How != "killed" && p.How != "group killed" {
			continue
		}
		bound := p.Ended.Add(t.run.SessionTTL + reapTime + t.run.Slack)
		if bound = t.postponed(p.Ended, bound); bound.After(t.ended) {
			continue
		}
		for _, c := range t.ordered {
			switch {
			case c.row.Replica != p.Replica || !t.sameClock(c.seq) || c.from.Before(p.Started) || c.from.After(p.Ended):
			case c.to.IsZero():
				t.violate(Recovers, p.Replica, p.Ended, "killed while it had task %s, which is running to the end", c.row.ID)
			case t.sameClock(c.toSeq) && c.to.After(bound.Add(t.unready(p.Ended, c.to))):
				t.violate(Recovers, p.Replica, c.to, "killed while it had task %s, which was decided %v later, and %v are allowed",
					c.row.ID, ms(c.to.Sub(p.Ended)), ms(bound.Sub(p.Ended)))
			}
		}
	}
}

// postponed moves a bound behind the faults under which no replica could meet it.
func (t *trial) postponed(from, bound time.Time) time.Time {
	for _, w := range t.applied(from, bound) {
		nobody := has(w, history.StoreClock, history.Paused) || t.holdsStore(w) ||
			has(w, history.StoreDown, history.StoreSlow, history.StoreFar, history.ReplicaDown, history.ReplicaFrozen) && t.strikesAll(w)
		switch later := t.over(w).Add(t.run.SessionTTL + reapTime); {
		case nobody && later.After(bound):
			bound = later
		case !nobody && has(w, history.StoreDown, history.StoreSlow, history.ReplicaFrozen):
			bound = bound.Add(stuck)
		}
	}
	return bound
}
