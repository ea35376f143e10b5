package memstore

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// PauseAll pauses everything, from the next transaction that claims or decides on.
func (s *Store) PauseAll(ctx context.Context, p ledger.Pause) (set ledger.Pause, err error) {
	err = s.tx(ctx, "pause", func(t *tx) error {
		now := t.now()
		if !p.Until.IsZero() && !p.Until.After(now) {
			return &jobs.FieldError{Path: "until", Problem: ledger.UntilPassed}
		}
		if set = p; t.pausedNow().Is() {
			set.Since = t.pausedNow().Since
		} else {
			set.Since = now
		}
		put(t, &t.pause, Pause{Said: set.Text()})
		return nil
	})
	return set, err
}

// ResumeAll ends the pause.
func (s *Store) ResumeAll(ctx context.Context) (was bool, err error) {
	err = s.tx(ctx, "resume", func(t *tx) error {
		was = t.pausedNow().Is()
		remove(t, &t.pause, 0)
		return nil
	})
	return was, err
}

// SeenPause is the pause as this Store has read it last.
func (s *Store) SeenPause() ledger.Pause {
	if p := s.paused.Load(); p != nil {
		return *p
	}
	return ledger.Pause{}
}

// pausedNow reads the pause.
func (t *tx) pausedNow() ledger.Pause {
	p := ledger.ReadPause(t.pause.rows[0].Said).At(t.now())
	t.s.paused.Store(&p)
	return p
}
