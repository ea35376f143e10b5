package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// Join adds a session and returns its id. Sessions with a process that is known to have ended, since it ran
// on this boot of this machine, are declared dead first. After that, a live session with the same
// replica id is ledger.ErrReplicaLive, and one with another lock service is ledger.ErrLockService.
// The session of a worker is compared with no other; its id must be new. ledger.ErrManyWorkers: as many as may of its owner live.
func (s replica) Join(ctx context.Context, m ledger.Member) (string, error) {
	session := newID()
	labels, _ := json.Marshal(m.Labels) // strings always encode
	kinds, _ := json.Marshal(m.Kinds)
	join := func(t *tx) error {
		admit := t.admit
		if m.IsWorker() {
			admit = t.admitWorker
		}
		if err := admit(m); err != nil {
			return err
		}
		config := m.Config
		if m.ConfigHash != "" { // primary key; it may have been made the newest meanwhile
			if _, err := t.One(`SELECT number FROM {configurations} WHERE hash = ?`, []any{m.ConfigHash}, &config); err != nil {
				return err
			}
		}
		now, err := t.Now()
		if err != nil {
			return err
		}
		_, err = t.Exec(`INSERT INTO {sessions}
			(id, replica, live, config, lock_service, ttl, host, boot_id, pid, pid_start, version, address, workers, labels, pool, kinds, owner, config_hash, config_at, joined_at, seen_at)
			VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			session, m.Replica, config, m.LockService, m.TTL.Microseconds(), m.Host, m.BootID, m.PID, m.PIDStart, m.Version, m.Address, m.Workers, labels, m.Pool, kinds, m.Owner, m.ConfigHash, micros(m.ConfigAt), micros(now), micros(now))
		return err
	}
	err := s.settle(ctx, "join", join, func(t *tx) (bool, error) {
		var live int
		return t.One(`SELECT dead FROM {sessions} WHERE id = ?{for_update}`, []any{session}, &live)
	})
	if err != nil {
		return "", err
	}
	return session, nil
}

// admit ends the sessions of processes that have ended, and refuses m if it conflicts with a live session.
func (t *tx) admit(m ledger.Member) error {
	if _, err := t.lockConfig(); err != nil { // one join at a time
		return err
	}
	live, err := t.peers(`dead = 0 AND pool = ''`)
	if err != nil {
		return err
	}
	var refused error
	for _, p := range live {
		if p.Gone(m.Host) {
			if _, err := t.Exec(`UPDATE {sessions} SET dead = 1, live = NULL WHERE id = ? AND dead = 0`, p.Session); err != nil {
				return err
			}
			continue
		}
		switch {
		case refused != nil:
		case p.Replica == m.Replica:
			refused = fmt.Errorf("%w: %q is live on host %s, pid %d, since %s",
				ledger.ErrReplicaLive, p.Replica, p.Host, p.PID, p.JoinedAt.Format(time.RFC3339))
		case p.LockService != m.LockService:
			refused = fmt.Errorf("%w: live replica %q uses %s, this one %s",
				ledger.ErrLockService, p.Replica, p.LockService, m.LockService)
		}
	}
	return refused
}

// admitWorker refuses the session of a worker if as many of its owner live as may.
//
// Index: sessions_dead.
func (t *tx) admitWorker(m ledger.Member) error {
	var n int
	_, err := t.One("SELECT COUNT(*) FROM {sessions}{index}{sessions}_dead{end} WHERE dead=0 AND pool<>'' AND owner=?", []any{m.Owner}, &n)
	if err == nil && n >= ledger.MostWorkers {
		err = ledger.ErrManyWorkers
	}
	return err
}

// Beat is beat = beat + 1 of a session that is not dead, and returns the database's time.
// ledger.ErrSessionDead is final.
func (s replica) Beat(ctx context.Context, session string) (database time.Time, err error) {
	err = s.keep(ctx, "heartbeat", func(t *tx) error {
		now, err := t.Now()
		if err != nil {
			return err
		}
		n, err := t.Exec(`UPDATE {sessions} SET beat = beat + 1, seen_at = ? WHERE id = ? AND dead = 0`, micros(now), session)
		if err == nil && n == 0 {
			err = ledger.ErrSessionDead
		}
		database = now
		return err
	})
	return database, err
}

// SetDraining marks the session as draining: this replica takes nothing new.
func (s replica) SetDraining(ctx context.Context, session string) error {
	return s.autocommit(ctx, "drain", func(t *tx) error {
		if _, err := t.Exec(`UPDATE {sessions} SET draining = 1 WHERE id = ? AND dead = 0`, session); err != nil {
			return err
		}
		var alive int
		found, err := t.One(`SELECT 1 FROM {sessions} WHERE id = ? AND dead = 0`, []any{session}, &alive)
		if err == nil && !found {
			err = ledger.ErrSessionDead
		}
		return err
	})
}

// Leave ends one's own session. Its running tasks, if any are left, are reaped by the others.
func (s replica) Leave(ctx context.Context, session string) error {
	return s.autocommit(ctx, "leave", func(t *tx) error {
		_, err := t.Exec(`UPDATE {sessions} SET dead = 1, live = NULL WHERE id = ? AND dead = 0`, session)
		return err
	})
}
