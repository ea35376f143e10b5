package store

import (
	"fmt"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// readOrders locks the orders of the jobs whose rows are locked, and reads what the ledger has of those that are open. Without any it sends nothing.
//
// Index: primary keys of orders and triggers.
func (w *decision) readOrders(t *tx) error {
	var ids []string
	for _, o := range w.Orders {
		if _, locked := findJob(w.rows, o.Job); locked {
			ids = append(ids, o.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	locked, err := t.orders("WHERE {in name id} AND next_at>0 ORDER BY id{for_update}", sqlkit.Keys(sqlkit.Distinct(ids)))
	if err != nil {
		return err
	}
	for _, o := range locked {
		row, exists := findJob(w.rows, o.Job)
		if !exists {
			continue
		}
		is := ledger.OrderState{Order: o}
		if is.Ended, err = t.endedOf(o); err != nil {
			return err
		}
		if b := o.Asked.Backfill; b != nil && !b.Again {
			is.Ran, err = t.ran(o.Job, micros(o.Progress.Cursor)+1, micros(b.To), ledger.RanLooked)
			if err != nil {
				return err
			}
			if n := len(is.Ran); n == ledger.RanLooked {
				is.RanTo = is.Ran[n-1]
			}
		}
		row.Orders = append(row.Orders, is)
	}
	return nil
}

// endedOf is how the runs of an order have ended that it has as open. One without a row was deleted by the retention.
//
// Index: primary key of triggers.
func (t *tx) endedOf(o ledger.Order) (map[string]jobs.State, error) {
	if len(o.Progress.Open) == 0 {
		return nil, nil
	}
	ended := map[string]jobs.State{}
	for _, r := range o.Progress.Open {
		ended[r.Task] = ""
	}
	err := each(t.rows("SELECT job, at, seq, task_id, outcome, result FROM {triggers}{by_key} WHERE {in name job, int at, int seq}",
		sqlkit.Rows(o.Progress.Open, func(r ledger.OrderRun) []any { return []any{o.Job, micros(r.At), r.Seq} })), func(m *triggerModel) {
		if end, is := ledger.End(m.trigger()); is {
			ended[m.TaskID] = end
		} else {
			delete(ended, m.TaskID)
		}
	})
	return ended, err
}

// backfilled finds out which jobs have open tasks that backfills made: of those that no schedule asked for, if there are any.
//
// Index: primary key of triggers.
func (w *decision) backfilled(t *tx) error {
	var asked []ledgerKey
	for _, r := range w.rows {
		for _, task := range r.Open {
			if task.Seq > 0 {
				asked = append(asked, ledgerKey{r.Name, micros(task.ScheduledAt), task.Seq})
			}
		}
	}
	if len(asked) == 0 {
		return nil
	}
	for part := range slices.Chunk(asked, sqlkit.MaxRows) {
		made, err := column[string](t.rows("SELECT job FROM {triggers}{by_key} WHERE {in name job, int at, int seq} AND cause='"+string(jobs.CauseBackfill)+"'",
			sqlkit.Rows(part, func(k ledgerKey) []any { return []any{k.job, k.at, k.seq} })))
		if err != nil {
			return err
		}
		for _, job := range made {
			if r, is := findJob(w.rows, job); is {
				r.Backfilled = true
			}
		}
	}
	return nil
}

// writeOrders writes what becomes of the orders. Their rows are locked, so they exist.
func (w *decision) writeOrders(t *tx) error {
	var rows [][]any
	for i := range w.out.Decisions {
		dec := &w.out.Decisions[i]
		for k := range dec.Orders {
			o := &dec.Orders[k]
			job, exists := findJob(w.rows, dec.Job)
			if !exists || !slices.ContainsFunc(job.Orders, func(is ledger.OrderState) bool { return is.Order.ID == o.ID }) {
				return fmt.Errorf("a decision about order %s, whose row is not locked", o.ID)
			}
			o.Progress.Open = slices.Clone(o.Progress.Open) // the value of d.Decide stays as it is
			for n := range o.Progress.Open {
				r := &o.Progress.Open[n]
				for _, made := range dec.Triggers {
					if made.Task != nil && made.Task.ID == r.Task {
						r.Seq = made.Trigger.Seq
					}
				}
			}
			rows = append(rows, writeOrder(*o))
		}
	}
	return t.Upsert("{orders} (id, job, kind, state, by_whom, reason, reason_code, created_at, next_at, ended_at, asked, progress)", "id", rows, "state", "reason", "reason_code", "next_at", "ended_at", "progress")
}
