package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// Join takes a new session and sends its first heartbeat.
//
//  1. ask the store for a session
//  2. if a session of this process that has never had a heartbeat is in the way, expire it and ask again: its answer was lost
//  3. if another session is in the way, wait until it sends a heartbeat, which is an error, or has sent none for a session ttl
//  4. send the first heartbeat; from its answer on the session is trusted
//
// A later call continues what an earlier call could not finish, so a replica is never in its own way.
func (m *Member) Join(ctx context.Context) error {
	if m.joined == "" {
		id, err := m.tryJoin(ctx)
		if errors.Is(err, ledger.ErrReplicaLive) && m.expireOwn(ctx) {
			id, err = m.tryJoin(ctx)
		}
		if refused(err) {
			id, err = m.outlive(ctx, err)
		}
		if err != nil {
			return err // the error of the store says that it does not answer
		}
		m.joined = id
	}
	id := m.joined
	bctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	asked, since := boottime.Now(), m.moment()
	database, err := m.store.Beat(bctx, id)
	if err == nil || errors.Is(err, ledger.ErrSessionDead) {
		m.joined = ""
	}
	if err != nil {
		return fmt.Errorf("first heartbeat: %w", err)
	}
	m.clock.Observe(asked, database)
	m.session.Store(&Session{id, since.Add(m.trustFor()), asked})
	m.health.storeUp()
	return nil
}

// joinTimeout bounds one call: Join makes two of them, so a store that does not answer is an error within 10 s.
const joinTimeout = 4 * time.Second

func (m *Member) tryJoin(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	return m.store.Join(ctx, m.describe())
}

func refused(err error) bool {
	return errors.Is(err, ledger.ErrReplicaLive) || errors.Is(err, ledger.ErrLockService)
}

// outlive watches the sessions that keep this replica from joining, and expires the silent ones itself: after a power cut
// no other replica may be left to do so. It returns the refusal as soon as one of them sends a heartbeat. A predecessor on
// this machine may end sooner, once what it ran has been stopped, so outlive tries to join all the time.
func (m *Member) outlive(ctx context.Context, refusal error) (session string, err error) {
	seen := heartbeats{}
	for wake.Wait(ctx, m.opt.SessionTTL/20, nil) {
		if session, err := m.tryJoin(ctx); !refused(err) {
			return session, err
		}
		peers, err := m.store.Peers(ctx)
		if err != nil {
			return "", err
		}
		for _, p := range peers {
			if p.Dead || p.IsWorker() || p.Replica != m.opt.ID && p.LockService == m.opt.LockService {
				continue
			}
			silent, beaten := seen.note(p, m.opt.SessionTTL/2)
			if beaten {
				return "", refusal
			}
			if silent >= max(m.opt.SessionTTL, p.TTL) {
				m.expire(ctx, p, silent) // if it did not expire, the next look says why
			}
		}
	}
	return "", refusal
}

// expireOwn expires a session of this very process that has never had a heartbeat, and reports whether
// there was one: Join made it, and the answer was lost.
func (m *Member) expireOwn(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	peers, err := m.store.Peers(ctx)
	if err != nil {
		return false
	}
	self := m.describe()
	for _, p := range peers {
		same := p.Replica == self.Replica && p.Host == self.Host && p.BootID == self.BootID && p.PID == self.PID && p.PIDStart == self.PIDStart
		if same && !p.Dead && p.Beat == 0 {
			dead, err := m.store.Expire(ctx, p.Session, 0)
			return dead && err == nil
		}
	}
	return false
}
