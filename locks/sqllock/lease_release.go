package sqllock

import (
	"cmp"
	"context"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// release frees what this session holds under its tokens, and grants that on.
func (c *change) release(held []driver.Held) error {
	for _, h := range held {
		k := c.keys[h.Key]
		for _, p := range slices.Clone(k.holders) {
			if p.info.Session == c.id && p.info.Token == h.Token {
				c.drop(k, p)
			}
		}
		if err := c.advance(k); err != nil {
			return err
		}
	}
	return nil
}

// Release deletes the rows of keys that nobody waits for, by primary key and in one statement. If some are left, they are
// granted on.
func (s *leaseSession) Release(ctx context.Context, held []driver.Held) error {
	s.spend(held)
	held = slices.SortedFunc(slices.Values(held), func(a, b driver.Held) int { return cmp.Compare(a.Key, b.Key) })
	for chunk := range slices.Chunk(held, 500) {
		var n int64
		write := s.Tx
		if len(chunk) == 1 || s.committed {
			write = s.Single
		}
		err := write(ctx, func(t *sqlkit.Tx) (err error) {
			n, err = t.Exec(`DELETE FROM {leases} WHERE {in name namespace, name name, int token} AND session_id = ? AND waits = 0`, s.rowsOf(chunk), s.id)
			return err
		})
		if err == nil && n < int64(len(chunk)) {
			err = s.change(ctx, 1, func(c *change) error {
				if err := c.load(keysHeld(chunk)); err != nil {
					return err
				}
				return c.release(chunk)
			})
		}
		if err != nil {
			return s.failed("release", err)
		}
	}
	return nil
}

func (s *leaseSession) rowsOf(held []driver.Held) sqlkit.Many {
	return sqlkit.Rows(held, func(h driver.Held) []any { return []any{s.namespace, h.Key, int64(h.Token)} })
}

// Check reads which keys are still this session's.
func (s *leaseSession) Check(ctx context.Context, held []driver.Held) ([]bool, error) {
	if len(held) == 0 {
		return nil, nil
	}
	still, err := s.holds(ctx, held)
	if err != nil {
		return nil, s.failed("check", err)
	}
	if slices.Contains(still, false) {
		if err := s.live(ctx); err != nil {
			return nil, s.unknown("check", err)
		}
	}
	return still, nil
}

// holds reads which of the keys are held, by primary key.
func (s *leaseSession) holds(ctx context.Context, held []driver.Held) ([]bool, error) {
	found := map[driver.Held]bool{}
	err := s.Autocommit(ctx, func(t *sqlkit.Tx) error {
		for chunk := range slices.Chunk(held, sqlkit.MaxArgs/4) {
			err := t.Query(`SELECT name, token FROM {leases} WHERE {in name namespace, name name, int token} AND session_id = ?
				AND EXISTS (SELECT 1 FROM {sessions} s WHERE s.id = ? AND s.dead = 0 AND s.expires_at > {now})`,
				[]any{s.rowsOf(chunk), s.id, s.id}, func(scan func(...any) error) error {
					var h driver.Held
					err := scan(&h.Key, &h.Token)
					found[h] = true
					return err
				})
			if err != nil {
				return err
			}
		}
		return nil
	})
	still := make([]bool, len(held))
	for i, h := range held {
		still[i] = found[h]
	}
	return still, err
}

// Evict frees the key if it is held under token, and counts that in the row of the holder's session.
func (s *leaseSession) Evict(ctx context.Context, key string, token driver.Token) (freed bool, err error) {
	err = s.change(ctx, 1, func(c *change) error {
		freed = false
		if err := c.load([]string{key}); err != nil {
			return err
		}
		k := c.keys[key]
		for _, p := range slices.Clone(k.holders) {
			if p.info.Token != token {
				continue
			}
			freed = true
			c.drop(k, p)
			if _, err := c.t.Exec(`UPDATE {sessions} SET evictions = evictions + 1 WHERE id = ?`, p.info.Session); err != nil {
				return err
			}
		}
		return c.advance(k)
	})
	if err != nil {
		return false, s.failed("evict", err)
	}
	return freed, nil
}
