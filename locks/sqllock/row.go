package sqllock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// rowSession holds row locks in transactions, one connection for each key.
type rowSession struct {
	*session
	anchor pinned // its loss ends the session
	lost   chan struct{}

	mu   sync.Mutex
	over bool
	held map[string]rowLock
}

// rowLock is a held key, on a connection of its own.
type rowLock struct {
	pinned
	token driver.Token
}

// openRow rounds the TTL down to seconds: that is how precise wait_timeout is.
func openRow(ctx context.Context, c *session) (driver.Session, error) {
	c.ttl, c.table = c.ttl.Truncate(time.Second), "{rows}"
	// Rows are read committed or not: the open transactions of the holders have written them. That locks nothing and
	// does not wait.
	uncommitted := c.On(c.Pool)
	uncommitted.Dialect = sqlkit.MySQL{Isolation: "READ UNCOMMITTED"}
	c.view = uncommitted.Tx
	s := &rowSession{session: c, lost: make(chan struct{}), held: map[string]rowLock{}}
	err := s.sweep(ctx)
	if err == nil {
		s.anchor, err = s.pin(ctx, s.ttl)
	}
	if err != nil {
		return nil, s.failed("open", err)
	}
	const insert = `INSERT INTO {anchors} (id, connection) VALUES (?, CONNECTION_ID())`
	if _, err = s.With(ctx, s.anchor).Exec(insert, s.id); err != nil {
		s.anchor.drop()
		return nil, s.unknown("open", err)
	}
	return s, nil
}

func (s *rowSession) Ended() <-chan struct{} { return s.lost }

// Renew pings every connection, all at once, so that wait_timeout does not end them. The session is lost if its
// own connection does not answer before ctx ends. A key whose connection was closed is free already, and Check says so.
func (s *rowSession) Renew(ctx context.Context, _ []driver.Held) (bool, error) {
	if s.isOver() {
		return false, s.failed("renew", driver.ErrSessionEnded)
	}
	if err := ctx.Err(); err != nil {
		return false, s.failed("renew", err)
	}
	var all sync.WaitGroup
	for key, l := range s.snapshot() {
		all.Go(func() {
			if l.PingContext(ctx) != nil {
				s.forget(key, l)
			}
		})
	}
	err := s.anchor.PingContext(ctx)
	all.Wait()
	if err != nil {
		s.end()
		return false, s.failed("renew", fmt.Errorf("%w: %w", driver.ErrSessionEnded, err))
	}
	return true, nil
}

func (s *rowSession) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

func (s *rowSession) snapshot() map[string]rowLock {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.held)
}

// has reports whether the connection that holds a key under its token is still open: only then can the key be
// held, whatever its row says until the server has noticed.
func (s *rowSession) has(h driver.Held) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, there := s.held[h.Key]
	return there && l.token == h.Token
}

// forget closes the connection of a key, which frees the key if it was still held.
func (s *rowSession) forget(key string, l rowLock) {
	s.mu.Lock()
	if s.held[key] == l {
		delete(s.held, key)
	}
	s.mu.Unlock()
	l.drop()
}

// end closes every connection: the server frees what is still held.
func (s *rowSession) end() {
	s.mu.Lock()
	held, first := s.held, !s.over
	s.held, s.over = nil, true
	s.mu.Unlock()
	for _, l := range held {
		l.drop()
	}
	if first {
		s.anchor.drop()
		close(s.lost)
	}
}

// TryAcquire locks the rows of free keys, each in a transaction of its own, and then reads their holders. A key
// that another session has locked, and whose row it has not written or deleted yet, is read again.
//
//	peek ──▶ all held ──▶ results
//	 │ some free: lock, mint, write the row of each
//	 └───────◀──────────┘   at most rounds times
func (s *rowSession) TryAcquire(ctx context.Context, acquisition string, wants []driver.Want) ([]driver.Result, error) {
	if s.isOver() {
		return nil, s.failed("acquire", driver.ErrSessionEnded)
	}
	rows, err := s.look(ctx, wants)
	if err != nil {
		return nil, s.failed("acquire", err)
	}
	take := func(free []driver.Want) error { return s.take(ctx, acquisition, free) }
	for round := 0; len(rows) < len(wants) && round < rounds; round++ {
		if round > 0 && sqlkit.Pause(ctx, round, nap) != nil {
			return nil, s.unknown("acquire", ctx.Err())
		}
		if rows, err = s.inTurn(ctx, wants, rows, take, s.look); err != nil {
			return nil, s.unknown("acquire", err)
		}
	}
	if s.isOver() {
		return nil, s.unknown("acquire", driver.ErrSessionEnded)
	}
	results := s.results(acquisition, wants, rows)
	for i, w := range wants { // a connection that was dropped here holds nothing
		if r := results[i]; r.Token > 0 && !s.has(driver.Held{Key: w.Key, Token: r.Token}) {
			row := rows[w.Key]
			results[i] = driver.Result{Holder: &row.info}
		}
	}
	return results, nil
}

// parallel bounds how many connections one batch opens at once.
const parallel = 8

// take locks the keys that are free, mints their tokens, and writes their rows. Keys taken before an error may stay held:
// the same acquisition finds them again.
func (s *rowSession) take(ctx context.Context, acquisition string, free []driver.Want) error {
	conns := make([]pinned, len(free))
	err := cmp.Or(calls.Each(len(free), parallel, func(i int) (err error) {
		conns[i], err = s.lock(ctx, free[i].Key)
		return err
	})...)
	var locked []int
	for i, conn := range conns {
		if conn.Conn != nil { // else another session was faster
			locked = append(locked, i)
		}
	}
	var token driver.Token
	if err == nil && len(locked) > 0 {
		err = s.Autocommit(ctx, func(t *sqlkit.Tx) error {
			token, err = s.mint(t, len(locked))
			return err
		})
	}
	if err != nil {
		for _, i := range locked {
			conns[i].drop()
		}
		return err
	}
	return cmp.Or(calls.Each(len(locked), parallel, func(n int) error {
		i := locked[n]
		return s.name(ctx, acquisition, free[i], rowLock{conns[i], token + driver.Token(n)})
	})...)
}

// lock locks the row of a key; it returns the zero pinned if another session has locked it.
func (s *rowSession) lock(ctx context.Context, key string) (pinned, error) {
	conn, err := s.pin(ctx, s.ttl)
	if err != nil {
		return pinned{}, err
	}
	const try = `SELECT name FROM {rows} WHERE namespace = ? AND name = ? FOR UPDATE SKIP LOCKED` // primary key
	got, err := names(s.With(ctx, conn), try, s.namespace, key)
	if err != nil || !got[key] {
		conn.drop()
		return pinned{}, err
	}
	return conn, nil
}

// name writes the holder into a locked row. The token was minted on another connection, since the mark would
// stay locked on this one; the write proves that this connection has held the row lock all the time.
func (s *rowSession) name(ctx context.Context, acquisition string, w driver.Want, l rowLock) error {
	s.mu.Lock()
	old, lost := s.held[w.Key] // an earlier hold of the key was lost, or it would not be free
	over := s.over
	if !over {
		s.held[w.Key] = l
	}
	s.mu.Unlock()
	switch {
	case over:
		l.drop()
		return driver.ErrSessionEnded
	case lost:
		old.drop()
	}
	_, err := s.With(ctx, l).Exec(`UPDATE {rows} SET token = ?, session_id = ?, acquisition = ?, owner = ?, meta = ?,
		since = {now}, connection = CONNECTION_ID() WHERE namespace = ? AND name = ?`,
		int64(l.token), s.id, acquisition, s.owner, w.Meta, s.namespace, w.Key)
	if err != nil {
		s.forget(w.Key, l)
	}
	return err
}

// Queue implements driver.Session: this backend has no queue yet.
func (s *rowSession) Queue() driver.Queue { return nil }

// Notifier implements driver.Session: this backend sends no notices.
func (s *rowSession) Notifier() driver.Notifier { return nil }

// Release deletes the rows of these keys and commits, which frees them. If a step fails the connection is closed, which
// frees the key as well; a row that remains does no harm.
func (s *rowSession) Release(ctx context.Context, held []driver.Held) error {
	_ = s.release(ctx, func(key string, l rowLock) bool { return slices.Contains(held, driver.Held{Key: key, Token: l.token}) })
	return nil
}

// Close releases everything and ends the session, all connections at once. One that does not answer ends with what it
// holds, if the server can be reached.
func (s *rowSession) Close(ctx context.Context) error {
	var all sync.WaitGroup
	var ended error
	all.Go(func() { ended = run(ctx, s.anchor, "ROLLBACK") })
	released := s.release(ctx, func(string, rowLock) bool { return true })
	all.Wait()
	s.end()
	if released == nil && ended == nil {
		return nil
	}
	if err := s.sweep(ctx); err != nil {
		return s.failed("close", err)
	}
	return nil
}

// release frees those of the held keys that are asked for, all at once.
func (s *rowSession) release(ctx context.Context, asked func(key string, l rowLock) bool) error {
	held := s.snapshot()
	maps.DeleteFunc(held, func(key string, l rowLock) bool { return !asked(key, l) })
	keys := slices.Sorted(maps.Keys(held))
	return errors.Join(calls.Each(len(keys), len(keys), func(i int) error {
		defer s.forget(keys[i], held[keys[i]])
		return s.free(ctx, keys[i], held[keys[i]])
	})...)
}

// free ends the transaction that holds a key, with its row deleted. A session that wants the key waits for an uncommitted
// deletion, so before that the connection gets the settings of one that the server ends soon, however long the ttl is.
func (s *rowSession) free(ctx context.Context, key string, l rowLock) error {
	if err := run(ctx, l, sessionSettings); err != nil {
		return err
	}
	if _, err := s.With(ctx, l).Exec(`DELETE FROM {rows} WHERE namespace = ? AND name = ?`, s.namespace, key); err != nil {
		return err
	}
	return run(ctx, l, "COMMIT")
}
