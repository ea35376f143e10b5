package membership

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

const (
	watchEvery = time.Second
	watchCall  = 5 * time.Second // for one call; one slow call must not take the time of the others
)

// Watch watches the sessions of the peers, until ctx is done.
//
//  1. wait a second or less, or until woken
//  2. read the peers, and pass on which replicas are live (Hooks.Peers)
//  3. expire each session whose heartbeat has not changed for its ttl, those of workers, too
//  4. if the peers or their configurations have changed, say so (Hooks.Changed)
//
// It asks the store only, so that a lock service that hangs delays none of this.
func (m *Member) Watch(ctx context.Context) {
	seen := heartbeats{}
	members := ""
	for wake.Wait(ctx, m.WatchEvery(), m.lookNow) {
		if peers := m.ReadPeers(ctx); peers != nil {
			m.expirePeers(ctx, seen, peers)
			if now := present(peers); now != members {
				m.on.Changed()
				members = now
			}
		}
	}
}

// ReadPeers reads which replicas are live and take part.
func (m *Member) ReadPeers(ctx context.Context) []ledger.Peer {
	ctx, cancel := context.WithTimeout(ctx, watchCall)
	defer cancel()
	peers, err := m.store.Peers(ctx)
	if err != nil {
		m.StoreFailed(err)
		return nil
	}
	var live []string
	others := 0
	replicas, workers := ledger.Replicas(peers)
	m.workers.Store(int64(workers))
	m.replicas.Store(&replicas)
	for _, p := range replicas {
		if !p.Dead && !p.Draining {
			live = append(live, p.Replica)
			if p.Session != m.Session().ID {
				others++
			}
		}
		if p.Session == m.Session().ID && m.Draining() && !p.Draining {
			_ = m.store.SetDraining(ctx, p.Session) // the first call failed
		}
	}
	m.others.Store(int64(others))
	m.on.Peers(live)
	return peers
}

// expirePeers expires the sessions of peers whose heartbeat this replica saw unchanged for a session ttl, on its own clock,
// while it could read the store and all its own heartbeats were acknowledged: a store on a full disk answers reads, and
// takes no heartbeats. No wall clock decides which session expires, and an outage of the store expires none.
func (m *Member) expirePeers(ctx context.Context, seen heartbeats, peers []ledger.Peer) {
	ctx, cancel := context.WithTimeout(ctx, watchCall)
	defer cancel()
	ses := m.session.Load()
	if ses.steady.IsZero() {
		clear(seen)
		return
	}
	for _, p := range peers {
		if p.Dead || p.Session == ses.ID {
			continue
		}
		silent, _ := seen.note(p, m.opt.SessionTTL/2)
		silent = min(silent, ses.steady.Elapsed())
		if silent < max(m.opt.SessionTTL, p.TTL) {
			continue
		}
		m.expire(ctx, p, silent)
	}
	seen.forget(peers)
}

// expire ends the session of a peer that was silent for so long, unless a heartbeat came since, or
// another replica has ended it.
func (m *Member) expire(ctx context.Context, p ledger.Peer, silent time.Duration) {
	dead, err := m.store.Expire(ctx, p.Session, p.Beat)
	if err != nil {
		m.StoreFailed(err)
		return
	}
	if !dead {
		return
	}
	m.on.Expired()
	if p.IsWorker() {
		m.log.Warn("a worker's session expired; its tasks are reaped", "worker", p.Replica, "pool", p.Pool, "silent", silent.Round(time.Millisecond).String())
		return
	}
	m.expired.Add(1)
	m.log.Warn("a replica's session expired; its tasks are reaped", "replica", p.Replica, "silent", silent.Round(time.Millisecond).String())
}

func present(peers []ledger.Peer) string {
	var live []string
	for _, p := range peers {
		if !p.Dead && !p.IsWorker() {
			live = append(live, fmt.Sprintf("%s/%d/%s", p.Session, p.Config, p.Differs))
		}
	}
	return strings.Join(live, " ")
}
