package scheduler

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

const (
	watchEvery = time.Second
	watchCall  = 5 * time.Second // for one call; what takes longer must not take the time of the others
)

// watch looks after the others, each second or more often, until ctx is done: it declares those dead
// whose beat stands still. It asks nobody but the store, so that a lock service that hangs delays none of this.
func (s *member) watch(ctx context.Context) {
	pulses := pulses{}
	members := ""
	for pause(ctx, s.watchEvery(), s.nudgeWatch) {
		if peers := s.readPeers(ctx); peers != nil {
			s.expirePeers(ctx, pulses, peers)
			if now := membership(peers); now != members {
				s.on.changed()
				members = now
			}
		}
	}
}

func (s *member) watchEvery() time.Duration { return min(watchEvery, s.opt.SessionTTL/4) }

// readPeers reads who lives and takes part.
func (s *member) readPeers(ctx context.Context) []ledger.Peer {
	ctx, cancel := context.WithTimeout(ctx, watchCall)
	defer cancel()
	peers, err := s.store.Peers(ctx)
	if err != nil {
		s.storeFailed(err)
		return nil
	}
	var live []string
	for _, p := range peers {
		if !p.Dead && !p.Draining {
			live = append(live, p.Replica)
		}
		if p.Session == s.session.Load().id && s.health.isDraining() && !p.Draining {
			_ = s.store.SetDraining(ctx, p.Session) // the first time did not get through
		}
	}
	s.on.peers(live)
	return peers
}

// expirePeers declares those peers dead whose beat this replica saw unchanged for a session ttl, on its
// own clock, while it could read the store and all its own beats were taken: a store on a full disk
// answers, and nobody can beat. No wall clock decides who lives, and an outage of the store kills
// nobody.
func (s *member) expirePeers(ctx context.Context, pulses pulses, peers []ledger.Peer) {
	ctx, cancel := context.WithTimeout(ctx, watchCall)
	defer cancel()
	ses := s.session.Load()
	if ses.steady.IsZero() {
		clear(pulses)
		return
	}
	for _, p := range peers {
		if p.Dead || p.Session == ses.id {
			continue
		}
		silent, _ := pulses.feel(p, s.opt.SessionTTL/2)
		silent = min(silent, ses.steady.Elapsed())
		if silent < max(s.opt.SessionTTL, p.TTL) {
			continue
		}
		s.declareDead(ctx, p, silent)
	}
	pulses.forget(peers)
}

// declareDead ends the session of a peer that was silent for so long, unless it has beaten since, or
// somebody else was first.
func (s *member) declareDead(ctx context.Context, p ledger.Peer, silent time.Duration) {
	dead, err := s.store.Expire(ctx, p.Session, p.Beat)
	if err != nil {
		s.storeFailed(err)
		return
	}
	if !dead {
		return
	}
	s.expired.Add(1)
	s.on.dead()
	s.log.Warn("replica declared dead", "replica", p.Replica, "silent", silent.Round(time.Millisecond).String())
}

func membership(peers []ledger.Peer) string {
	var live []string
	for _, p := range peers {
		if !p.Dead {
			live = append(live, fmt.Sprintf("%s/%d", p.Session, p.Config))
		}
	}
	return strings.Join(live, " ")
}
