package sqllock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// leaseSession is a row of {sessions}; its locks are rows of {leases}.
type leaseSession struct {
	*calls
	ttl time.Duration
}

func openLease(ctx context.Context, c *calls, ttl time.Duration) (driver.Session, error) {
	c.session = withTTL(c.session, ttl)
	_, err := c.exec(ctx, `INSERT INTO {sessions} (id, namespace, expires_at, dead) VALUES (?, ?, {now} + ?, 0)`,
		c.session, c.namespace, ttl.Microseconds())
	if err != nil {
		return nil, fmt.Errorf("sqllock: open: %w", err)
	}
	s := &leaseSession{c, ttl}
	if err := s.sweep(ctx); err != nil {
		return nil, fmt.Errorf("sqllock: open: %w", err)
	}
	return s, nil
}

func (s *leaseSession) ID() string             { return s.session }
func (s *leaseSession) TTL() time.Duration     { return s.ttl }
func (s *leaseSession) Ended() <-chan struct{} { return nil } // Renew reports it

// Renew is one UPDATE by primary key. If it changed nothing the session is over, or the clock shows
// the same µs again.
func (s *leaseSession) Renew(ctx context.Context) error {
	n, err := s.exec(ctx, `UPDATE {sessions} SET expires_at = {now} + ? WHERE id = ? AND dead = 0 AND expires_at > {now}`,
		s.ttl.Microseconds(), s.session)
	if err != nil {
		return s.failed("renew", err)
	}
	if n > 0 {
		return nil
	}
	return s.live(ctx, "renew")
}

func (s *leaseSession) live(ctx context.Context, op string) error {
	alive, err := s.names(ctx, `SELECT id FROM {sessions} WHERE id = ? AND dead = 0 AND expires_at > {now}`, s.session)
	if err == nil && !alive[s.session] {
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
		if rows, err = s.insert(ctx, acquisition, wants, rows); err != nil {
			return nil, s.unknown("acquire", err)
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
	return s.leases(ctx, keysOf(wants))
}

// leases are the rows of keys.
func (s *leaseSession) leases(ctx context.Context, keys [][]any) (rows map[string]holding, err error) {
	err = s.Autocommit(ctx, func(t *sqlkit.Tx) error {
		rows, err = read(t, "{leases}", s.namespace, keys)
		return err
	})
	return rows, err
}

// errLate undoes a transaction in which nothing was inserted, so that it costs no write.
var errLate = errors.New("others were faster")

// insert adds rows for the wants that have none, in the order of their keys, and returns all rows.
func (s *leaseSession) insert(ctx context.Context, acquisition string, wants []driver.Want, rows map[string]holding) (map[string]holding, error) {
	if len(rows) == len(wants) {
		return rows, nil
	}
	waited, err := s.queue(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { <-s.turn }()
	if waited {
		if rows, err = s.held(ctx, wants); err != nil || len(rows) == len(wants) {
			return rows, err
		}
	}
	free := without(wants, rows)
	statement := `{insert_ignore} {leases} (namespace, name, token, session_id, acquisition, owner, meta, since) VALUES ` +
		strings.TrimSuffix(strings.Repeat(`(?, ?, ?, ?, ?, ?, ?, {now}),`, len(free)), ",") + ` {or_ignore}`
	err = s.Tx(ctx, func(t *sqlkit.Tx) error {
		token, err := s.mint(t, len(free))
		if err != nil {
			return err
		}
		var args []any
		for i, w := range free {
			args = append(args, s.namespace, w.Key, int64(token)+int64(i), s.session, acquisition, s.owner, w.Meta)
		}
		n, err := t.Exec(statement, args...)
		if err == nil && n == 0 {
			return errLate
		}
		return err
	})
	if err != nil && !errors.Is(err, errLate) {
		return nil, err
	}
	// The count does not say which keys, and IGNORE hides errors: read the rows.
	return s.held(ctx, wants)
}

// Release deletes rows that are this session's, under their tokens.
func (s *leaseSession) Release(ctx context.Context, held []driver.Held) error {
	for chunk := range slices.Chunk(byKey(held), 300) {
		of := sqlkit.Rows(chunk, func(h driver.Held) []any { return []any{h.Key, int64(h.Token)} })
		if err := s.execRows(ctx, `DELETE FROM {leases} WHERE namespace = ? AND session_id = ? AND {in name name, int token}`, of, s.namespace, s.session); err != nil {
			return s.failed("release", err)
		}
	}
	return nil
}

// Check reads which keys are still this session's. If one is not, that may be because all is over.
func (s *leaseSession) Check(ctx context.Context, held []driver.Held) ([]bool, error) {
	if len(held) == 0 {
		return nil, nil
	}
	rows, err := s.leases(ctx, keysHeld(held))
	if err != nil {
		return nil, s.failed("check", err)
	}
	still := s.still(held, rows)
	if slices.Contains(still, false) {
		if err := s.live(ctx, "check"); err != nil {
			return nil, err
		}
	}
	return still, nil
}

// List reads holders with a live session, by primary key.
func (s *leaseSession) List(ctx context.Context, prefix, after string, limit int) ([]driver.Info, error) {
	where, args := s.page(prefix, after)
	var rows map[string]holding
	err := s.Autocommit(ctx, func(t *sqlkit.Tx) (err error) {
		rows, err = list(t, "{leases}", where+` AND `+left["{leases}"]+` > 0 ORDER BY name LIMIT ?`, append(args, limit))
		return err
	})
	if err != nil {
		return nil, s.failed("list", err)
	}
	return inOrder(rows), nil
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
	if _, err := s.exec(ctx, `UPDATE {sessions} SET dead = 1 WHERE id = ?`, s.session); err != nil {
		return s.failed("close", err)
	}
	if err := s.wipe(ctx, s.session); err != nil {
		return s.failed("close", err)
	}
	return nil
}

func byKey(held []driver.Held) []driver.Held {
	return slices.SortedFunc(slices.Values(held), func(a, b driver.Held) int { return cmp.Compare(a.Key, b.Key) })
}
