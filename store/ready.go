package store

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// promoteLimit is how many waiting tasks become ready in one transaction.
const promoteLimit = 1000

// Ready makes waiting tasks ready that are due, as judge takes the time, at most promoteLimit of
// them. It returns the pools that have ready tasks and are not paused. Of the pools whose order has changed it moves
// tasks of one, see moveKeys; else it sorts tasks of one of those that keys share and that have more ready tasks than a claim looks at, see
// sortKeys. If there were more, next is in the past, too. It implements ledger.Tasks.
//
// Errors: what judge returned, jobs.ErrUnavailable.
func (s replica) Ready(ctx context.Context, judge ledger.Judge) (_ ledger.Ready, err error) {
	var is work
	look := func(t *tx) (err error) {
		is, err = t.ready(judge)
		return err
	}
	if err := s.read(ctx, "ready pools", look); err != nil {
		return ledger.Ready{}, err
	}
	more := false
	switch { // one of them: the poll wakes all pools
	case len(is.moving) > 0:
		more, err = s.moveKeys(ctx, is.moving[rand.IntN(len(is.moving))])
	case len(is.crowded) > 0:
		_, more, err = s.sortKeys(ctx, is.crowded[rand.IntN(len(is.crowded))], is.now, "{for_update}{skip_locked}")
	}
	if err != nil {
		return ledger.Ready{}, err
	}
	if !is.next.IsZero() && !is.next.After(is.now) {
		err = s.sure(ctx, "promote tasks", func(t *tx) error {
			if err := promote(t, is.now); err != nil {
				return err
			}
			return look(t)
		})
	}
	if more {
		is.next = earlier(is.now, is.next)
	}
	return ledger.Ready{Pools: is.pools, Next: is.next, Ahead: is.ahead}, err
}

// work is what a poll finds.
type work struct {
	pools     []string
	moving    []string // pools whose order has changed, and whose tasks are moved
	crowded   []string // pools that keys share, with more ready tasks than a claim looks at
	next, now time.Time
	ahead     ledger.Ahead
}

// ready returns the pools with work, and when the next task will be ready. Work are ready tasks, and keys that are to be looked at. In a
// retired or paused pool no task may be claimed, nor in one that is full, nor in one whose tasks are moved, and none at all while everything is paused. This is not the admission: it says
// which pools are worth a claim, and the claim decides again, in its own transaction. It is one statement, since the poll waits for it: one of
// its rows is of no pool, and says what other looks would find.
//
// Index: one probe of jobs_next, of tasks_due and of the primary keys of events and expectations and of orders_next, for what other looks would find, and of tasks_claim; one probe of tasks_claim for each pool, however many tasks are ready, and the count of those that run in one with work and a
// max_running; the first entry of tasks_due; one probe of keys_pool for each pool, and one of keys_look. Of a pool in which tasks wait for their
// keys as many entries of tasks_claim as a claim looks at tell whether it is crowded. Its last rows say what overrides limit by kind, see
// setKinds, and which pools' tasks are moved.
func (t *tx) ready(judge ledger.Judge) (is work, err error) {
	var at, waiting, look, expires, due, runs, expected, ordered sql.NullInt64
	var happened sql.NullString
	var said []byte
	var all []poolModel
	local := int64(0) // the time where the database does not tell it
	if t.DB.Dialect.Local() {
		if is.now, err = t.Now(); err != nil {
			return work{}, err
		}
		local = micros(is.now)
	}
	var limited []string
	err = t.Query(`
		SELECT '' AS name, 0, '', 0, NULL, NULL, NULL, 0, 0,
			{now} AS now_at, (SELECT wait_at FROM {tasks}{index}{tasks}_due{end} WHERE wait_at>0 ORDER BY wait_at LIMIT 1) AS next_at,
			(SELECT look_at FROM {keys}{index}{keys}_look{end} WHERE look_at>COALESCE({now}, ?) ORDER BY look_at LIMIT 1) AS look_at, NULL AS set_keys,
			NULL AS key_fair, NULL AS crowded, NULL AS keys_moved,
			(SELECT wait_at FROM {tasks}{index}{tasks}_due{end} WHERE wait_at<0 LIMIT 1) AS expires_at,
			(SELECT next_at FROM {jobs}{index}{jobs}_next{end} WHERE next_at>0 ORDER BY next_at LIMIT 1) AS due_at,
			(SELECT state FROM {tasks}{index}{tasks}_claim{end} WHERE state=2 LIMIT 1) AS runs, (SELECT id FROM {events} WHERE id>'' ORDER BY id LIMIT 1) AS happened, (SELECT said FROM {pause} WHERE id=0) AS said,
			(SELECT due_by FROM {expectations} WHERE due_by>0 ORDER BY due_by LIMIT 1) AS expected_by,
			(SELECT next_at FROM {orders}{index}{orders}_next{end} WHERE next_at>0 ORDER BY next_at LIMIT 1) AS ordered_at
		UNION ALL
		SELECT name, max_running, rate, burst, set_max_running, set_rate, set_burst, bucket_full_at,
			CASE WHEN COALESCE(set_max_running, max_running)=0 THEN 0
			ELSE (SELECT COUNT(*) FROM {tasks} t{index}{tasks}_claim{end} WHERE t.state=2 AND t.pool=p.name) END, NULL, NULL, NULL, NULL,
			key_fair, CASE WHEN (SELECT k.task_key FROM {keys} k{index}{keys}_pool{end} WHERE k.pool=p.name AND k.look_at>0 LIMIT 1) IS NOT NULL
			THEN (SELECT t.id FROM {tasks} t{index}{tasks}_claim{end} WHERE t.state=0 AND t.pool=p.name LIMIT 1 OFFSET ?) END, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
		FROM {pools} p WHERE hash<>'' AND COALESCE(paused, 0)=0 AND keys_moved IS NULL
		AND ((SELECT t.id FROM {tasks} t{index}{tasks}_claim{end} WHERE t.state=0 AND t.pool=p.name LIMIT 1) IS NOT NULL
			OR (SELECT k.task_key FROM {keys} k{index}{keys}_pool{end} WHERE k.pool=p.name AND k.look_at>0 AND k.look_at<=COALESCE({now}, ?) LIMIT 1) IS NOT NULL
			OR (SELECT k.task_key FROM {keys} k{index}{keys}_pool{end} WHERE k.pool=p.name AND k.look_at>COALESCE({now}, ?)+? LIMIT 1) IS NOT NULL)
		UNION ALL
		SELECT name, 0, '', 0, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, set_key_limits, NULL, NULL, keys_moved, NULL, NULL, NULL, NULL, NULL, NULL, NULL
		FROM {pools} p WHERE set_key_limits IS NOT NULL OR keys_moved IS NOT NULL`,
		[]any{local, fairLook, local, local, lookMost.Microseconds()}, func(scan func(...any) error) error {
			var m poolModel
			var running int
			var read, waits, looks, ends, next, run, by, order sql.NullInt64
			var event sql.NullString
			var behind sql.NullString
			var paused []byte
			err := scan(&m.Name, &m.MaxRunning, &m.Rate, &m.Burst, &m.SetMaxRunning, &m.SetRate, &m.SetBurst, &m.BucketFullAt, &running, &read, &waits, &looks, &m.SetKeyLimits, &m.KeyFair, &behind, &m.KeysMoved,
				&ends, &next, &run, &event, &paused, &by, &order)
			switch l := m.limits(); {
			case err != nil:
				return err
			case m.Name == "":
				at, waiting, look, expires, due, runs, happened, said, expected, ordered = read, waits, looks, ends, next, run, event, paused, by, order
			case m.SetKeyLimits != nil || m.KeysMoved != nil:
				if m.SetKeyLimits != nil {
					t.s.kinds.learn(m.Name, m.SetKeyLimits)
					limited = append(limited, m.Name)
				}
				if m.KeysMoved != nil {
					is.moving = append(is.moving, m.Name)
				}
			default:
				if behind.Valid && m.KeyFair.is != nil {
					is.crowded = append(is.crowded, m.Name)
				}
				if l.MaxRunning == 0 || running < l.MaxRunning {
					all = append(all, m)
				}
			}
			return nil
		})
	if err != nil {
		return work{}, err
	}
	t.s.kinds.keep(limited)
	read := fromMicros(at.Int64)
	if !at.Valid {
		if read, err = t.Now(); err != nil {
			return work{}, err
		}
	}
	if t.s.notePause(said, read).Is() {
		all = nil
	}
	for _, m := range all {
		l := m.limits()
		if l.Starts(m.BucketFullAt, read) > 0 || l.Possible(m.BucketFullAt, read) != m.BucketFullAt { // a claim corrects it
			is.pools = append(is.pools, m.Name)
		}
	}
	slices.Sort(is.pools)
	is.ahead = ledger.Ahead{FirstDue: fromMicros(due.Int64), Waits: waiting.Valid || expires.Valid, Running: runs.Valid, Events: happened.Valid, Expected: fromMicros(expected.Int64), Ordered: fromMicros(ordered.Int64)}
	is.next = earlier(fromMicros(waiting.Int64), fromMicros(look.Int64))
	is.now, err = judged(judge, read)
	return is, err
}

// earlier is the earlier one of two times, of which the zero one is none.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}

// promote makes waiting tasks ready. What expires is below 0.
//
// Index: tasks_due.
func promote(t *tx, now time.Time) error {
	due, err := column[string](t.rows("SELECT id FROM {tasks}{index}{tasks}_due{end} WHERE wait_at>0 AND wait_at<=? ORDER BY wait_at LIMIT ?", micros(now), promoteLimit))
	if err != nil || len(due) == 0 {
		return err
	}
	return t.promoteTasks(due)
}
