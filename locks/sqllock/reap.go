package sqllock

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// sweep ends the expired sessions of the namespace, and pulls in those that have too much time left.
func (s *leaseSession) sweep(ctx context.Context) error {
	var over []string
	var all []*part
	err := s.Autocommit(ctx, func(t *sqlkit.Tx) error {
		over, all = nil, nil
		err := t.Query(`SELECT id, dead, ttl, expires_at - {now} FROM {sessions} WHERE namespace = ?`, []any{s.namespace}, func(scan func(...any) error) error {
			p := &part{}
			var dead bool
			var ttl, left int64
			err := scan(&p.info.Session, &dead, &ttl, &left)
			p.ttl, p.info.Remaining = time.Duration(ttl)*time.Microsecond, time.Duration(left)*time.Microsecond
			if dead || left <= 0 {
				over = append(over, p.info.Session)
			}
			all = append(all, p)
			return err
		})
		if err != nil {
			return err
		}
		_, err = s.pullIn(t, all)
		return err
	})
	for _, id := range sqlkit.Distinct(over) {
		if err == nil {
			err = s.wipe(ctx, id)
		}
	}
	return err
}

// pullIn gives sessions that have more than their ttl left, since the database's clock was set back after a renewal, their
// ttl from now on: so they do not outlive their processes by as much. It returns how many there were.
func (s *leaseSession) pullIn(t *sqlkit.Tx, all []*part) (int64, error) {
	far := sessionsOf(all, func(p *part) bool { return p.ttl > 0 && p.info.Remaining > p.ttl })
	return t.Exec(`UPDATE {sessions} SET expires_at = {now} + ttl WHERE {in name id} AND expires_at > {now} + ttl`, sqlkit.Keys(far))
}

// wiped is how many keys one transaction frees.
const wiped = 300

// wipe ends a session that has expired or was marked as dead, which is final: it frees what it holds, gives up its places,
// in the order of the keys, grants that on, and deletes its row. Every session that finds an expired one does so.
func (s *leaseSession) wipe(ctx context.Context, id string) error {
	for all := false; !all; {
		err := s.change(ctx, wiped, func(c *change) error {
			c.wiping = id
			all = true
			if _, err := c.t.Exec(`UPDATE {sessions} SET dead = 1 WHERE id = ? AND dead = 0 AND expires_at <= {now}`, id); err != nil {
				return err
			}
			if live, err := names(c.t, `SELECT id FROM {sessions} WHERE id = ? AND dead = 0`, id); err != nil || live[id] {
				return err // it renewed in time
			}
			keys, err := c.some(`{leases}`, id)
			if err != nil {
				return err
			}
			waits, err := c.some(`{places}`, id)
			if err != nil {
				return err
			}
			all = len(keys) < wiped && len(waits) < wiped
			if _, err := c.t.Exec(`DELETE FROM {places} WHERE namespace = ? AND {in name name} AND session_id = ?`, sqlkit.Keys(waits), c.namespace, id); err != nil {
				return err
			}
			if keys = append(keys, waits...); len(keys) > 0 {
				if err := c.load(keys); err != nil {
					return err
				}
			}
			for _, k := range c.keys {
				if err := c.advance(k); err != nil {
					return err
				}
			}
			if all {
				_, err = c.t.Exec(`DELETE FROM {sessions} WHERE id = ? AND dead = 1`, id)
			}
			c.wrote = true
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// some are the first keys of a session in a table, by the index of sessions.
func (c *change) some(table, id string) (keys []string, err error) {
	err = c.t.Query(`SELECT DISTINCT name FROM `+table+` WHERE namespace = ? AND session_id = ? ORDER BY name LIMIT ?`, []any{c.namespace, id, wiped},
		func(scan func(...any) error) error {
			var name string
			err := scan(&name)
			keys = append(keys, name)
			return err
		})
	return keys, err
}
