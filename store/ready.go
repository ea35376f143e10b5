package store

import (
	"context"
	"database/sql"
	"slices"
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
		pools, next, now, err = t.ready(judge)
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

// ready returns the pools with work, and when the next task will be ready. In a retired or paused pool no task may be claimed. This is
// not the admission: it says which pools are worth a claim, and the claim decides again, in its own transaction. It is one
// statement, since the poll waits for it: one of its rows is of no pool.
//
// Index: one probe of tasks_claim for each pool, however many tasks are ready; the first entry of tasks_due.
func (t *tx) ready(judge ledger.Judge) (pools []string, next, now time.Time, err error) {
	var at sql.NullInt64
	err = t.Query(`
		SELECT '' AS name, {now} AS now_at, (SELECT wait_at FROM {tasks}{index}{tasks}_due{end} WHERE wait_at>0 ORDER BY wait_at LIMIT 1) AS next_at
		UNION ALL
		SELECT name, NULL, NULL FROM {pools} p WHERE hash<>'' AND COALESCE(paused, 0)=0
		AND (SELECT t.id FROM {tasks} t{index}{tasks}_claim{end} WHERE t.state=0 AND t.pool=p.name LIMIT 1) IS NOT NULL`, nil, func(scan func(...any) error) error {
		var name string
		var read, waiting sql.NullInt64
		if err := scan(&name, &read, &waiting); err != nil {
			return err
		}
		if name != "" {
			pools = append(pools, name)
			return nil
		}
		at, next = read, fromMicros(waiting.Int64)
		return nil
	})
	switch {
	case err != nil:
	case at.Valid:
		now, err = judged(judge, fromMicros(at.Int64))
	default:
		now, err = t.judged(judge)
	}
	slices.Sort(pools)
	return pools, next, now, err
}

// promote makes waiting tasks ready.
//
// Index: tasks_due.
func promote(t *tx, now time.Time) error {
	due, err := column[string](t.rows("SELECT id FROM {tasks}{index}{tasks}_due{end} WHERE wait_at<=? ORDER BY wait_at LIMIT ?", micros(now), promoteLimit))
	if err != nil || len(due) == 0 {
		return err
	}
	return t.promoteTasks(due)
}
