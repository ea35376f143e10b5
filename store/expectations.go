package store

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// expect adds the expectations of an opening whose row is inserted.
func (w *decision) expect(o *ledger.Opening) {
	if o.Task == nil {
		return
	}
	for _, e := range o.Expectations() {
		w.expected = append(w.expected, []any{micros(e.By), o.Trigger.Job, micros(o.Trigger.At), o.Trigger.Seq, string(e.What)})
	}
}

// LateRuns looks at the expectations whose time has come, the oldest first, at most limit of them, and deletes them. Of each that its run has not met it
// writes the event. It implements ledger.Notifications.
//
// What is deleted and what is written is one transaction, and no other replica deletes the same row: each expectation makes one event at most.
//
// Errors: what judge returned, jobs.ErrUnavailable.
func (s replica) LateRuns(ctx context.Context, judge ledger.Judge, limit int) (ledger.Lateness, error) {
	var come []expectationModel
	err := s.read(ctx, "late", func(t *tx) error {
		now, err := t.Now()
		if err != nil {
			return err
		}
		if now, err = judged(judge, now); err != nil {
			return err
		}
		come, err = list(t.rows("SELECT due_by, job, at, seq, what FROM {expectations} WHERE due_by <= ? ORDER BY due_by, job, at, seq, what LIMIT ?",
			micros(now.Add(-ledger.LateAfter)), limit), func(m *expectationModel) expectationModel { return *m }) // primary key
		return err
	})
	if err != nil || len(come) == 0 {
		return ledger.Lateness{}, err
	}
	w := &lateness{come: come}
	if err := s.settle(ctx, "late", w.write, w.committed); err != nil {
		return ledger.Lateness{}, err
	}
	return ledger.Lateness{Events: w.events, More: len(come) == limit}, nil
}

// lateness is one LateRuns call; each call of write starts it again.
type lateness struct {
	come   []expectationModel
	locked expectationModel // one that write has deleted
	events []ledger.Event
}

// write locks the rows that still exist, reads what has become of their runs, and deletes them. A run without a row is one that the retention
// has deleted.
//
// Index: primary keys.
func (w *lateness) write(t *tx) error {
	w.events = nil
	now, err := t.Now()
	if err != nil {
		return err
	}
	locked, err := list(t.rows("SELECT due_by, job, at, seq, what FROM {expectations}{by_key} WHERE {in int due_by, name job, int at, int seq, name what} ORDER BY due_by, job, at, seq, what{for_update}",
		sqlkit.Rows(w.come, expectationModel.key)), func(m *expectationModel) expectationModel { return *m })
	if err != nil || len(locked) == 0 {
		return err
	}
	w.locked = locked[0]
	runs := map[ledgerKey]*triggerModel{}
	err = each(t.rows("SELECT job, at, seq, outcome, task_id, replica, started_at, finished_at FROM {triggers} WHERE {in name job, int at, int seq}",
		sqlkit.Rows(locked, func(m expectationModel) []any { return []any{m.Job, m.At, m.Seq} })), func(m *triggerModel) {
		run := *m
		runs[ledgerKey{m.Job, m.At, m.Seq}] = &run
	})
	if err != nil {
		return err
	}
	for _, m := range locked {
		if run := runs[ledgerKey{m.Job, m.At, m.Seq}]; run != nil {
			if e, late := ledger.LateEvent(run.trigger(), ledger.Expectation{What: ledger.Expected(m.What), By: fromMicros(m.DueBy)}); late {
				w.events = append(w.events, e)
			}
		}
	}
	if err := t.keepEvents(now, w.events); err != nil {
		return err
	}
	n, err := t.Exec("{delete} {expectations} AS t{by_key} WHERE {in int due_by, name job, int at, int seq, name what}", sqlkit.Rows(locked, expectationModel.key))
	if err == nil && n != int64(len(locked)) {
		return sqlkit.ErrMoved
	}
	return err
}

// committed: the rows no longer exist, by this transaction or by that of another replica that did the same.
func (w *lateness) committed(t *tx) (bool, error) {
	m := w.locked
	still, err := t.One("SELECT seq FROM {expectations}{by_key} WHERE due_by=? AND job=? AND at=? AND seq=? AND what=?{for_update}", m.key(), new(int))
	return !still, err
}
