package sqllock

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// leaseSession is a row of {sessions}; its locks are rows of {leases}.
type leaseSession struct {
	*calls
	ttl time.Duration
}

func openLease(ctx context.Context, c *calls, ttl time.Duration) (driver.Session, error) {
	_, err := c.exec(ctx, `INSERT INTO {sessions} (id, namespace, expires_at, dead) VALUES (?, ?, {now} + ?, 0)`,
		c.session, c.namespace, ttl.Microseconds())
	if err != nil {
		return nil, fmt.Errorf("sqllock: open: %w", err)
	}
	return &leaseSession{c, ttl}, nil
}

func (s *leaseSession) ID() string            { return s.session }
func (s *leaseSession) TTL() time.Duration    { return s.ttl }
func (s *leaseSession) Lost() <-chan struct{} { return nil } // Renew tells

// Renew is one UPDATE by primary key. It always changes the row, so that "no row" means that the
// session is over, whatever the handle counts as affected.
func (s *leaseSession) Renew(ctx context.Context) error {
	res, err := s.exec(ctx, `UPDATE {sessions} SET expires_at = {greatest}(expires_at + 1, {now} + ?)
		WHERE id = ? AND dead = 0 AND expires_at > {now}`, s.ttl.Microseconds(), s.session)
	if err != nil {
		return s.failed("renew", err)
	}
	if n, err := res.RowsAffected(); err != nil {
		return s.failed("renew", err)
	} else if n == 0 {
		return s.failed("renew", driver.ErrSessionLost)
	}
	return nil
}

// TryAcquire inserts the rows of free keys and reads back whose they are. A holder that is dead is
// buried on the way, and a key that was freed between two reads is tried once more.
func (s *leaseSession) TryAcquire(ctx context.Context, acquisition string, wants []driver.Want) ([]driver.Result, error) {
	var rows map[string]holding
	for round := range settling {
		var err error
		if rows, err = s.held(ctx, wants); err != nil {
			return nil, s.failed("acquire", err)
		}
		if rows, err = s.insert(ctx, acquisition, wants, rows); err != nil {
			return nil, s.failed("acquire", err)
		}
		reaped, err := s.reap(ctx, rows)
		if err != nil {
			return nil, s.failed("acquire", err)
		}
		if !reaped && len(rows) == len(wants) {
			break
		}
		if round > 0 && !pause(ctx) {
			return nil, s.failed("acquire", ctx.Err())
		}
	}
	results, granted := make([]driver.Result, len(wants)), false
	for i, w := range wants {
		row, held := rows[w.Key]
		switch {
		case held && row.info.Session == s.session && row.acquisition == acquisition:
			results[i], granted = driver.Result{Token: row.info.Token}, true
		case held:
			results[i].Holder = &row.info
		default: // again and again freed between two reads
			results[i].Holder = &driver.Info{Key: w.Key}
		}
	}
	if granted {
		if err := s.alive(ctx); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (s *leaseSession) held(ctx context.Context, wants []driver.Want) (map[string]holding, error) {
	return s.read(ctx, s.db, "{leases}", `namespace = ? AND name IN (`+marks(len(wants))+`)`, // primary key
		append([]any{s.namespace}, keysOf(wants)...)...)
}

// insert adds rows for the wants that have none, in the order of their keys, and returns all rows.
func (s *leaseSession) insert(ctx context.Context, acquisition string, wants []driver.Want, rows map[string]holding) (map[string]holding, error) {
	free := slices.DeleteFunc(slices.Clone(wants), func(w driver.Want) bool { _, held := rows[w.Key]; return held })
	if len(free) == 0 {
		return rows, nil
	}
	statement := s.words.replace.Replace(`{insert_ignore} {leases} (namespace, name, token, session_id, acquisition, owner, meta, since) VALUES ` +
		strings.TrimSuffix(strings.Repeat(`(?, ?, ?, ?, ?, ?, ?, {now}),`, len(free)), ","))
	err := s.tx(ctx, func(tx *sql.Tx) error {
		token, err := s.mint(ctx, tx, len(free))
		if err != nil {
			return err
		}
		var args []any
		for i, w := range free {
			args = append(args, s.namespace, w.Key, int64(token)+int64(i), s.session, acquisition, s.owner, w.Meta)
		}
		_, err = tx.ExecContext(ctx, statement, args...)
		return err
	})
	if err != nil {
		return nil, err
	}
	// What was inserted says nothing: IGNORE hides errors, and others insert too. The rows do.
	return s.held(ctx, wants)
}

// alive makes sure that the session was not over when its rows were inserted: whoever finds it
// expired from now on deletes them, and before that this session's trust has ended.
func (s *leaseSession) alive(ctx context.Context) error {
	live, err := s.names(ctx, s.db, `SELECT id FROM {sessions} WHERE id = ? AND dead = 0 AND expires_at > {now}`, s.session)
	if err != nil {
		return s.failed("acquire", err)
	}
	if !live[s.session] {
		return s.failed("acquire", driver.ErrSessionLost)
	}
	return nil
}

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

// Release deletes rows that are this session's, under their tokens.
func (s *leaseSession) Release(ctx context.Context, held []driver.Held) error {
	for chunk := range slices.Chunk(byKey(held), 300) {
		condition, args := either(chunk)
		if _, err := s.exec(ctx, `DELETE FROM {leases} WHERE namespace = ? AND session_id = ? AND `+condition,
			append([]any{s.namespace, s.session}, args...)...); err != nil {
			return s.failed("release", err)
		}
	}
	return nil
}

// Check reads which keys are still this session's.
func (s *leaseSession) Check(ctx context.Context, held []driver.Held) ([]bool, error) {
	still := make([]bool, len(held))
	if len(held) == 0 {
		return still, nil
	}
	args := []any{s.namespace, s.session, s.session}
	for _, h := range held {
		args = append(args, h.Key)
	}
	rows, err := s.read(ctx, s.db, "{leases}", `namespace = ? AND session_id = ?
		AND EXISTS (SELECT 1 FROM {sessions} WHERE id = ? AND dead = 0 AND expires_at > {now})
		AND name IN (`+marks(len(held))+`)`, args...)
	if err != nil {
		return nil, s.failed("check", err)
	}
	for i, h := range held {
		still[i] = rows[h.Key].info.Token == h.Token && h.Token != 0
	}
	return still, nil
}

// List reads holders whose session is alive, by primary key.
func (s *leaseSession) List(ctx context.Context, prefix, after string, limit int) ([]driver.Info, error) {
	where, args := s.page(prefix, after)
	rows, err := s.read(ctx, s.db, "{leases}", where+` AND EXISTS (SELECT 1 FROM {sessions} s WHERE s.id = session_id AND s.dead = 0 AND s.expires_at > {now})
		ORDER BY name LIMIT ?`, append(args, limit)...)
	if err != nil {
		return nil, s.failed("list", err)
	}
	return inOrder(rows), nil
}

// Evict deletes the row of key if it is held under token.
func (s *leaseSession) Evict(ctx context.Context, key string, token driver.Token) (bool, error) {
	res, err := s.exec(ctx, `DELETE FROM {leases} WHERE namespace = ? AND name = ? AND token = ?`, s.namespace, key, int64(token))
	if err != nil {
		return false, s.failed("evict", err)
	}
	n, err := res.RowsAffected()
	return n == 1, err
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

// page is the condition for keys with a prefix after a key.
func (c *calls) page(prefix, after string) (where string, args []any) {
	where, args = `namespace = ? AND name >= ? AND name > ?`, []any{c.namespace, prefix, after}
	if end := beyond(prefix); end != "" {
		where, args = where+` AND name < ?`, append(args, end)
	}
	return where, args
}

// failed says which operation an error is of, and whether nothing was sent.
func (c *calls) failed(op string, err error) error {
	if unsent(err) {
		return fmt.Errorf("sqllock: %s: %w: %w", op, driver.ErrUnreachable, err)
	}
	return fmt.Errorf("sqllock: %s: %w", op, err)
}

func byKey(held []driver.Held) []driver.Held {
	return slices.SortedFunc(slices.Values(held), func(a, b driver.Held) int { return cmp.Compare(a.Key, b.Key) })
}

func inOrder(rows map[string]holding) []driver.Info {
	infos := make([]driver.Info, 0, len(rows))
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		infos = append(infos, rows[name].info)
	}
	return infos
}
