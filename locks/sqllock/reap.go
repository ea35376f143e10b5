package sqllock

import (
	"context"
	"maps"
	"slices"
)

// reap frees the keys of those holders whose session is over, and reports whether there were any.
// Dead is written first and is final: such a session cannot renew any more.
func (s *leaseSession) reap(ctx context.Context, rows map[string]holding) (bool, error) {
	holders := map[string]bool{}
	for _, row := range rows {
		if row.info.Session != s.session {
			holders[row.info.Session] = true
		}
	}
	if len(holders) == 0 {
		return false, nil
	}
	ids := make([]any, 0, len(holders))
	for _, id := range slices.Sorted(maps.Keys(holders)) {
		ids = append(ids, id)
	}
	live, err := s.names(ctx, s.db, `SELECT id FROM {sessions} WHERE id IN (`+marks(len(ids))+`) AND dead = 0 AND expires_at > {now}`, ids...)
	if err != nil {
		return false, err
	}
	reaped := false
	for _, id := range ids {
		if live[id.(string)] {
			continue
		}
		if err := s.bury(ctx, id.(string)); err != nil {
			return false, err
		}
		reaped = true
	}
	return reaped, nil
}

// sweep frees what expired sessions of the namespace left, whoever finds nobody asking for it.
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

// bury marks an expired session dead and deletes its leases and its row.
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
		args := []any{s.namespace, id}
		for _, name := range chunk {
			args = append(args, name)
		}
		if _, err := s.exec(ctx, `DELETE FROM {leases} WHERE namespace = ? AND session_id = ? AND name IN (`+marks(len(chunk))+`)`, args...); err != nil {
			return err
		}
	}
	_, err = s.exec(ctx, `DELETE FROM {sessions} WHERE id = ? AND dead = 1`, id)
	return err
}
