package sqllock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// leaseSession is a row of {sessions}; its locks are rows of {leases}.
type leaseSession struct{ *session }

func openLease(ctx context.Context, c *session) (driver.Session, error) {
	c.id, c.table, c.view = withTTL(c.id, c.ttl), "{leases}", c.Autocommit
	s := &leaseSession{c}
	_, err := c.exec(ctx, `INSERT INTO {sessions} (id, namespace, expires_at, dead) VALUES (?, ?, {now} + ?, 0)`,
		c.id, c.namespace, c.ttl.Microseconds())
	if err == nil {
		err = s.sweep(ctx)
	}
	if err != nil {
		return nil, c.unknown("open", err)
	}
	return s, nil
}

func (s *leaseSession) Ended() <-chan struct{} { return nil } // Renew reports it

// Renew is one UPDATE by primary key. If it changed nothing the session is over, or the clock shows
// the same µs again. It leaves it to Check which keys were evicted.
func (s *leaseSession) Renew(ctx context.Context, _ []driver.Held) (bool, error) {
	n, err := s.exec(ctx, `UPDATE {sessions} SET expires_at = {now} + ? WHERE id = ? AND dead = 0 AND expires_at > {now}`,
		s.ttl.Microseconds(), s.id)
	if err != nil {
		return false, s.failed("renew", err)
	}
	if n > 0 {
		return true, nil
	}
	return true, s.live(ctx, "renew")
}

func (s *leaseSession) live(ctx context.Context, op string) error {
	alive, err := s.names(ctx, `SELECT id FROM {sessions} WHERE id = ? AND dead = 0 AND expires_at > {now}`, s.id)
	if err == nil && !alive[s.id] {
		err = driver.ErrSessionEnded
	}
	if err != nil {
		return s.unknown(op, err)
	}
	return nil
}

// TryAcquire inserts the rows of free keys and reads the rows back, with the rest of their sessions' ttl.
// Expired holders are reaped, and a key that was freed between two reads is tried once more.
//
//	read ──▶ all held, by live sessions ──▶ results
//	 │ holders expired: reap   free: insert
//	 └───────◀──────────┘   at most rounds times
func (s *leaseSession) TryAcquire(ctx context.Context, acquisition string, wants []driver.Want) ([]driver.Result, error) {
	rows, err := s.held(ctx, wants)
	if err != nil {
		return nil, s.failed("acquire", err)
	}
	for round := range rounds {
		if len(rows) < len(wants) {
			insert := func(free []driver.Want) error { return s.insert(ctx, acquisition, free) }
			if rows, err = s.inTurn(ctx, wants, rows, insert, s.held); err != nil {
				return nil, s.unknown("acquire", err)
			}
		}
		reaped, err := s.reap(ctx, rows)
		if err != nil {
			return nil, s.unknown("acquire", err)
		}
		if !reaped && len(rows) == len(wants) {
			break
		}
		if round > 0 && sqlkit.Pause(ctx, round, nap) != nil {
			return nil, s.unknown("acquire", ctx.Err())
		}
		if rows, err = s.held(ctx, wants); err != nil {
			return nil, s.unknown("acquire", err)
		}
	}
	return s.results(acquisition, wants, rows), nil
}

func (s *leaseSession) held(ctx context.Context, wants []driver.Want) (map[string]holding, error) {
	return s.rows(ctx, keysOf(wants))
}

// errLate undoes a transaction in which nothing was inserted, so that it costs no write.
var errLate = errors.New("other sessions changed the rows first")

// insert adds rows for these keys, in their order. Which of them were free, the rows say: the count does not, and IGNORE
// hides errors.
func (s *leaseSession) insert(ctx context.Context, acquisition string, free []driver.Want) error {
	statement := `{insert_ignore} {leases} (namespace, name, token, session_id, acquisition, owner, meta, since) VALUES ` +
		strings.TrimSuffix(strings.Repeat(`(?, ?, ?, ?, ?, ?, ?, {now}),`, len(free)), ",") + ` {or_ignore}`
	err := s.Tx(ctx, func(t *sqlkit.Tx) error {
		token, err := s.mint(t, len(free))
		if err != nil {
			return err
		}
		var args []any
		for i, w := range free {
			args = append(args, s.namespace, w.Key, int64(token)+int64(i), s.id, acquisition, s.owner, w.Meta)
		}
		n, err := t.Exec(statement, args...)
		if err == nil && n == 0 {
			return errLate
		}
		return err
	})
	if errors.Is(err, errLate) {
		return nil
	}
	return err
}

// Queue implements driver.Session: this backend has no queue yet.
func (s *leaseSession) Queue() driver.Queue { return nil }

// Notifier implements driver.Session: this backend sends no notices.
func (s *leaseSession) Notifier() driver.Notifier { return nil }

// Release deletes rows that are this session's, under their tokens.
func (s *leaseSession) Release(ctx context.Context, held []driver.Held) error {
	held = slices.SortedFunc(slices.Values(held), func(a, b driver.Held) int { return cmp.Compare(a.Key, b.Key) })
	for chunk := range slices.Chunk(held, 300) {
		of := sqlkit.Rows(chunk, func(h driver.Held) []any { return []any{h.Key, int64(h.Token)} })
		if err := s.execRows(ctx, `DELETE FROM {leases} WHERE namespace = ? AND session_id = ? AND {in name name, int token}`, of, s.namespace, s.id); err != nil {
			return s.failed("release", err)
		}
	}
	return nil
}

// Check reads which keys are still this session's.
func (s *leaseSession) Check(ctx context.Context, held []driver.Held) ([]bool, error) {
	return s.check(ctx, held, func(ctx context.Context) error { return s.live(ctx, "check") })
}

// Evict deletes the row of key if it is held under token.
func (s *leaseSession) Evict(ctx context.Context, key string, token driver.Token) (bool, error) {
	n, err := s.exec(ctx, `DELETE FROM {leases} WHERE namespace = ? AND name = ? AND token = ?`, s.namespace, key, int64(token))
	if err != nil {
		return false, s.failed("evict", err)
	}
	return n == 1, nil
}

// Close ends the session: no later renewal can succeed, and its rows are deleted.
func (s *leaseSession) Close(ctx context.Context) error {
	if _, err := s.exec(ctx, `UPDATE {sessions} SET dead = 1 WHERE id = ?`, s.id); err != nil {
		return s.failed("close", err)
	}
	if err := s.wipe(ctx, s.id); err != nil {
		return s.failed("close", err)
	}
	return nil
}
