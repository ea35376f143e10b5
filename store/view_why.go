package store

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Why returns what is known of why a task is in its state, all of one moment. However much the store holds, it reads a bounded number of rows:
// what it counts, it counts up to ledger.WhyMost. It implements ledger.API.
//
// Errors: jobs.ErrNotFound, jobs.ErrUnavailable.
func (s views) Why(ctx context.Context, id string) (ledger.Facts, error) {
	return get(ctx, s.snapshot, "why", func(t *tx) (f ledger.Facts, err error) {
		if f.At, err = t.Now(); err != nil {
			return f, err
		}
		open, err := t.openTasks(taskFacts, " WHERE id=?", id)
		if err != nil {
			return f, err
		}
		if len(open) == 0 {
			return f, t.whyEnded(id, &f)
		}
		row := &open[0]
		f.Task, f.Cancel, f.MayRunUntil = row.Task, row.cancel, row.mayRunUntil
		if row.row == rowRunning {
			return f, t.whyRunning(row.session, &f)
		}
		return f, t.whyPending(row, &f)
	})
}

// whyEnded: primary key of done.
func (t *tx) whyEnded(id string, f *ledger.Facts) error {
	found := false
	err := each(t.rows("SELECT "+doneFacts+", may_run_until FROM {done} WHERE id=?", id), func(m *doneModel) {
		f.Task, f.MayRunUntil, found = m.Task.task(), fromMicros(m.MayRunUntil), true
	})
	if err == nil && !found {
		err = fmt.Errorf("task %.64q: %w", id, jobs.ErrNotFound)
	}
	return err
}

// whyRunning: primary key of sessions.
func (t *tx) whyRunning(session string, f *ledger.Facts) error {
	return each(t.rows("SELECT "+sessionColumns+" FROM {sessions} WHERE id=?", session), func(m *sessionModel) { f.Owner = new(m.peer()) })
}

// waitings are the states of pending rows.
var waitings = map[int]ledger.Waiting{rowReady: ledger.WaitsForClaim, rowWaits: ledger.WaitsForTime, rowLocked: ledger.WaitsForLocks, rowKeyed: ledger.WaitsForKey, rowQueued: ledger.WaitsForSlot}

func (t *tx) whyPending(row *openTask, f *ledger.Facts) error {
	f.Waiting = waitings[row.row]
	var err error
	if f.Pausing, err = t.pause(f.At); err != nil {
		return err
	}
	if err := t.lastAttempt(row.ID, f); err != nil {
		return err
	}
	pool, err := t.whyWhere(row.Pool, row.Kind, f)
	if err != nil {
		return err
	}
	if pool != nil {
		if err := t.whyKey(row, pool, f); err != nil {
			return err
		}
	}
	if row.row == rowLocked {
		if f.Locks, err = t.whyLocks(row, f.Live); err != nil {
			return err
		}
	}
	if row.row == rowQueued {
		if f.Slots, err = t.whySlots(row); err != nil {
			return err
		}
	}
	if f.Ahead, err = t.aheadOf(row); err != nil {
		return err
	}
	f.Pace, err = t.pace(row.Pool, f.At)
	return err
}

// whyWhere reads what the pool of a pending task, and those that may run it, are like.
func (t *tx) whyWhere(name, kind string, f *ledger.Facts) (*poolModel, error) {
	pool, err := t.whyPool(name, f)
	if err != nil {
		return nil, err
	}
	if f.Live, err = t.whyLive(name); err != nil {
		return nil, err
	}
	if pool != nil && pool.Kinds.is.Hash == pool.Hash && ledger.ByWorkers(pool.Kinds.is.Kinds[kind]) {
		f.ByWorkers = f.Task.Job == ""
		if f.Workers, err = t.whyWorkers(name, kind); err != nil {
			return nil, err
		}
	}
	f.Running, err = t.runningOf(name, "")
	return pool, err
}

// lastAttempt: primary key of attempts, its last entry.
func (t *tx) lastAttempt(id string, f *ledger.Facts) error {
	return each(t.rows(`SELECT attempt, state, reason, reason_code, token, replica, started_at, finished_at, exit_code, SUBSTR(error, 1, ?) AS error
		FROM {attempts} WHERE task_id=? ORDER BY attempt DESC LIMIT 1`, errorShown, id), func(m *attemptModel) { f.Last = new(m.attempt()) })
}

// whyPool reads the row of a pool, and who paused it when.
//
// Index: primary key of pools.
func (t *tx) whyPool(name string, f *ledger.Facts) (pool *poolModel, err error) {
	err = each(rowsOf(table[poolModel](t).Where("name = ?", name)), func(m *poolModel) {
		is := *m
		pool = &is
	})
	if err != nil || pool == nil {
		return nil, err
	}
	status := pool.status()
	f.Pool, f.Moving, f.Bucket = &status, pool.KeysMoved != nil, pool.limits().Possible(pool.BucketFullAt, f.At)
	if pool.Paused != nil && *pool.Paused && status.PausedBy != ledger.PausedBy {
		f.Paused, err = t.pausedAt(name)
	}
	return pool, err
}

// pauseLook is how many of the latest entries of the audit are read for the pause of a pool.
const pauseLook = 1000

// pausedAt is when the API paused the pool; zero if the last that it did with the pool is something else.
//
// Index: audit_at, its end.
func (t *tx) pausedAt(pool string) (time.Time, error) {
	var at int64
	var action string
	_, err := t.One(`SELECT at, action FROM (SELECT at, action, object, status FROM {audit}{index}{audit}_at{end} ORDER BY at DESC LIMIT ?) AS latest
		WHERE action IN ('POST /pools/{name}/pause', 'POST /pools/{name}/resume') AND object=? AND status<300 ORDER BY at DESC LIMIT 1`,
		[]any{pauseLook, pool}, &at, &action)
	if action != "POST /pools/{name}/pause" {
		at = 0
	}
	return fromMicros(at), err
}
