package store

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// promoteLimit is how many waiting tasks become ready in one transaction.
const promoteLimit = 1000

// Ready makes waiting tasks ready that are due, as judge takes the time, at most promoteLimit of
// them. It returns the pools that have ready tasks and are not paused, by name, and when the next task
// will be ready: in the past if there were more than could be promoted, zero if none waits. It
// implements ledger.Tasks.
//
// Errors: what judge returned, jobs.ErrUnavailable.
func (s replica) Ready(ctx context.Context, judge ledger.Judge) (pools []string, next time.Time, err error) {
	var now time.Time
	look := func(t *tx) (err error) {
		if now, err = t.judged(judge); err != nil {
			return err
		}
		if next, err = t.nextWaiting(); err != nil {
			return err
		}
		pools, err = column[string](t.rows(readyPools))
		return err
	}
	if err := s.read(ctx, "ready pools", look); err != nil {
		return nil, time.Time{}, err
	}
	if next.IsZero() || next.After(now) {
		return pools, next, nil
	}
	err = s.sure(ctx, "promote tasks", func(t *tx) error {
		if err := promote(t, now); err != nil {
			return err
		}
		return look(t)
	})
	return pools, next, err
}

// readyPools returns the pools with work. In a retired or paused pool no task may be claimed. This is not the admission: it says
// which pools are worth a claim, and the claim decides again, in its own transaction.
//
// Index: one probe of tasks_claim for each pool, however many tasks are ready.
const readyPools = "SELECT name FROM {pools} p WHERE hash<>'' AND COALESCE(paused, 0)=0 AND (SELECT t.id FROM {tasks} t{index}{tasks}_claim{end} " +
	"WHERE t.state=0 AND t.pool=p.name LIMIT 1) IS NOT NULL ORDER BY name"

// nextWaiting is when the next task will be ready.
//
// Index: tasks_due, its first entry.
func (t *tx) nextWaiting() (time.Time, error) {
	var at int64
	_, err := t.One("SELECT run_at FROM {tasks}{index}{tasks}_due{end} WHERE state=1 ORDER BY run_at LIMIT 1", nil, &at)
	return fromMicros(at), err
}

// promote makes waiting tasks ready.
//
// Index: tasks_due.
func promote(t *tx, now time.Time) error {
	due, err := column[string](t.rows("SELECT id FROM {tasks}{index}{tasks}_due{end} WHERE state=1 AND run_at<=? ORDER BY run_at LIMIT ?", micros(now), promoteLimit))
	if err != nil || len(due) == 0 {
		return err
	}
	return t.promoteTasks(due)
}
