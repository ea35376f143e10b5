package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// Before compares two waits for one key by the order in which they are to get it.
func (r LockWait) Before(other LockWait) int {
	return cmp.Or(cmp.Compare(r.Rank, other.Rank), cmp.Compare(r.RunAt, other.RunAt), cmp.Compare(r.TaskID, other.TaskID))
}

// FirstWaits implements ledger.Waits.
func (s *Store) FirstWaits(ctx context.Context, session string, skip []string, limit int) (first []ledger.Wait, ends time.Time, err error) {
	err = s.tx(ctx, "first waits", func(t *tx) error {
		first, ends = nil, time.Time{}
		firsts := map[string]LockWait{}
		for _, w := range t.waits.rows {
			if at := fromMicros(w.Until); !at.IsZero() && (ends.IsZero() || at.Before(ends)) {
				ends = at
			}
			p := t.pools.rows[w.Pool]
			if p.Hash == "" || p.Paused != nil && *p.Paused || slices.Contains(skip, w.Work) {
				continue
			}
			if f, is := firsts[w.Key]; !is || w.Before(f) < 0 {
				firsts[w.Key] = w
			}
		}
		var rows []LockWait
		for _, w := range firsts {
			rows = append(rows, w)
		}
		slices.SortFunc(rows, func(a, b LockWait) int { return cmp.Compare(a.Key, b.Key) })
		rows = rows[:min(limit, len(rows))]
		slices.SortFunc(rows, LockWait.Before)
		times := map[string]int{}
		for _, w := range rows {
			if times[w.TaskID]++; times[w.TaskID] == w.KeyCount {
				first = append(first, ledger.Wait{
					TaskID: w.TaskID, Pool: w.Pool, Work: w.Work, Queued: w.Session != session && t.queued(w),
				})
			}
		}
		return nil
	})
	return first, ends, err
}

// QueueWaits implements ledger.Waits.
func (s *Store) QueueWaits(ctx context.Context, session string, tasks []string) (mine []jobs.Task, err error) {
	err = s.tx(ctx, "queue waits", func(t *tx) error {
		mine = nil
		for _, w := range t.waitsOf(tasks) {
			if !t.queued(w) {
				w.Session = session
				put(t, &t.waits, w)
			}
		}
		ids := map[string]bool{}
		for _, w := range t.waitsOf(tasks) {
			if r, open := t.tasks.rows[w.TaskID]; open && r.State == Locked && w.Session == session && !ids[w.TaskID] {
				ids[w.TaskID] = true
				mine = append(mine, r.task())
			}
		}
		for _, w := range t.waitsOf(tasks) {
			if r, open := t.tasks.rows[w.TaskID]; w.Session == session && (!open || r.State != Locked) {
				remove(t, &t.waits, t.waits.key(w))
			}
		}
		slices.SortFunc(mine, func(a, b jobs.Task) int { return cmp.Compare(a.ID, b.ID) })
		return nil
	})
	return mine, err
}

// waitsOf are the rows of these tasks.
func (t *tx) waitsOf(tasks []string) (all []LockWait) {
	for _, w := range t.waits.rows {
		if slices.Contains(tasks, w.TaskID) {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b LockWait) int { return cmp.Or(cmp.Compare(a.Key, b.Key), a.Before(b)) })
	return all
}

// queued reports whether a live session has queued the task of a wait.
func (t *tx) queued(w LockWait) bool {
	owner, known := t.sessions.rows[w.Session]
	return known && !owner.Dead
}

// LeaveWaits implements ledger.Waits.
func (s *Store) LeaveWaits(ctx context.Context, session string, tasks []string) error {
	return s.tx(ctx, "leave waits", func(t *tx) error {
		for _, w := range t.waitsOf(tasks) {
			if w.Session == session {
				w.Session = ""
				put(t, &t.waits, w)
			}
		}
		return nil
	})
}

// ExplainWaits implements ledger.Waits.
func (s *Store) ExplainWaits(ctx context.Context, session string, reasons map[string]string) error {
	return s.tx(ctx, "explain waits", func(t *tx) error {
		for id, why := range reasons {
			waits := t.waitsOf([]string{id})
			if r, open := t.tasks.rows[id]; open && r.State == Locked && len(waits) > 0 && (waits[0].Session == session || !t.queued(waits[0])) {
				r.Reason = why
				put(t, &t.tasks, r)
			}
		}
		return nil
	})
}

// EndWaits implements ledger.Waits.
func (s *Store) EndWaits(ctx context.Context, judge ledger.Judge, limit int) (ended []jobs.Task, err error) {
	err = s.tx(ctx, "end waits", func(t *tx) error {
		ended = nil
		now, err := judge(t.now())
		if err != nil {
			return err
		}
		over := map[string]bool{}
		for _, w := range t.waits.rows {
			if w.Until > 0 && w.Until <= micros(now) {
				over[w.TaskID] = true
			}
		}
		var rows []Task
		for id := range over {
			if r, open := t.tasks.rows[id]; open && r.State == Locked {
				rows = append(rows, r)
			}
		}
		slices.SortFunc(rows, func(a, b Task) int { return cmp.Compare(a.ID, b.ID) })
		rows = rows[:min(limit, len(rows))]
		first := t.firstBefore(rows)
		var ends []happening
		for _, r := range rows {
			task, end := t.move(now, move{
				row: r, to: toDone, end: jobs.StateCancelled, reason: ledger.EndOfWait(r.Reason, first[r.ID]), code: reason.LockWait, failure: r.Error, exit: r.ExitCode,
			})
			ended = append(ended, task)
			if end != nil {
				ends = append(ends, *end)
			}
		}
		return t.happened(now, ends)
	})
	return ended, err
}

// firstBefore has, for tasks that wait behind others, the reason of the one that is first for a key.
func (t *tx) firstBefore(tasks []Task) map[string]string {
	first := map[string]string{}
	for _, r := range tasks {
		waits := t.waitsOf([]string{r.ID})
		for _, w := range slices.Backward(waits) {
			head := w
			for _, o := range t.waits.rows {
				if o.Key == w.Key && o.Before(head) < 0 {
					head = o
				}
			}
			if head.TaskID != r.ID {
				first[r.ID] = t.tasks.rows[head.TaskID].Reason
			}
		}
	}
	return first
}

// waiting are the tasks of a claim that wait for locks, in the order of claims.
func (t *tx) waiting(c ledger.Claim) (all []Task) {
	for _, id := range c.Waiting {
		if r, open := t.tasks.rows[id]; open && r.State == Locked && r.Pool == c.Pool {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b Task) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.RunAt, b.RunAt), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// lock makes a ready task wait for its locks, or leaves them to the claimer to try.
func (t *tx) lock(now time.Time, r Task, l ledger.Locking, out *ledger.Claimed) {
	behind := false
	for _, w := range t.waits.rows {
		behind = behind || slices.Contains(l.Keys, w.Key)
	}
	switch {
	case l.State == ledger.LocksBusy:
	case behind:
		l = l.Behind()
	default:
		out.Locked = append(out.Locked, r.task())
		return
	}
	r.State, r.Reason, r.ReasonCode = Locked, l.Reason, reason.WaitsForLock
	put(t, &t.tasks, r)
	for _, key := range l.Keys {
		add(t, &t.waits, LockWait{
			Key: key, Rank: r.Rank, RunAt: r.RunAt, TaskID: r.ID, KeyCount: len(l.Keys), Pool: r.Pool, Work: ledger.WorkOf(r.task()),
			Until: micros(l.LimitOfWait(now)),
		})
	}
	out.Waiting = append(out.Waiting, r.task())
}

// waitNoMore makes the tasks of a claim ready that wait for locks.
func (t *tx) waitNoMore(c ledger.Claim) {
	for _, r := range t.waiting(c) {
		r.State, r.Reason, r.ReasonCode = Ready, "", ""
		put(t, &t.tasks, r)
		t.forgetWaits(r.ID)
	}
}

func (t *tx) forgetWaits(task string) {
	for _, w := range t.waitsOf([]string{task}) {
		remove(t, &t.waits, t.waits.key(w))
	}
}

// failLocks ends a candidate whose keys cannot be made.
func (t *tx) failLocks(now time.Time, r Task, l ledger.Locking, out *ledger.Claimed) {
	task, end := t.move(now, move{row: r, to: toDone, end: jobs.StateFailed, reason: l.Reason, code: reason.LockKey, failure: r.Error, exit: r.ExitCode})
	out.Failed = append(out.Failed, task)
	_ = t.countRun(now, t.done.rows[r.ID], jobs.StateFailed) // no id of an event is missing in memory
	if end != nil {
		_ = t.happened(now, []happening{*end})
	}
}
