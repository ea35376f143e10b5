package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/process"
)

// member is this replica among the others: its session, its clock, its peers, and which of the services that it needs are there.
type member struct {
	store  ledger.Sessions
	opt    Options
	log    *slog.Logger
	clock  *clock
	health health
	local  bool // all replicas are on this machine, whatever they share
	on     memberHooks

	session      atomic.Pointer[session]
	joined       string        // a session whose first beat has had no answer; of join alone
	died         string        // the session that was declared dead last; of keep alone
	config       atomic.Int64  // number of the configuration that was loaded
	sessionsLost atomic.Int64  // of this replica
	expired      atomic.Int64  // sessions of others
	nudgeWatch   chan struct{} // look at peers now
}

// memberHooks are called when something has changed.
type memberHooks struct {
	renewed func(ctx context.Context) // the session was; within what is left of the time of a beat
	died    func(session string)      // the own session was declared dead
	peers   func(live []string)       // who takes part was read
	dead    func()                    // this replica declared another one dead
	changed func()                    // replicas have come or gone, or have another configuration
}

// session is this replica's standing in the store. It is replaced, never changed.
type session struct {
	id     string
	trust  boottime.Instant // nobody can have declared it dead before
	steady boottime.Instant // every beat was acknowledged since; zero: the last one was not
}

// trusted reports whether nobody can have declared the session dead; for new work see mayBegin.
func (s *session) trusted() bool { return s != nil && s.trust.Until() > 0 }

// trustFor is how long a beat that was asked for at a moment vouches for the session: the ttl less
// 1 % for clocks that run at different speeds, at least 50 ms.
func (s *member) trustFor() time.Duration {
	ttl := s.opt.SessionTTL
	return ttl - max(ttl/100, 50*time.Millisecond)
}

// moment is now on the clock that sessions are judged by. Where all replicas are on this machine, that
// one stands still while the machine sleeps: they sleep with it, and a closed lid ends nothing.
func (s *member) moment() boottime.Instant {
	if s.local {
		return boottime.Awake()
	}
	return boottime.Now()
}

func (s *member) describe() ledger.Member {
	host, _ := os.Hostname()
	self := process.Self()
	return ledger.Member{
		Replica: s.opt.ID, Host: host, PID: self.PID, PIDStart: self.Start, BootID: self.Boot,
		Config: s.config.Load(), Version: s.opt.Version, Address: s.opt.Address,
		Workers: s.opt.Workers, Labels: s.opt.Labels, LockService: s.opt.LockService, TTL: s.opt.SessionTTL,
	}
}

// keep beats until ctx is done. While the store is away it tries again half a second after each try; when
// peers declared the session dead it stops what they may start elsewhere, and joins again.
func (s *member) keep(ctx context.Context) {
	every, patience := s.opt.SessionTTL/3, s.opt.SessionTTL/5
	for wait := every; pause(ctx, wait, nil); {
		asked := time.Now()
		err := s.beat(ctx, patience)
		took := time.Since(asked)
		again := min(s.opt.SessionTTL/20, 500*time.Millisecond)
		wait = max(every-took, again)
		// Twice the last time, since to give up costs a connection, too; but so that a second attempt begins
		// before the session's trust is over.
		patience = min(max(s.opt.SessionTTL/5, 2*took), s.opt.SessionTTL*2/5)
		if err != nil {
			s.storeFailed(err)
			wait = again
		}
	}
}

// beat renews the session, waiting for the answer no longer than patience.
func (s *member) beat(ctx context.Context, patience time.Duration) error {
	ses := s.session.Load()
	asked, since := boottime.Now(), s.moment()
	bctx, cancel := context.WithTimeout(ctx, patience)
	database, err := s.store.Beat(bctx, ses.id)
	cancel()
	if errors.Is(err, ledger.ErrSessionDead) {
		if s.died != ses.id { // else it could not join yet
			s.died = ses.id
			s.log.Warn("the others declared this replica dead; joining again", "replica", s.opt.ID)
			s.sessionsLost.Add(1)
		}
		s.on.died(ses.id)
		if err := s.join(ctx); err != nil {
			return err
		}
		// With the number that it had: what comes back late is no newer for that.
		s.on.changed()
		return nil
	}
	if err != nil {
		s.session.Store(&session{ses.id, ses.trust, boottime.Instant{}})
		return err
	}
	s.clock.observe(asked, database)
	steady := ses.steady
	if steady.IsZero() {
		steady = boottime.Now()
	}
	s.session.Store(&session{ses.id, since.Add(s.trustFor()), steady})
	s.health.storeUp()
	rctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s.on.renewed(rctx)
	return nil
}
