package membership

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// Session is this replica's session in the store. It is replaced, never changed. Member.Keep renews it:
//
//  1. wait until a third of the ttl after the last heartbeat was sent; after an error, half a second or less
//  2. send a heartbeat, and wait for its answer
//  3. acknowledged: trust the session for longer, take the database's time, tell the attempts (Hooks.Renewed)
//  4. the session has expired: say so (Hooks.Died), and join again
//  5. no answer: the session is no longer steady, so this replica expires no peer
type Session struct {
	ID     string
	Trust  boottime.Instant // no peer can have expired it before
	steady boottime.Instant // every heartbeat was acknowledged since; zero: the last one was not
}

// Trusted reports whether no peer can have expired the session; nil is not trusted.
func (s *Session) Trusted() bool { return s != nil && s.Trust.Until() > 0 }

// trustFor is how long a heartbeat proves the session, from the moment before it was sent: the ttl less
// 1 % for clocks that run at different speeds, at least 50 ms.
func (m *Member) trustFor() time.Duration {
	ttl := m.opt.SessionTTL
	return ttl - max(ttl/100, 50*time.Millisecond)
}

// Keep renews the session until ctx is done.
func (m *Member) Keep(ctx context.Context) {
	every, patience := m.opt.SessionTTL/3, m.opt.SessionTTL/5
	for wait := every; wake.Wait(ctx, wait, nil); {
		asked := time.Now()
		err := m.beat(ctx, patience)
		took := time.Since(asked)
		again := min(m.opt.SessionTTL/20, 500*time.Millisecond)
		wait = max(every-took, again)
		// Twice the last duration, since a call that is given up costs a connection, too; but short enough that a second
		// attempt begins before the session's trust ends.
		patience = min(max(m.opt.SessionTTL/5, 2*took), m.opt.SessionTTL*2/5)
		if err != nil {
			m.StoreFailed(err)
			wait = again
		}
	}
}

// beat renews the session, and waits for the answer at most patience.
func (m *Member) beat(ctx context.Context, patience time.Duration) error {
	ses := m.session.Load()
	asked, since := boottime.Now(), m.moment()
	bctx, cancel := context.WithTimeout(ctx, patience)
	database, err := m.store.Beat(bctx, ses.ID)
	cancel()
	if errors.Is(err, ledger.ErrSessionDead) {
		if m.died != ses.ID { // equal: it is reported already, and could not join yet
			m.died = ses.ID
			m.log.Warn("this replica's session expired; joining again", "replica", m.opt.ID)
			m.sessionsLost.Add(1)
		}
		m.on.Died(ses.ID)
		if err := m.Join(ctx); err != nil {
			return err
		}
		m.on.Changed()
		return nil
	}
	if err != nil {
		m.session.Store(&Session{ses.ID, ses.Trust, boottime.Instant{}})
		return err
	}
	m.clock.Observe(asked, database)
	steady := ses.steady
	if steady.IsZero() {
		steady = boottime.Now()
	}
	m.session.Store(&Session{ses.ID, since.Add(m.trustFor()), steady})
	m.health.storeUp()
	rctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	m.on.Renewed(rctx)
	return nil
}
