package scheduler

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/process"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

// session is this replica's standing in the store. It is replaced, never changed.
type session struct {
	id     string
	trust  boottime.Instant // nobody can have declared it dead before
	steady boottime.Instant // every beat was acknowledged since; zero: the last one was not
}

// trusted reports whether nobody can have declared the session dead; for new work see mayBegin.
func (s *session) trusted() bool { return s != nil && s.trust.Until() > 0 }

// mayBegin reports whether new work may be taken: what begins has more time than the last grace, at the beginning of which an
// attempt is told to end. With less left, as right after an outage of the store, the next beat comes first.
func (s *Scheduler) mayBegin() bool {
	ses := s.session.Load()
	return ses.trusted() && ses.trust.Until() > s.lastGrace()
}

// trustFor is how long a beat that was asked for at a moment vouches for the session: the ttl less
// 1 % for clocks that run at different speeds, at least 50 ms.
func (s *Scheduler) trustFor() time.Duration {
	ttl := s.opt.SessionTTL
	return ttl - max(ttl/100, 50*time.Millisecond)
}

// moment is now on the clock that sessions are judged by. Where all replicas are on this machine, that
// one stands still while the machine sleeps: they sleep with it, and a closed lid ends nothing.
func (s *Scheduler) moment() boottime.Instant {
	if s.local {
		return boottime.Awake()
	}
	return boottime.Now()
}

func (s *Scheduler) member() ledger.Member {
	host, _ := os.Hostname()
	self := process.Self()
	return ledger.Member{
		Replica: s.opt.ID, Host: host, PID: self.PID, PIDStart: self.Start, BootID: self.Boot,
		Config: s.config.Load(), Version: s.opt.Version, Address: s.opt.Address,
		Workers: s.opt.Workers, Labels: s.opt.Labels, LockService: s.opt.LockService, TTL: s.opt.SessionTTL,
	}
}

// load makes this replica's configuration the newest.
func (s *Scheduler) load(ctx context.Context) error {
	number, err := s.store.Load(ctx, s.session.Load().id, s.definitions())
	if err != nil {
		return err
	}
	s.config.Store(number)
	return nil
}

// keep beats until ctx is done. While the store is away it tries again half a second after each try; when
// peers declared the session dead it stops what they may start elsewhere, and joins again.
func (s *Scheduler) keep(ctx context.Context) {
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
func (s *Scheduler) beat(ctx context.Context, patience time.Duration) error {
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
		s.sessionDied(ses.id)
		if err := s.join(ctx); err != nil {
			return err
		}
		// With the number that it had: what comes back late is no newer for that.
		nudge(s.nudgeGovern)
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
	s.tell(s.register.attempts())
	ectx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s.extend(ectx)
	return nil
}
