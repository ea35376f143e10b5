package judge

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// notifications is the pool of the scheduler itself.
const notifications = "notifications"

// conserved is I6: each task acknowledged to a client is in the tables; each task in them was enqueued by a
// client, and each one without a key by one call: it was acknowledged, or its outcome is unknown; an
// idempotency key has one task, see keys; so have the values of unique tasks, see unique; and the tasks that existed when clients stopped have ended.
//
// No excuses. If the database's clock was stepped, tasks delayed while it was ahead may wait.
func (t *trial) conserved() {
	rows := map[string]history.Row{}
	for _, list := range [][]history.Row{t.h.Final.Tasks, t.h.Final.Done} {
		for _, r := range list {
			if other, twice := rows[r.ID]; twice {
				t.violate(Conserved, "task "+r.ID, dbTime(r.CreatedAt), "two rows: %q and %q", other.State, r.State)
			}
			rows[r.ID] = r
		}
	}
	acked := map[string]bool{}
	byKey := map[[2]string]string{} // pool, key → task
	asked := map[[2]string]bool{}
	for _, a := range t.h.Asks {
		t.report.Asks[a.What+" "+a.Answer]++
		if a.What == "enqueue" && a.Answer != "refused" {
			asked[[2]string{a.Target, a.Key}] = true
		}
		if a.Answer != "ok" {
			continue
		}
		for _, id := range a.TaskIDs {
			acked[id] = true
			if _, there := rows[id]; !there {
				t.violate(Conserved, "task "+id, a.Returned, "acknowledged to %s of %q by %s, and gone", a.What, a.Target, a.Replica)
			}
		}
		if k := [2]string{a.Target, a.Key}; a.What == "enqueue" && a.Key != "" && len(a.TaskIDs) == 1 {
			if other := byKey[k]; other != "" && other != a.TaskIDs[0] {
				t.violate(Conserved, "key "+a.Key, a.Returned, "clients got task %s, and now %s", other, a.TaskIDs[0])
			}
			byKey[k] = a.TaskIDs[0]
		}
	}
	t.report.Tasks = len(acked)
	keyed := map[[2]string]string{}
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		r := rows[id]
		if r.IdemKey != "" && r.Job == "" {
			k := [2]string{r.Pool, r.IdemKey}
			if other := keyed[k]; other != "" {
				t.violate(Conserved, "key "+r.IdemKey, dbTime(r.CreatedAt), "two tasks in pool %s: %s and %s", r.Pool, other, r.ID)
			}
			keyed[k] = r.ID
		}
		if r.Job == "" && r.IdemKey != "" && r.Pool != notifications && !acked[r.ID] && !asked[[2]string{r.Pool, r.IdemKey}] {
			t.violate(Conserved, "task "+r.ID, dbTime(r.CreatedAt), "in pool %s, and no client asked for it", r.Pool)
		}
	}
	t.keys(rows)
	t.keyless(rows, acked)
	t.unique()
	t.unfinished()
}

// keyless are tasks that clients sent without a key, or made of others by retry. Of the latter the row
// says which task was the first of its chain. A retry of many without an answer may have made several.
func (t *trial) keyless(rows map[string]history.Row, acked map[string]bool) {
	born := map[string]int64{}
	for _, c := range t.h.Audit {
		if c.Table == "tasks" && c.Before == nil && c.After != nil {
			born[c.After.ID] = c.Seq
		}
	}
	retries, sent, many := t.calls("retry", "unknown"), t.calls("enqueue", "unknown"), t.calls("retry many", "unknown")
	sent.asks = slices.DeleteFunc(sent.asks, func(a history.Ask) bool { return a.Key != "" })
	for i, a := range retries.asks {
		retries.asks[i].Target = cmp.Or(rows[a.Target].RetryOf, a.Target)
	}
	inOrder := func(a, b history.Row) int { // as byHand has them
		return cmp.Or(cmp.Compare(born[a.ID], born[b.ID]), cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.ID, b.ID))
	}
	for _, r := range slices.SortedFunc(maps.Values(rows), inOrder) {
		if r.Job != "" || r.IdemKey != "" || r.Pool == notifications || acked[r.ID] {
			continue
		}
		at, timed := dbTime(r.CreatedAt), len(t.h.Audit) > 0 && t.sameClock(born[r.ID])
		if r.RetryOf != "" && many.may(r.Pool, at, timed) {
			continue
		}
		if !retries.settle(r.RetryOf, at, timed) && (r.RetryOf != "" || !sent.settle(r.Pool, at, timed)) {
			t.violate(Conserved, "task "+r.ID, at, "in pool %s (retry of %q), and no client asked for it", r.Pool, r.RetryOf)
		}
	}
}

// unfinished are tasks that wait or run at the end. Those of the ledger are open triggers there.
func (t *trial) unfinished() {
	ledger := map[string]bool{}
	for _, r := range t.h.Final.Triggers {
		ledger[r.TaskID] = true
	}
	for _, r := range t.h.Final.Tasks {
		if created := dbTime(r.CreatedAt); !t.putOff(r) && !ledger[r.ID] && r.Pool != notifications && created.Before(t.quiesced()) {
			t.violate(Conserved, "task "+r.ID, created, "in pool %s, and still %s at the end", r.Pool, r.State)
		}
	}
}

// putOff reports whether a task is not due yet by a clock of the database that was stepped, or is behind such a one in an order by key.
func (t *trial) putOff(r history.Row) bool {
	if r.State == "keyed" && t.pools[r.Pool].Ordered {
		return slices.ContainsFunc(t.h.Final.Tasks, func(head history.Row) bool {
			return head.State != "keyed" && head.Pool == r.Pool && head.Key == r.Key && t.putOff(head)
		})
	}
	waits := r.State == "waits" || r.State == "ready" && r.RunAt != r.CreatedAt // it became ready while that clock was ahead
	return t.steps() && len(t.h.Audit) > 0 && waits && r.RunAt > t.h.Audit[len(t.h.Audit)-1].At
}
