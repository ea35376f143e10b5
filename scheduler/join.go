package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// join takes a new session and makes its first beat. Where somebody is in the way, it waits until
// that one is seen to live, which is an error, or to have been silent for a session ttl. What it could
// not finish the next call goes on with, so that no replica is in its own way.
func (s *member) join(ctx context.Context) error {
	if s.joined == "" {
		id, err := s.tryJoin(ctx)
		if errors.Is(err, ledger.ErrReplicaLive) && s.expireGhost(ctx) {
			id, err = s.tryJoin(ctx)
		}
		if refused(err) {
			id, err = s.outlive(ctx, err)
		}
		if err != nil {
			return err // the store's, which says so
		}
		s.joined = id
	}
	id := s.joined
	bctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	asked, since := boottime.Now(), s.moment()
	database, err := s.store.Beat(bctx, id)
	if err == nil || errors.Is(err, ledger.ErrSessionDead) {
		s.joined = ""
	}
	if err != nil {
		return fmt.Errorf("first beat: %w", err)
	}
	s.clock.observe(asked, database)
	s.session.Store(&session{id, since.Add(s.trustFor()), asked})
	s.health.storeUp()
	return nil
}

// joinTimeout bounds one call: with two of them, a store that does not answer is an error within 10 s.
const joinTimeout = 4 * time.Second

func (s *member) tryJoin(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	return s.store.Join(ctx, s.describe())
}

func refused(err error) bool {
	return errors.Is(err, ledger.ErrReplicaLive) || errors.Is(err, ledger.ErrLockService)
}

// outlive watches the sessions that this replica cannot join beside, and expires those that do not
// beat for a session ttl: after a power cut nobody else may be there to do it. It gives up with the
// refusal as soon as one of them beats. A predecessor on this machine may be gone sooner, once what
// it ran has been stopped, so it tries to join all the time.
func (s *member) outlive(ctx context.Context, refusal error) (session string, err error) {
	pulses := pulses{}
	for pause(ctx, s.opt.SessionTTL/20, nil) {
		if session, err := s.tryJoin(ctx); !refused(err) {
			return session, err
		}
		peers, err := s.store.Peers(ctx)
		if err != nil {
			return "", err
		}
		for _, p := range peers {
			if p.Dead || p.Replica != s.opt.ID && p.LockService == s.opt.LockService {
				continue
			}
			silent, beaten := pulses.feel(p, s.opt.SessionTTL/2)
			if beaten {
				return "", refusal
			}
			if silent >= max(s.opt.SessionTTL, p.TTL) {
				s.declareDead(ctx, p, silent) // if it was not, the next look tells why
			}
		}
	}
	return "", refusal
}

// expireGhost declares a session of this very process dead that has never beaten, and reports whether
// there was one: it was joined, and the answer was lost.
func (s *member) expireGhost(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	peers, err := s.store.Peers(ctx)
	if err != nil {
		return false
	}
	self := s.describe()
	for _, p := range peers {
		same := p.Replica == self.Replica && p.Host == self.Host && p.BootID == self.BootID && p.PID == self.PID && p.PIDStart == self.PIDStart
		if same && !p.Dead && p.Beat == 0 {
			dead, err := s.store.Expire(ctx, p.Session, 0)
			return dead && err == nil
		}
	}
	return false
}
