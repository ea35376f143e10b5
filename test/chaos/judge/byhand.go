package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// byHand is the part of I1 for runs by clients: each acknowledged run is one row of the ledger, and every other
// row stands for one call with an unknown outcome. A skipped row may also come from a refused call.
func (t *trial) byHand() {
	acked := map[string]bool{} // tasks
	for _, a := range t.h.Asks {
		for _, id := range a.TaskIDs {
			acked[id] = acked[id] || a.What == "run" && a.Answer == "ok"
		}
	}
	open, refused, written := t.calls("run", "unknown"), t.calls("run", "refused"), t.ledgerRows()
	there := map[string]bool{}
	timed := func(r history.Row) bool { return len(t.h.Audit) > 0 && t.sameClock(written[keyOf(r)].Seq) }
	// In the order of writes, not of the clock: a row of another time settles any call, and must leave those
	// that rows before it need.
	inOrder := func(a, b history.Row) int {
		return cmp.Or(cmp.Compare(written[keyOf(a)].Seq, written[keyOf(b)].Seq), cmp.Compare(a.DecidedAt, b.DecidedAt))
	}
	for _, r := range slices.SortedFunc(slices.Values(t.h.Final.Triggers), inOrder) {
		switch {
		case r.Seq == 0 || t.jobs[r.Job].Name == "":
			continue
		case acked[r.TaskID]:
			if there[r.TaskID] {
				t.violate(Accounted, subject(r), dbTime(r.DecidedAt), "a second row for task %s, which was run by hand once", r.TaskID)
			}
			there[r.TaskID] = true
			continue
		}
		if r.TaskID == "" && refused.settle(r.Job, dbTime(r.DecidedAt), timed(r)) {
			continue
		}
		if !open.settle(r.Job, dbTime(r.DecidedAt), timed(r)) {
			t.violate(Accounted, subject(r), dbTime(r.DecidedAt), "run by hand (task %q), and no client asked for it", r.TaskID)
		}
	}
	for _, a := range t.h.Asks {
		for _, id := range a.TaskIDs {
			if a.What == "run" && a.Answer == "ok" && !there[id] {
				t.violate(Accounted, a.Target, a.Returned, "acknowledged to be run by hand as task %s, and not in the ledger", id)
			}
		}
	}
}

// calls are calls with an unknown outcome. Each may have had an effect once.
type calls struct {
	asks  []history.Ask // by when they were given up
	until func(a history.Ask) time.Time
}

func (t *trial) calls(what, answer string) *calls {
	u := &calls{until: t.effective}
	for _, a := range t.h.Asks {
		if a.What == what && a.Answer == answer {
			u.asks = append(u.asks, a)
		}
	}
	slices.SortStableFunc(u.asks, func(a, b history.Ask) int { return a.Returned.Compare(b.Returned) })
	return u
}

// effective is until when a call may take effect that its client has given up. A replica that accepts no connection, or stands still,
// takes up what has waited for it once that is healed: so a fault must name it, and the call must have had no answer.
func (t *trial) effective(a history.Ask) time.Time {
	end := a.Returned
	for _, w := range t.h.Windows {
		if a.Status == 0 && !w.Elsewhere && slices.Contains(w.Replicas, a.Replica) && w.Began.Before(a.Returned) && w.Healed.After(end) && w.Healed.After(a.Called) {
			end = w.Healed
		}
	}
	return end.Add(answered + t.run.Slack)
}

// settle removes the call about target (empty: any) that may have had an effect at a moment; false: there is
// none. The moment counts only if it is timed.
func (u *calls) settle(target string, at time.Time, timed bool) bool {
	i := u.about(target, at, timed)
	if i >= 0 {
		u.asks = slices.Delete(u.asks, i, i+1)
	}
	return i >= 0
}

// may reports what settle does, of calls that may each have had several effects.
func (u *calls) may(target string, at time.Time, timed bool) bool {
	return u.about(target, at, timed) >= 0
}

// about is the first call about target that may have had an effect at a moment; -1: none.
func (u *calls) about(target string, at time.Time, timed bool) int {
	return slices.IndexFunc(u.asks, func(a history.Ask) bool {
		return (target == "" || a.Target == target) &&
			(!timed || !at.Before(a.Called.Add(-clockError)) && !at.After(u.until(a)))
	})
}
