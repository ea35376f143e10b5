package sqllock

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/internal/refusals"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// rowSession holds and awaits row locks in transactions, one connection for each key.
type rowSession struct {
	*session
	anchor  pinned // its loss ends the session
	lost    chan struct{}
	granted chan driver.Grant
	tries   chan struct{} // has an element for each try under way

	first   int64        // tokens are larger
	ceiling atomic.Int64 // and smaller than the mark was once

	waiting sync.WaitGroup // goroutines that wait for keys, or delete idle rows

	mu        sync.Mutex
	over      bool
	claims    map[driver.Place]*claim
	held      map[string]*claim // by key, those that are granted
	evicted   bool              // a held key was lost, and no renewal has said so
	abandoned refusals.List     // acquisitions
	spare     []spare
	idle      map[string]time.Time // keys whose rows this session has used, and when
	renewed   time.Time            // the last renewal
	tidying   context.CancelFunc   // nil: no idle rows are being deleted
}

// mostTries bounds how many keys a session tries to lock at once.
const mostTries = 8

// unread is how many grants may be unread: later ones are found by Look.
const unread = 1024

// openRow rounds the TTL down to seconds: that is how precise wait_timeout is.
func openRow(ctx context.Context, c *session) (driver.Session, error) {
	c.ttl = c.ttl.Truncate(time.Second)
	// Holds are read committed or not: the open transactions of the holders have written them. That locks nothing and does
	// not wait.
	uncommitted := c.On(c.Pool)
	uncommitted.Dialect = sqlkit.MySQL{Isolation: "READ UNCOMMITTED"}
	c.view = uncommitted.Tx
	s := &rowSession{
		session: c, lost: make(chan struct{}), granted: make(chan driver.Grant, unread), tries: make(chan struct{}, mostTries),
		claims: map[driver.Place]*claim{}, held: map[string]*claim{}, idle: map[string]time.Time{},
	}
	err := s.Autocommit(ctx, func(t *sqlkit.Tx) error { return mark(t, s.namespace) })
	if err == nil {
		err = s.sweep(ctx)
	}
	if err == nil {
		s.anchor, err = s.pin(ctx, s.ttl)
	}
	if err != nil {
		return nil, s.failed("open", err)
	}
	err = s.raise(ctx)
	if err == nil {
		_, err = s.With(ctx, s.anchor).Exec(`INSERT INTO {anchors} (id, connection) VALUES (?, CONNECTION_ID())`, s.id)
	}
	if err != nil {
		s.anchor.drop()
		return nil, s.unknown("open", err)
	}
	return s, nil
}

func (s *rowSession) Ended() <-chan struct{} { return s.lost }

// Renew pings every connection, all at once, so that wait_timeout does not end them; those that wait for a key are in use. The
// session is lost if its own connection does not answer before ctx ends, and so is a key: the driver closes a connection whose answer
// is awaited then. Where ctx ends before all were asked, that is the error, and nothing is lost by it.
func (s *rowSession) Renew(ctx context.Context, sample []driver.Held) (evicted bool, err error) {
	if s.isOver() {
		return false, s.failed("renew", driver.ErrSessionEnded)
	}
	if err := ctx.Err(); err != nil {
		return false, s.failed("renew", err)
	}
	if err := s.ping(ctx); err != nil {
		return false, s.failed("renew", err)
	}
	s.mu.Lock()
	evicted, s.evicted = s.evicted, false
	s.mu.Unlock()
	s.shrink()
	s.tidy()
	return evicted || slices.ContainsFunc(sample, func(h driver.Held) bool { return !s.has(h) }), nil
}

// ping gives up the keys whose connections are gone, and ends the session if its own is. Any other error is the end of ctx: not every
// connection was asked.
func (s *rowSession) ping(ctx context.Context) error {
	held := s.snapshot()
	unasked := make([]error, len(held)+1)
	var all sync.WaitGroup
	for i, c := range held {
		all.Go(func() {
			gone, err := c.conn.ask(ctx)
			if gone {
				s.lose(c)
			} else {
				unasked[i] = err
			}
		})
	}
	gone, err := s.anchor.ask(ctx)
	all.Wait()
	if gone {
		s.end()
		return fmt.Errorf("%w: %w", driver.ErrSessionEnded, err)
	}
	unasked[len(held)] = err
	return cmp.Or(unasked...)
}

func (s *rowSession) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// Notifier implements driver.Session: this backend sends no notices.
func (s *rowSession) Notifier() driver.Notifier { return nil }

// Release ends the transactions that hold these keys. Where one could not be ended, or its connection was closed before, the server may
// not have seen that yet: it is told to end that connection, and the keys are released once it has.
func (s *rowSession) Release(ctx context.Context, held []driver.Held) error {
	claims := s.takeOut(func(c *claim) bool { return slices.Contains(held, driver.Held{Key: c.Key, Token: c.token}) })
	if s.release(ctx, claims) && len(claims) == len(held) {
		return nil
	}
	if err := s.killOwn(ctx, held); err != nil {
		return s.unknown("release", err)
	}
	return nil
}

// release frees what was taken out of the session, all at once, and reports whether each transaction could be ended.
func (s *rowSession) release(ctx context.Context, claims []*claim) bool {
	if len(claims) == 1 {
		return s.free(ctx, claims[0]) == nil
	}
	return !slices.ContainsFunc(calls.Each(len(claims), len(claims), func(i int) error { return s.free(ctx, claims[i]) }),
		func(err error) bool { return err != nil })
}

// free ends the transaction that holds a key. Nothing of it was committed, so there is nothing that the server writes to its disk.
func (s *rowSession) free(ctx context.Context, c *claim) error {
	if err := run(ctx, c.conn, "ROLLBACK"); err != nil {
		c.conn.drop()
		return err
	}
	s.giveBack(c.conn)
	return nil
}

// Close ends all waits, releases everything, deletes the rows of the keys that it has used unless others hold them, and ends
// the session. A connection that does not answer ends with what it holds, if the server can be reached.
func (s *rowSession) Close(ctx context.Context) error {
	s.stopWaiting()
	var ended error
	var all sync.WaitGroup
	all.Go(func() { ended = run(ctx, s.anchor, "ROLLBACK") })
	released := s.release(ctx, s.takeOut(func(*claim) bool { return true }))
	all.Wait()
	var err error
	if released && ended == nil {
		s.mu.Lock()
		keys := s.used(0)
		s.mu.Unlock()
		err = s.clear(ctx, keys)
		s.end()
	} else {
		s.end()
		err = s.sweep(ctx)
	}
	s.waiting.Wait()
	if err != nil {
		return s.failed("close", err)
	}
	return nil
}

// end closes every connection: the server frees what is still held.
func (s *rowSession) end() {
	s.mu.Lock()
	claims, spare, first := s.claims, s.spare, !s.over
	s.claims, s.held, s.spare, s.over = nil, nil, nil, true
	if s.tidying != nil {
		s.tidying()
	}
	for _, c := range claims {
		c.cancel()
	}
	s.mu.Unlock()
	for _, c := range claims {
		if c.token > 0 { // those that wait are closed by what waits
			c.conn.drop()
		}
	}
	for _, p := range spare {
		p.drop()
	}
	if first {
		s.anchor.drop()
		close(s.lost)
	}
}
