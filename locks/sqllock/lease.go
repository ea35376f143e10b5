package sqllock

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/lockstep-scheduler/lockstep/internal/refusals"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// leaseSession is a row of {sessions}; its locks are rows of {leases}, and its places rows of {places}.
type leaseSession struct {
	*session
	granted chan driver.Grant
	woken   chan struct{}         // the polling looks again
	turn    chan struct{}         // held while keys are tried that were busy
	watch   func() (written bool) // nil: the database does not show when it was written
	apart   bool                  // for tests: it is told nothing in the process
	work    sync.WaitGroup

	committed bool // single statements are READ COMMITTED, too, and lock no gaps

	mu        sync.Mutex
	over      bool
	polling   bool
	stop      context.CancelFunc // of the polling
	waiting   waiting
	abandoned refusals.List   // acquisitions
	evictions int64           // as last heard
	busy      map[string]bool // keys that were busy when they were tried last
	reserves  map[string]reserve
	handing   map[string]driver.Held // by acquisition: see handOn
}

func (d *Driver) openLease(ctx context.Context, c *session) (driver.Session, error) {
	own := *c.DB
	c.DB = &own
	s := &leaseSession{
		session: c, granted: make(chan driver.Grant, unread), woken: make(chan struct{}, 1), turn: make(chan struct{}, 1), apart: d.apart,
		busy:     map[string]bool{},
		reserves: map[string]reserve{}, handing: map[string]driver.Held{},
	}
	err := d.dialect.settle(ctx, s)
	if err == nil {
		err = c.dialect.write(ctx, c.DB, func(t *sqlkit.Tx) error {
			if err := mark(t, c.namespace); err != nil {
				return err
			}
			_, err := t.Exec(`INSERT INTO {sessions} (id, namespace, owner, ttl, expires_at, dead, evictions) VALUES (?, ?, ?, ?, {now} + ?, 0, 0)`,
				c.id, c.namespace, c.owner, c.ttl.Microseconds(), c.ttl.Microseconds())
			return err
		})
	}
	if err == nil {
		err = s.sweep(ctx)
	}
	if err != nil {
		return nil, c.unknown("open", err)
	}
	s.enter()
	return s, nil
}

func (s *leaseSession) Ended() <-chan struct{} { return nil } // Renew reports it

// Notifier implements driver.Session: this backend sends no notices.
func (s *leaseSession) Notifier() driver.Notifier { return nil }

// counted is how many holds of a sample are counted by a renewal itself: a larger sample is read.
const counted = 500

// Renew is one UPDATE by primary key, which also sees whether a key was evicted, and counts the sample by primary key. If it
// changed nothing, the session is over, or one was evicted or is gone, or the clock shows the same µs again.
func (s *leaseSession) Renew(ctx context.Context, sample []driver.Held) (evicted bool, err error) {
	if err := s.file.holds(); err != nil {
		return false, fmt.Errorf("sqllock: renew: %w: %w", driver.ErrSessionEnded, err)
	}
	s.mu.Lock()
	known := s.evictions
	s.mu.Unlock()
	// REPEATABLE READ would lock what is counted, and gaps.
	counts := 0 < len(sample) && len(sample) <= counted && (s.committed || !s.dialect.rows)
	var n int64
	if counts {
		n, err = s.exec(ctx, `UPDATE {sessions} SET expires_at = {now} + ttl
			WHERE (SELECT COUNT(*) FROM {leases} WHERE {in name namespace, name name, int token} AND session_id = ?) = ?
				AND id = ? AND dead = 0 AND expires_at > {now} AND evictions = ?`, s.rowsOf(sample), s.id, len(sample), s.id, known)
	} else {
		n, err = s.exec(ctx, `UPDATE {sessions} SET expires_at = {now} + ttl WHERE id = ? AND dead = 0 AND expires_at > {now} AND evictions = ?`, s.id, known)
	}
	if err != nil {
		return false, s.failed("renew", err)
	}
	if n == 0 {
		if evicted, err = s.renewAnyway(ctx, known); err != nil {
			return false, s.unknown("renew", err)
		}
	}
	if !evicted && len(sample) > 0 && (n == 0 || !counts) {
		still, err := s.holds(ctx, sample)
		if err != nil {
			return false, s.unknown("renew", err)
		}
		evicted = slices.Contains(still, false)
	}
	return evicted, nil
}

// renewAnyway renews a session of which keys were evicted.
func (s *leaseSession) renewAnyway(ctx context.Context, known int64) (evicted bool, err error) {
	count := int64(-1)
	err = s.dialect.write(ctx, s.DB, func(t *sqlkit.Tx) error {
		if _, err := t.Exec(`UPDATE {sessions} SET expires_at = {now} + ttl WHERE id = ? AND dead = 0 AND expires_at > {now}`, s.id); err != nil {
			return err
		}
		_, err := t.One(`SELECT evictions FROM {sessions} WHERE id = ? AND dead = 0 AND expires_at > {now}`, []any{s.id}, &count)
		return err
	})
	if err != nil {
		return false, err
	}
	if count < 0 {
		return false, driver.ErrSessionEnded
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.evictions = max(s.evictions, count)
	return count != known, nil
}

func (s *leaseSession) live(ctx context.Context) error {
	alive, err := s.names(ctx, aliveRow, s.id)
	if err == nil && !alive[s.id] {
		err = driver.ErrSessionEnded
	}
	return err
}

// Close ends the session: no later renewal can succeed, and its rows are deleted.
func (s *leaseSession) Close(ctx context.Context) error {
	s.mu.Lock()
	s.over = true
	if s.stop != nil {
		s.stop()
	}
	s.mu.Unlock()
	s.leave()
	s.work.Wait()
	_, err := s.exec(ctx, `UPDATE {sessions} SET dead = 1 WHERE id = ?`, s.id)
	if err == nil {
		err = s.wipe(ctx, s.id)
	}
	if err != nil {
		return s.failed("close", err)
	}
	return nil
}
