package store

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

// Reap is the standing query over all dead sessions: their running tasks end as lost or are pending
// again, as their policy says, at most limit of them. It implements the scheduler's Tasks.
//
// It looks at sessions and not at the moment of their death, so it also finds a claim that commits
// afterwards. A job whose attempt was lost is busy until that attempt must have ended, and a task
// that runs again waits until then.
//
// Errors: jobs.ErrUnavailable.
func (s *Store) Reap(ctx context.Context, limit int) ([]ledger.Reaped, error) {
	w := &reap{limit: limit}
	var some bool
	// Nearly always there is nothing to reap, and nothing to lock.
	err := s.read(ctx, "reap", func(t *tx) (err error) {
		some, err = t.one("SELECT id FROM {tasks}"+orphaned+" LIMIT 1", nil, new(string))
		return err
	})
	if err != nil || !some {
		return nil, err
	}
	if err := s.settle(ctx, "reap", w.write, w.committed); err != nil {
		return nil, err
	}
	return w.out, nil
}

// orphaned are the running tasks whose session is dead, or gone.
//
// Index: tasks_due for the state; primary key of sessions for each.
const orphaned = "{index}{tasks}_due{end} WHERE state=2 AND NOT EXISTS (SELECT 1 FROM {sessions} s WHERE s.id=session_id AND s.dead=0)"

// reap is one Reap call; write starts it anew each time.
type reap struct {
	limit int
	moves []move
	out   []ledger.Reaped
}

func (w *reap) write(t *tx) error {
	w.moves, w.out = nil, nil
	now, err := t.now()
	if err != nil {
		return err
	}
	rows, err := t.openTasks(taskFacts, orphaned+" LIMIT ?", w.limit)
	if err != nil || len(rows) == 0 {
		return err
	}
	if err := keepBusy(t, rows); err != nil {
		return err
	}
	for _, r := range rows {
		m := died(r, fmt.Sprintf("replica %s died while it had the task", r.Replica))
		if m.to == toReady && r.mayRunUntil.After(now) {
			m.to, m.after = toWait, r.mayRunUntil
		}
		w.moves = append(w.moves, m)
		w.out = append(w.out, ledger.Reaped{Task: m.task(now), Replica: r.Replica})
	}
	return t.move(now, "2", w.moves)
}

// keepBusy marks the jobs of lost attempts as busy until the attempts must have ended.
func keepBusy(t *tx, rows []openTask) error {
	until := map[string]time.Time{}
	var names []string
	for _, r := range rows {
		if r.Job != "" {
			names = append(names, r.Job)
			until[r.Job] = later(until[r.Job], r.mayRunUntil)
		}
	}
	locked, err := t.lockJobs(names)
	if err != nil {
		return err
	}
	for _, job := range locked {
		if u := until[job.Name]; u.After(job.BusyUntil) {
			job.BusyUntil, job.changed = u, true
		}
	}
	return t.saveJobs(locked)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// committed asks about one row: it has left its session, by this transaction or by another
// replica's that did the same.
//
// Index: primary key.
func (w *reap) committed(t *tx) (bool, error) {
	if len(w.moves) == 0 {
		return true, nil
	}
	m := w.moves[0]
	still, err := t.one("SELECT id FROM {tasks} WHERE id=? AND token=? AND state+0=2{for_update}", []any{m.ID, m.Token}, new(string))
	return !still, err
}
