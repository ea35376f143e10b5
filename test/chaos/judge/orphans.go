package judge

import (
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// orphans is the other half of I3b: no command shows after another attempt may start in its place. That is
// may_run_until of its row, or, if that is later, a session ttl after the last heartbeat of its session. Only
// expired sessions have such an end.
//
// Excused are helper-frozen, as for overlaps, until the freeze is over, and 0.5 s more; and helper-down for
// descendants of a command.
func (t *trial) orphans() {
	until := t.mayRunUntil()
	seen := map[claimKey]bool{}
	for _, e := range slices.Backward(t.h.Effects) {
		key := claimKey{e.TaskID, e.Token}
		if e.What != history.Start && e.What != history.Beat && e.What != history.End || seen[key] {
			continue
		}
		seen[key] = true // the last word
		bound, bounded := until[key]
		if !bounded || !e.At.After(bound.Add(t.run.Slack)) || t.unstoppable(e) || t.frozenWorker(e, e.At) || t.abandoned(e, e.At) {
			continue
		}
		t.violate(NoOverlap, "task "+e.TaskID, e.At, "attempt %d of %s was at work %v after it might run", e.Attempt, e.Replica, ms(e.At.Sub(bound)))
	}
}

// mayRunUntil is the end of the attempts whose session expired while they ran.
func (t *trial) mayRunUntil() map[claimKey]time.Time {
	beat := map[string]time.Time{} // last heartbeat of each session
	died := map[string]bool{}
	for _, c := range t.h.Audit {
		if c.Table != "sessions" || c.After == nil || !t.sameClock(c.Seq) {
			continue
		}
		if c.Before == nil || c.After.Beat > c.Before.Beat {
			beat[c.After.ID] = dbTime(c.At)
		}
		died[c.After.ID] = died[c.After.ID] || c.After.Dead != 0
	}
	until := map[claimKey]time.Time{}
	for _, c := range t.h.Audit {
		if c.Table != "tasks" || c.After == nil || c.After.State != running || !died[c.After.Session] || !t.sameClock(c.Seq) {
			continue
		}
		bound := beat[c.After.Session].Add(t.run.SessionTTL)
		if row := dbTime(c.After.Until); row.After(bound) && !ofWorker(c.After.Replica) { // of a worker it is the deadline
			bound = row
		}
		if key := (claimKey{c.After.ID, c.After.Token}); bound.After(until[key]) {
			until[key] = bound
		}
	}
	return until
}

// unstoppable reports whether the warden of the attempt was frozen at the time.
func (t *trial) unstoppable(e history.Effect) bool {
	for _, w := range t.h.Windows {
		if w.Applied && has(w, history.HelperFrozen) && w.Strikes(e.Replica) && w.Began.Before(e.At) && e.At.Before(w.Healed.Add(frozenMargin+t.run.Slack)) {
			return true
		}
	}
	return false
}

// abandoned reports whether the last output came from a descendant of a command whose replica and warden had
// been killed at once before a moment: the kernel ended the command, and not its descendants.
// docs/reliability.md names this limit.
func (t *trial) abandoned(last history.Effect, before time.Time) bool {
	i := slices.IndexFunc(t.begun, func(e history.Effect) bool { return e.TaskID == last.TaskID && e.Token == last.Token })
	if i < 0 || t.begun[i].PID == last.PID {
		return false
	}
	return slices.ContainsFunc(t.h.Windows, func(w history.Window) bool {
		return w.Applied && has(w, history.HelperDown) && w.Strikes(last.Replica) && w.Began.Before(before) && t.begun[i].At.Before(w.Healed)
	})
}
