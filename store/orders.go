package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// AddOrder keeps an order. It implements ledger.Triggers.
//
// It locks the job's row, so that the job is not removed meanwhile: what removes it ends its orders.
//
// Index: primary keys.
//
// Errors: jobs.ErrNotFound, jobs.ErrConflict, a *jobs.FieldError, jobs.ErrUnavailable.
func (s replica) AddOrder(ctx context.Context, o ledger.Order, hash string) (added ledger.Order, err error) {
	err = s.sure(ctx, "order", func(t *tx) error {
		rows, err := t.lockJobs([]string{o.Job})
		switch {
		case err != nil:
			return err
		case len(rows) == 0 || rows[0].Hash == "":
			return fmt.Errorf("job %.64q: %w", o.Job, jobs.ErrNotFound)
		}
		was, err := t.orders("WHERE id=?", o.ID)
		if err != nil || len(was) > 0 { // the answer to its COMMIT was lost
			if len(was) > 0 {
				added = was[0]
			}
			return err
		}
		if rows[0].Hash != hash {
			return fmt.Errorf("job %.64q: %w: a newer configuration governs it; ask a replica that has it: scheduler replicas list", o.Job, jobs.ErrConflict)
		}
		now, err := t.Now()
		if err != nil {
			return err
		}
		if err := o.Check(now); err != nil {
			return err
		}
		added = o
		added.Begin(now)
		_, err = t.Insert("{orders} (id, job, kind, state, by_whom, reason, reason_code, created_at, next_at, ended_at, asked, progress)", [][]any{writeOrder(added)})
		return err
	})
	return added, err
}

// orders reads orders; rest follows the table in the statement.
func (t *tx) orders(rest string, args ...any) ([]ledger.Order, error) {
	var all []ledger.Order
	var wrong error
	err := each(t.rows("SELECT "+orderColumns+" FROM {orders}{by_key} "+rest, args...), func(m *orderModel) {
		o, err := m.order()
		if err != nil {
			wrong = err
		}
		all = append(all, o)
	})
	if err == nil {
		err = wrong
	}
	return all, err
}

// DueOrders returns the open orders whose time has come. It implements ledger.Triggers.
//
// Index: orders_next; primary key of jobs.
//
// Errors: jobs.ErrUnavailable.
func (s replica) DueOrders(ctx context.Context, until time.Time, limit int) (due []ledger.DueOrder, err error) {
	var removed []string
	err = s.read(ctx, "due orders", func(t *tx) error {
		due, removed = nil, nil
		return t.Query(`SELECT o.id, o.job, o.kind, o.next_at, COALESCE((SELECT hash FROM {jobs} j WHERE j.name=o.job), '')
			FROM {orders} o{index}{orders}_next{end} WHERE o.next_at>0 AND o.next_at<=? ORDER BY o.next_at LIMIT ?`, []any{micros(until), limit}, func(scan func(...any) error) error {
			var d ledger.DueOrder
			var kind, hash string
			var next int64
			if err := scan(&d.ID, &d.Job, &kind, &next, &hash); err != nil {
				return err
			}
			d.Kind, d.NextAt = wire.OrderKind(kind), fromMicros(next)
			if hash == "" {
				removed = append(removed, d.Job)
			} else {
				due = append(due, d)
			}
			return nil
		})
	})
	if err != nil || len(removed) == 0 {
		return due, err
	}
	// A program without orders has removed the job.
	return due, s.sure(ctx, "end orders of removed jobs", func(t *tx) error {
		rows, err := t.lockJobs(removed)
		if err != nil {
			return err
		}
		now, err := t.Now()
		if err != nil {
			return err
		}
		still := slices.DeleteFunc(sqlkit.Distinct(removed), func(name string) bool {
			row, exists := findJob(rows, name)
			return exists && row.Hash != ""
		})
		return t.endOrders(still, now)
	})
}

// endOrders ends the open orders of jobs that no configuration has any more. The caller has locked their rows, and rows of orders after
// them.
//
// Index: orders_job.
func (t *tx) endOrders(names []string, now time.Time) error {
	if len(names) == 0 {
		return nil
	}
	_, err := t.Exec("UPDATE {orders} SET state=?, reason=?, reason_code=?, next_at=0, ended_at=? WHERE next_at>0 AND {in name job}",
		sqlkit.Keys(names), string(wire.OrderCancelled), ledger.ReasonRetired, string(reason.JobRemoved), micros(now))
	return err
}

// Ran returns the due times of a job in [from, to) that have run or are about to. It implements ledger.Triggers.
//
// Errors: jobs.ErrUnavailable.
func (s replica) Ran(ctx context.Context, job string, from, to time.Time, limit int) ([]time.Time, error) {
	return get(ctx, s.view, "what has run", func(t *tx) ([]time.Time, error) { return t.ran(job, micros(from), micros(to), limit) })
}

// ran: index primary key of triggers, a range of it.
func (t *tx) ran(job string, from, to int64, limit int) ([]time.Time, error) {
	at, err := column[int64](t.rows("SELECT DISTINCT at FROM {triggers}{by_key} WHERE job=? AND at>=? AND at<? AND outcome NOT IN (?, ?) ORDER BY at LIMIT ?",
		job, from, to, string(jobs.Skipped), string(jobs.Missed), limit))
	return mapped(at, fromMicros), err
}
