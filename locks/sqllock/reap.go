package sqllock

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// withTTL is a session's id with its ttl in it, for ttlOf: sessions differ in their ttls. The tables have no migrations, and an
// account may have no right to alter them, so there is no column for it.
func withTTL(id string, ttl time.Duration) string { return id + "/" + ttl.String() }

// ttlOf is the ttl of a session; the longest possible one if its id has none.
func ttlOf(id string) time.Duration {
	_, text, _ := strings.Cut(id, "/")
	if ttl, err := time.ParseDuration(text); err == nil {
		return ttl
	}
	return math.MaxInt64
}

// reap frees the keys of those holders whose session has expired, and reports whether there were any. Every
// session that finds one expired from now on frees its keys too; so if this session is live after its rows were
// inserted, they stay for as long as it may be trusted.
func (s *leaseSession) reap(ctx context.Context, rows map[string]holding) (bool, error) {
	left := map[string]time.Duration{}
	for _, row := range rows {
		left[row.info.Session] = row.left
	}
	expired, err := s.judge(ctx, left)
	switch {
	case err != nil:
		return false, err
	case slices.Contains(expired, s.id):
		return false, driver.ErrSessionEnded
	}
	return len(expired) > 0, nil
}

// sweep reaps the expired sessions of the namespace.
func (s *leaseSession) sweep(ctx context.Context) error {
	left := map[string]time.Duration{} // of each session
	err := s.Autocommit(ctx, func(t *sqlkit.Tx) error {
		return t.Query(`SELECT id, expires_at - {now} FROM {sessions} WHERE namespace = ?`, []any{s.namespace}, func(scan func(...any) error) error {
			var id string
			var micros int64
			err := scan(&id, &micros)
			left[id] = time.Duration(micros) * time.Microsecond
			return err
		})
	})
	if err == nil {
		_, err = s.judge(ctx, left)
	}
	return err
}

// judge expires the sessions that have no time left, and returns which. One that has more than its ttl
// was renewed before the database's clock was set back: it gets its ttl from now on, so that it does not
// outlive its process by as much.
func (s *leaseSession) judge(ctx context.Context, left map[string]time.Duration) (expired []string, err error) {
	for _, id := range slices.Sorted(maps.Keys(left)) {
		ttl := ttlOf(id)
		switch {
		case left[id] <= 0:
			expired = append(expired, id)
			err = s.expire(ctx, id)
		case left[id] > ttl:
			_, err = s.exec(ctx, `UPDATE {sessions} SET expires_at = {now} + ? WHERE id = ? AND expires_at > {now} + ?`,
				ttl.Microseconds(), id, ttl.Microseconds())
		}
		if err != nil {
			return nil, err
		}
	}
	return expired, nil
}

// expire marks a session without time left as ended, which is final, and deletes its leases and its row.
func (s *leaseSession) expire(ctx context.Context, id string) error {
	if _, err := s.exec(ctx, `UPDATE {sessions} SET dead = 1 WHERE id = ? AND expires_at <= {now}`, id); err != nil {
		return err
	}
	if live, err := s.names(ctx, `SELECT id FROM {sessions} WHERE id = ? AND dead = 0`, id); err != nil || live[id] {
		return err // it renewed in time
	}
	return s.wipe(ctx, id)
}

// wipe deletes the leases of a session that is over, by primary key and in its order, and then the
// session itself.
func (s *leaseSession) wipe(ctx context.Context, id string) error {
	held, err := s.names(ctx, `SELECT name FROM {leases} WHERE namespace = ? AND session_id = ?`, s.namespace, id)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(held)), 500) {
		if err := s.execRows(ctx, `DELETE FROM {leases} WHERE `+among+` AND session_id = ?`, sqlkit.Keys(chunk), s.namespace, id); err != nil {
			return err
		}
	}
	_, err = s.exec(ctx, `DELETE FROM {sessions} WHERE id = ? AND dead = 1`, id)
	return err
}
