package store

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// BeatWorker is a heartbeat of a worker's session. It does not use the connections that keep the sessions of replicas. It implements
// ledger.Workers.
//
// Index: primary key of sessions.
func (s replica) BeatWorker(ctx context.Context, session, owner string) (worker ledger.Peer, now time.Time, err error) {
	err = s.autocommit(ctx, "worker's heartbeat", func(t *tx) error { // twice is harmless
		if now, err = t.Now(); err != nil {
			return err
		}
		if _, err := t.Exec("UPDATE {sessions} SET beat=beat+1, seen_at=? WHERE id=? AND dead=0 AND pool<>'' AND owner=?", micros(now), session, owner); err != nil {
			return err
		}
		found, err := list(t.rows("SELECT "+sessionColumns+" FROM {sessions} WHERE id=? AND pool<>'' AND owner=?", session, owner), (*sessionModel).peer)
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("worker's session %.64q: %w", session, jobs.ErrNotFound)
		}
		if err == nil {
			worker = found[0]
		}
		return err
	})
	return worker, now, err
}

// ReportFor writes the progress of a worker's task, as Report does for replicas; it uses other connections. It implements ledger.Workers.
func (s replica) ReportFor(ctx context.Context, session string, p ledger.Progress) (bool, error) {
	ours := make([]bool, 1)
	err := s.autocommit(ctx, "worker's progress", func(t *tx) error { return report(t, session, []ledger.Progress{p}, ours) })
	return ours[0], err
}

// Held returns the running tasks of a session, or one of them. It implements ledger.Workers.
//
// Index: tasks_claim for the state, as few tasks run; for one, the primary key.
func (s replica) Held(ctx context.Context, session, task string) ([]ledger.Held, error) {
	return get(ctx, s.read, "held tasks", func(t *tx) ([]ledger.Held, error) {
		if task != "" {
			return t.held(taskColumns, " WHERE id=? AND state+0=2 AND (session_id=? OR ''=?)", task, session, session)
		}
		return t.held(taskColumns, "{index}{tasks}_claim{end} WHERE state=2 AND session_id=? ORDER BY id", session)
	})
}

// TimedOut returns tasks of live workers that run for too long. It implements ledger.Workers.
//
// Index: tasks_claim for the state, then the primary key of sessions.
func (s replica) TimedOut(ctx context.Context, now time.Time, limit int) ([]ledger.Held, error) {
	return get(ctx, s.read, "timed out tasks", func(t *tx) ([]ledger.Held, error) {
		return t.held(taskFacts, `{index}{tasks}_claim{end} WHERE state=2 AND may_run_until>0 AND may_run_until<=?
			AND session_id IN (SELECT id FROM {sessions} WHERE dead=0 AND pool<>'') ORDER BY id LIMIT ?`, micros(now), limit)
	})
}

func (t *tx) held(columns, where string, args ...any) ([]ledger.Held, error) {
	rows, err := t.openTasks(columns, where, args...)
	return mapped(rows, func(r openTask) ledger.Held {
		return ledger.Held{Task: r.Task, Session: r.session, Until: r.mayRunUntil, Cancel: r.cancel}
	}), err
}

// ofWorkers is which of the sessions are those of workers.
//
// Index: primary key of sessions.
func (t *tx) ofWorkers(sessions []string) (map[string]bool, error) {
	found, err := column[string](t.rows("SELECT id FROM {sessions} WHERE pool<>'' AND {in name id}", sqlkit.Keys(sqlkit.Distinct(sessions))))
	by := map[string]bool{}
	for _, id := range found {
		by[id] = true
	}
	return by, err
}
