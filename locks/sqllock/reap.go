package sqllock

import (
	"context"
	"maps"
	"slices"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// reap frees the keys of those holders whose session is over, and reports whether there were any.
// Whoever finds a session over from now on frees its keys too; so if this one is alive after its
// rows were inserted, they stand for as long as it may be trusted.
func (s *leaseSession) reap(ctx context.Context, rows map[string]holding) (bool, error) {
	over := map[string]bool{}
	for _, row := range rows {
		if !row.live {
			over[row.info.Session] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(over)) {
		if err := s.bury(ctx, id); err != nil {
			return false, err
		}
	}
	if over[s.session] {
		return false, driver.ErrSessionLost
	}
	return len(over) > 0, nil
}

// sweep frees what expired sessions of the namespace left and nobody has asked for.
func (s *leaseSession) sweep(ctx context.Context) error {
	expired, err := s.names(ctx, s.db, `SELECT id FROM {sessions} WHERE namespace = ? AND expires_at <= {now}`, s.namespace)
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(expired)) {
		if err := s.bury(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// bury marks an expired session dead, which is final, and deletes its leases and its row.
func (s *leaseSession) bury(ctx context.Context, id string) error {
	if _, err := s.exec(ctx, `UPDATE {sessions} SET dead = 1 WHERE id = ? AND expires_at <= {now}`, id); err != nil {
		return err
	}
	if live, err := s.names(ctx, s.db, `SELECT id FROM {sessions} WHERE id = ? AND dead = 0`, id); err != nil || live[id] {
		return err // it renewed in time
	}
	return s.wipe(ctx, id)
}

// wipe deletes the leases of a session that is over, by primary key and in its order, and then the
// session itself.
func (s *leaseSession) wipe(ctx context.Context, id string) error {
	held, err := s.names(ctx, s.db, `SELECT name FROM {leases} WHERE namespace = ? AND session_id = ?`, s.namespace, id)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(held)), 500) {
		among, args := s.among(chunk)
		if _, err := s.exec(ctx, `DELETE FROM {leases} WHERE `+among+` AND session_id = ?`, append(args, id)...); err != nil {
			return err
		}
	}
	_, err = s.exec(ctx, `DELETE FROM {sessions} WHERE id = ? AND dead = 1`, id)
	return err
}
