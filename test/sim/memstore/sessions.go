package memstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/process"
)

// Join implements ledger.Sessions.
func (s *Store) Join(ctx context.Context, m ledger.Member) (string, error) {
	id, err := s.newID()
	if err != nil {
		return "", err
	}
	labels, err := json.Marshal(m.Labels)
	if err != nil {
		return "", err
	}
	kinds, err := json.Marshal(m.Kinds)
	if err != nil {
		return "", err
	}
	err = s.tx(ctx, "join", func(t *tx) error {
		if !m.IsWorker() {
			if err := t.admit(m); err != nil {
				return err
			}
		} else if t.workersOf(m.Owner) >= ledger.MostWorkers {
			return ledger.ErrManyWorkers
		}
		if t.makes(LosesOrders) {
			t.loseOrders()
		}
		if is, known := t.configs.rows[m.ConfigHash]; known { // it may have been made the newest meanwhile
			m.Config = is.Number
		}
		one, now := int64(1), micros(t.now())
		put(t, &t.sessions, Session{
			ID: id, Replica: m.Replica, Live: &one, Config: m.Config, LockService: m.LockService, TTL: m.TTL.Microseconds(),
			Host: m.Host, BootID: m.BootID, PID: m.PID, PIDStart: m.PIDStart, Version: m.Version, Address: m.Address,
			Workers: m.Workers, Labels: labels, Pool: m.Pool, Kinds: kinds, Owner: m.Owner, ConfigHash: m.ConfigHash, ConfigAt: micros(m.ConfigAt), JoinedAt: now, SeenAt: now,
		})
		return nil
	})
	return id, err
}

// workersOf is how many live sessions of workers an owner has.
func (t *tx) workersOf(owner string) (n int) {
	for _, p := range t.sessions.rows {
		if !p.Dead && p.Pool != "" && p.Owner == owner {
			n++
		}
	}
	return n
}

func (t *tx) admit(m ledger.Member) (refused error) {
	for _, p := range t.sorted() {
		if p.Dead || p.Pool != "" {
			continue
		}
		if p.Host == m.Host && (process.ID{Boot: p.BootID, PID: p.PID, Start: p.PIDStart}).Gone() {
			t.kill(p)
			continue
		}
		switch {
		case refused != nil:
		case p.Replica == m.Replica:
			refused = fmt.Errorf("%w: %q", ledger.ErrReplicaLive, p.Replica)
		case p.LockService != m.LockService:
			refused = fmt.Errorf("%w: live replica %q uses %s, this one %s", ledger.ErrLockService, p.Replica, p.LockService, m.LockService)
		}
	}
	return refused
}

func (t *tx) sorted() []Session {
	return slices.SortedFunc(maps.Values(t.sessions.rows), func(a, b Session) int {
		return cmp.Or(cmp.Compare(a.Replica, b.Replica), cmp.Compare(a.ID, b.ID))
	})
}

func (t *tx) kill(row Session) {
	row.Dead, row.Live = true, nil
	put(t, &t.sessions, row)
}

// Beat implements ledger.Sessions.
func (s *Store) Beat(ctx context.Context, session string) (now time.Time, err error) {
	err = s.tx(ctx, "beat", func(t *tx) error {
		row, found := t.sessions.rows[session]
		if !found || row.Dead {
			return ledger.ErrSessionDead
		}
		now = t.now()
		row.Beat, row.SeenAt = row.Beat+1, micros(now)
		put(t, &t.sessions, row)
		return nil
	})
	return now, err
}

// SetDraining implements ledger.Sessions.
func (s *Store) SetDraining(ctx context.Context, session string) error {
	return s.tx(ctx, "drain", func(t *tx) error {
		row, found := t.sessions.rows[session]
		if !found || row.Dead {
			return ledger.ErrSessionDead
		}
		row.Draining = true
		put(t, &t.sessions, row)
		return nil
	})
}

// Leave implements ledger.Sessions.
func (s *Store) Leave(ctx context.Context, session string) error {
	return s.tx(ctx, "leave", func(t *tx) error {
		if row, found := t.sessions.rows[session]; found && !row.Dead {
			t.kill(row)
		}
		return nil
	})
}
