package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// BeatWorker implements ledger.Workers.
func (s *Store) BeatWorker(ctx context.Context, session, owner string) (worker ledger.Peer, now time.Time, err error) {
	err = s.tx(ctx, "beat worker", func(t *tx) (err error) {
		row, found := t.sessions.rows[session]
		if !found || row.Pool == "" || row.Owner != owner {
			return jobs.ErrNotFound
		}
		if now = t.now(); !row.Dead {
			row.Beat, row.SeenAt = row.Beat+1, micros(now)
			put(t, &t.sessions, row)
		}
		worker, err = row.peer()
		return err
	})
	return worker, now, err
}

// ReportFor implements ledger.Workers.
func (s *Store) ReportFor(ctx context.Context, session string, p ledger.Progress) (bool, error) {
	ours, err := s.Report(ctx, session, []ledger.Progress{p})
	return err == nil && ours[0], err
}

// Holds implements ledger.Workers.
func (s *Store) Holds(ctx context.Context, session, task string) (ledger.Held, bool, error) {
	held, err := s.held(ctx, func(t *tx, r Task) bool { return r.ID == task && (r.Session == session || session == "") })
	if err != nil || len(held) == 0 {
		return ledger.Held{}, false, err
	}
	return bareHeld(held)[0], true, nil
}

// Held implements ledger.Workers.
func (s *Store) Held(ctx context.Context, session, after string, limit int) ([]ledger.Held, error) {
	held, err := s.held(ctx, func(t *tx, r Task) bool { return r.Session == session && r.ID > after })
	return bareHeld(held[:min(limit, len(held))]), err
}

// HeldWhole implements ledger.Workers.
func (s *Store) HeldWhole(ctx context.Context, session string, tasks []string) ([]ledger.Held, error) {
	return s.held(ctx, func(t *tx, r Task) bool { return r.Session == session && slices.Contains(tasks, r.ID) })
}

func bareHeld(held []ledger.Held) []ledger.Held {
	for i, h := range held {
		held[i].Task = bare(h.Task)
	}
	return held
}

// TimedOut implements ledger.Workers.
func (s *Store) TimedOut(ctx context.Context, now time.Time, limit int) ([]ledger.Held, error) {
	all, err := s.held(ctx, func(t *tx, r Task) bool {
		owner, found := t.sessions.rows[r.Session]
		return found && !owner.Dead && owner.Pool != "" && r.MayRunUntil > 0 && r.MayRunUntil <= micros(now)
	})
	return bareHeld(all[:min(limit, len(all))]), err
}

func (s *Store) held(ctx context.Context, is func(t *tx, r Task) bool) (held []ledger.Held, err error) {
	err = s.tx(ctx, "held tasks", func(t *tx) error {
		held = nil
		for _, r := range t.tasks.rows {
			if r.State == Running && is(t, r) {
				held = append(held, ledger.Held{Task: r.task(), Session: r.Session, Until: fromMicros(r.MayRunUntil), Cancel: r.Cancel, Chunked: len(t.chunksOf(r.ID, r.Token)) > 0})
			}
		}
		slices.SortFunc(held, func(a, b ledger.Held) int { return cmp.Compare(a.ID, b.ID) })
		return nil
	})
	return held, err
}
