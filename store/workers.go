package store

import (
	"context"
	"fmt"
	"slices"
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

// Holds returns a running task, if the session runs it, or for no session any does. It implements ledger.Workers.
//
// Index: primary key.
func (s replica) Holds(ctx context.Context, session, task string) (h ledger.Held, runs bool, err error) {
	held, err := get(ctx, s.read, "held task", func(t *tx) ([]ledger.Held, error) {
		return t.held(taskFacts, " WHERE id=? AND state+0=2 AND (session_id=? OR ''=?)", task, session, session)
	})
	if err != nil || len(held) == 0 {
		return ledger.Held{}, false, err
	}
	return held[0], true, nil
}

// Held returns a page of the running tasks of a session. It implements ledger.Workers.
//
// Index: tasks_claim for the state and the one pool of the session, as few tasks run; primary key of sessions.
func (s replica) Held(ctx context.Context, session, after string, limit int) ([]ledger.Held, error) {
	return get(ctx, s.read, "held tasks", func(t *tx) ([]ledger.Held, error) { return t.heldBy(session, after, limit) })
}

func (t *tx) heldBy(session, after string, limit int) ([]ledger.Held, error) {
	return t.held(taskFacts, "{index}{tasks}_claim{end} WHERE state=2 AND pool=(SELECT pool FROM {sessions} WHERE id=?) AND session_id=? AND id>? ORDER BY id LIMIT ?",
		session, session, after, limit)
}

// HeldWhole returns those of some tasks that a session runs, with their payloads. It implements ledger.Workers.
//
// Index: primary key.
func (s replica) HeldWhole(ctx context.Context, session string, tasks []string) ([]ledger.Held, error) {
	return get(ctx, s.read, "held tasks", func(t *tx) (all []ledger.Held, err error) {
		for part := range slices.Chunk(slices.Sorted(slices.Values(tasks)), sqlkit.MaxRows) {
			held, err := t.held(taskColumns, " WHERE {in name id} AND state+0=2 AND session_id=? ORDER BY id", sqlkit.Keys(part), session)
			if err != nil {
				return nil, err
			}
			all = append(all, held...)
		}
		return all, nil
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
	rows, err := t.openTasks(columns+", EXISTS (SELECT 1 FROM {chunks} c WHERE c.task_id=id) AS chunked", where, args...)
	return mapped(rows, func(r openTask) ledger.Held {
		return ledger.Held{Task: r.Task, Session: r.session, Until: r.mayRunUntil, Cancel: r.cancel, Chunked: r.chunked}
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
