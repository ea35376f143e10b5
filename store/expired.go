package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// EndExpired implements ledger.Tasks. While no task expires or is due it is one statement, which reads two entries of an index.
//
// Index: tasks_due; primary key of tasks.
//
// Errors: what judge returned, jobs.ErrUnavailable.
func (s replica) EndExpired(ctx context.Context, judge ledger.Judge, limit int) (ended []jobs.Task, next time.Time, err error) {
	var now time.Time
	look := func(t *tx) (err error) {
		next, now, err = t.nextExpiry(judge)
		return err
	}
	if err = s.read(ctx, "look for expired tasks", look); err != nil || next.IsZero() || next.After(now) {
		return nil, next, err
	}
	err = s.settle(ctx, "end expired tasks", func(t *tx) (err error) {
		if err = promote(t, now); err != nil {
			return err
		}
		if ended, err = t.expire(now, limit); err != nil {
			return err
		}
		return look(t)
	}, nil)
	if errors.Is(err, sqlkit.ErrMoved) { // claims took the first ones each time: the store is well, and the next call ends the others
		return nil, now, nil
	}
	return ended, next, err
}

// nextExpiry is when a task expires next, or when one was due that is not ready yet, and so does not expire yet; zero: there is neither.
func (t *tx) nextExpiry(judge ledger.Judge) (next, now time.Time, err error) {
	var at, expires, due sql.NullInt64
	_, err = t.One(`SELECT {now}, (SELECT wait_at FROM {tasks}{index}{tasks}_due{end} WHERE wait_at<0 ORDER BY wait_at DESC LIMIT 1),
		(SELECT wait_at FROM {tasks}{index}{tasks}_due{end} WHERE wait_at>0 ORDER BY wait_at LIMIT 1)`, nil, &at, &expires, &due)
	if err != nil || !expires.Valid && !due.Valid {
		return next, now, err
	}
	now = fromMicros(at.Int64)
	if !at.Valid {
		if now, err = t.Now(); err != nil {
			return next, now, err
		}
	}
	if now, err = judged(judge, now); err != nil {
		return next, now, err
	}
	next = fromMicros(-expires.Int64)
	if wait := fromMicros(due.Int64); !wait.After(now) {
		next = earlier(next, wait)
	}
	return next, now, nil
}

// expire ends tasks that have expired, the first ones first, at most limit of them. A task that was claimed or changed meanwhile makes the
// transaction begin anew.
func (t *tx) expire(now time.Time, limit int) ([]jobs.Task, error) {
	ids, err := column[string](t.rows("SELECT id FROM {tasks}{index}{tasks}_due{end} WHERE wait_at<0 AND wait_at>=? ORDER BY wait_at DESC LIMIT ?", -micros(now), limit))
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	rows, err := t.openTasks(taskFacts, " WHERE {in name id} AND state+0<>2 ORDER BY id", sqlkit.Keys(ids))
	if err != nil {
		return nil, err
	}
	moves := mapped(those(rows, func(r openTask) bool { return ledger.Expired(r.Task, now) }), func(r openTask) move {
		return move{openTask: r, to: toDone, end: jobs.StateCancelled, reason: ledger.EndOfExpired(r.Task), code: reason.Expired, failure: r.Error, exit: r.ExitCode}
	})
	return mapped(moves, func(m move) jobs.Task { return m.task(now) }), t.endPending(now, moves)
}

// refuseExpired refuses the first new task of the batch that has expired already.
func refuseExpired(batch []*newTask, now time.Time) error {
	for i, p := range batch {
		if p.existed || !ledger.Expired(p.task, now) {
			continue
		}
		path := "expires_at"
		if len(batch) > 1 {
			path = fmt.Sprintf("[%d].%s", i, path)
		}
		return &jobs.FieldError{Path: path, Problem: "must be later than now, which is " + now.Format(time.RFC3339Nano) + " in the store"}
	}
	return nil
}
