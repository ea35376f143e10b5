package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

// Peers returns the live sessions, own one included, and the dead ones that still have running
// tasks, sorted by replica id.
func (s *Store) Peers(ctx context.Context) ([]ledger.Peer, error) {
	var all []ledger.Peer
	err := s.read(ctx, "peers", func(t *tx) (err error) {
		all, err = t.peers(liveOrRunning)
		return err
	})
	return all, err
}

// Replicas is Peers for people who look, whom no replica waits for.
func (s *Store) Replicas(ctx context.Context) ([]ledger.Peer, error) {
	var all []ledger.Peer
	err := s.view(ctx, "replicas", func(t *tx) (err error) {
		all, err = t.peers(liveOrRunning)
		return err
	})
	return all, err
}

// liveOrRunning: index tasks_claim, as few tasks run.
const liveOrRunning = `dead = 0 OR id IN (SELECT session_id FROM {tasks} WHERE state = 2)`

// Bury declares a session dead if its beat is still the one given; false if it was not.
func (s *Store) Bury(ctx context.Context, session string, beat int64) (bool, error) {
	buried := false
	bury := func(t *tx) error {
		n, err := t.Exec(`UPDATE {sessions} SET dead = 1, live = NULL WHERE id = ? AND beat = ? AND dead = 0`, session, beat)
		buried = n == 1
		return err
	}
	err := s.settle(ctx, "bury", bury, func(t *tx) (bool, error) {
		var dead bool
		_, err := t.One(`SELECT dead FROM {sessions} WHERE id = ?{for_update}`, []any{session}, &dead)
		return dead, err
	})
	return buried, err
}

func (t *tx) peers(where string) ([]ledger.Peer, error) {
	var all []ledger.Peer
	err := t.Query(`SELECT id, replica, dead, beat, draining, config, lock_service, ttl, host, boot_id, pid, pid_start,
			version, address, workers, labels, joined_at, seen_at
		FROM {sessions} WHERE `+where+` ORDER BY replica, id`, nil, func(scan func(...any) error) error {
		var p ledger.Peer
		var labels []byte
		var joined, seen, ttl int64
		err := scan(&p.Session, &p.Replica, &p.Dead, &p.Beat, &p.Draining, &p.Config, &p.LockService, &ttl, &p.Host, &p.BootID, &p.PID, &p.PIDStart,
			&p.Version, &p.Address, &p.Workers, &labels, &joined, &seen)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(labels, &p.Labels); err != nil {
			return fmt.Errorf("labels of session %s: %w", p.Session, err)
		}
		p.TTL = time.Duration(ttl) * time.Microsecond
		p.JoinedAt, p.SeenAt = fromMicros(joined), fromMicros(seen)
		all = append(all, p)
		return nil
	})
	return all, err
}
