package store

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// PauseAll pauses everything: from the next transaction of each replica on no due time is decided and no task becomes running. Where it is
// paused already, who, why and until when are replaced. p.Since is given to it.
//
// Index: primary key.
//
// Errors: a *jobs.FieldError for an end that has passed by the database's time, jobs.ErrUnavailable.
func (s views) PauseAll(ctx context.Context, p ledger.Pause) (set ledger.Pause, err error) {
	err = s.sure(ctx, "pause", func(t *tx) error {
		now, err := t.Now()
		if err != nil {
			return err
		}
		if !p.Until.IsZero() && !p.Until.After(now) {
			return &jobs.FieldError{Path: "until", Problem: ledger.UntilPassed}
		}
		was, err := t.pause(now)
		if err != nil {
			return err
		}
		set = ledger.Pause{By: clip.Text(p.By, limits.By), Reason: clip.Text(p.Reason, limits.PauseReason), Since: now, Until: p.Until}
		if was.Is() {
			set.Since = was.Since
		}
		return t.Upsert("{pause} (id, said)", "id", [][]any{{0, set.Text()}}, "said")
	})
	if err == nil {
		s.paused.Store(&set)
	}
	return set, err
}

// ResumeAll ends the pause of everything, and says whether there was one: one that has ended by itself is none.
func (s views) ResumeAll(ctx context.Context) (was bool, err error) {
	err = s.sure(ctx, "resume", func(t *tx) error {
		now, err := t.Now()
		if err != nil {
			return err
		}
		var said []byte
		if _, err := t.One("SELECT said FROM {pause} WHERE id=0{for_update}", nil, &said); err != nil {
			return err
		}
		n, err := t.Exec("DELETE FROM {pause} WHERE id=0")
		ended := len(said) > 0 && !ledger.ReadPause(said).At(now).Is()
		was = was || n > 0 && !ended // a try before may have been committed; a row that was not read is of a pause that came just now
		return err
	})
	if err == nil {
		s.paused.Store(nil)
	}
	return was, err
}

// Paused is the pause of everything; the zero Pause: nothing is paused.
func (s views) Paused(ctx context.Context) (ledger.Pause, error) {
	return get(ctx, s.view, "pause", func(t *tx) (ledger.Pause, error) {
		now, err := t.Now()
		if err != nil {
			return ledger.Pause{}, err
		}
		return t.pause(now)
	})
}

func (t *tx) pause(now time.Time) (ledger.Pause, error) {
	var said []byte
	_, err := t.One("SELECT said FROM {pause} WHERE id=0", nil, &said)
	return ledger.ReadPause(said).At(now), err
}

// SeenPause is the pause of everything as the last transaction of this process has read it that decides, claims or polls. It implements
// ledger.Triggers.
func (s replica) SeenPause() ledger.Pause {
	if p := s.paused.Load(); p != nil {
		return *p
	}
	return ledger.Pause{}
}

// notePause keeps what a transaction has read.
func (s *Store) notePause(said []byte, now time.Time) ledger.Pause {
	p := ledger.ReadPause(said).At(now)
	if last := s.paused.Load(); last == nil || *last != p {
		s.paused.Store(&p)
	}
	return p
}
