package sqllock

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// rowSession holds row locks in transactions, one connection for each key.
type rowSession struct {
	*calls
	ttl    time.Duration
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
func openRow(ctx context.Context, c *calls, ttl time.Duration) (driver.Session, error) {
	s := &rowSession{
		calls: c, ttl: max(ttl.Truncate(time.Second), time.Second), lost: make(chan struct{}), held: map[string]rowLock{},
	}
	err := s.sweep(ctx)
	if err == nil {
		s.anchor, err = s.pin(ctx, s.ttl)
	}
	if err != nil {
		return nil, s.failed("open", err)
	}
	const insert = `INSERT INTO {anchors} (id, connection) VALUES (?, CONNECTION_ID())`
	if _, err = s.With(ctx, s.anchor).Exec(insert, s.session); err != nil {
		s.anchor.drop()
		return nil, s.unknown("open", err)
	}
	return s, nil
}

func (s *rowSession) ID() string             { return s.session }
func (s *rowSession) TTL() time.Duration     { return s.ttl }
func (s *rowSession) Ended() <-chan struct{} { return s.lost }

// Renew pings every connection, all at once, so that wait_timeout does not end them. The session is lost if its
// own connection does not answer before ctx ends. A key whose connection was closed is free already.
func (s *rowSession) Renew(ctx context.Context) error {
	if s.isOver() {
		return s.failed("renew", driver.ErrSessionEnded)
	}
	if err := ctx.Err(); err != nil {
		return s.failed("renew", err)
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
		return s.failed("renew", fmt.Errorf("%w: %w", driver.ErrSessionEnded, err))
	}
	return nil
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
	for round := 0; len(rows) < len(wants) && round < rounds; round++ {
		if round > 0 && sqlkit.Pause(ctx, round, nap) != nil {
			return nil, s.unknown("acquire", ctx.Err())
		}
		if rows, err = s.take(ctx, acquisition, wants, rows); err != nil {
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

// take locks the free keys of wants, mints their tokens, writes their rows, and returns all rows. Keys taken
// before an error may stay held: the same acquisition finds them again.
func (s *rowSession) take(ctx context.Context, acquisition string, wants []driver.Want, rows map[string]holding) (map[string]holding, error) {
	waited, err := s.queue(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { <-s.turn }()
	if waited {
		if rows, err = s.look(ctx, wants); err != nil || len(rows) == len(wants) {
			return rows, err
		}
	}
	free := without(wants, rows)
	conns := make([]pinned, len(free))
	err = each(len(free), func(i int) (err error) {
		conns[i], err = s.lock(ctx, free[i].Key)
		return err
	})
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
		return nil, err
	}
	err = each(len(locked), func(n int) error {
		i := locked[n]
		return s.name(ctx, acquisition, free[i], rowLock{conns[i], token + driver.Token(n)})
	})
	if err != nil {
		return nil, err
	}
	return s.look(ctx, wants)
}

// each runs do for 0 … n-1, several at once, and returns one of the errors.
func each(n int, do func(i int) error) error {
	errs := make([]error, n)
	places := make(chan struct{}, parallel)
	var all sync.WaitGroup
	for i := range n {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			errs[i] = do(i)
		})
	}
	all.Wait()
	return cmp.Or(errs...)
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
	if err := s.hold(w.Key, l); err != nil {
		l.drop()
		return err
	}
	_, err := s.With(ctx, l).Exec(`UPDATE {rows} SET token = ?, session_id = ?, acquisition = ?, owner = ?, meta = ?,
		since = {now}, connection = CONNECTION_ID() WHERE namespace = ? AND name = ?`,
		int64(l.token), s.session, acquisition, s.owner, w.Meta, s.namespace, w.Key)
	if err != nil {
		s.forget(w.Key, l)
	}
	return err
}

// hold keeps a locked key. An earlier hold of the key was lost, or it would not be free.
func (s *rowSession) hold(key string, l rowLock) error {
	s.mu.Lock()
	old, there := s.held[key]
	over := s.over
	if !over {
		s.held[key] = l
	}
	s.mu.Unlock()
	if over {
		return driver.ErrSessionEnded
	}
	if there {
		old.drop()
	}
	return nil
}

// Release rolls back the transactions that hold these keys, which frees them, and deletes their rows in a
// transaction that the server ends soon, however long the ttl is: a session that wants a new key waits for an
// uncommitted deletion. If a step fails the connection is closed, which frees the key as well; a row that
// remains does no harm.
func (s *rowSession) Release(ctx context.Context, held []driver.Held) error {
	var all sync.WaitGroup
	for key, l := range s.snapshot() {
		if slices.Contains(held, driver.Held{Key: key, Token: l.token}) {
			all.Go(func() {
				if run(ctx, l, "ROLLBACK", sessionSettings) == nil && s.clear(s.With(ctx, l), `namespace = ? AND name = ?`, s.namespace, key) == nil {
					_ = run(ctx, l, "COMMIT")
				}
				s.forget(key, l)
			})
		}
	}
	all.Wait()
	return nil
}

// Close releases everything and ends the session.
func (s *rowSession) Close(ctx context.Context) error {
	var held []driver.Held
	for key, l := range s.snapshot() {
		held = append(held, driver.Held{Key: key, Token: l.token})
	}
	_ = s.Release(ctx, held)
	s.end()
	if err := s.sweep(ctx); err != nil {
		return s.failed("close", err)
	}
	return nil
}
