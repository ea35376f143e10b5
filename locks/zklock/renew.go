package zklock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// renewal is what a session knows of its own node. Whoever evicts one of its keys changes the node in the same transaction,
// so a version that the session has not made says that a key is gone.
type renewal struct {
	mu      sync.Mutex
	version int32
	evicted bool // a key may be gone, and no answer has said so yet
}

// enter makes the session's own node, and the parents of all.
func (s *session) enter() error {
	node := s.names.session(s.ID())
	_, err := s.conn.Create(node, []byte(s.owner), zk.FlagEphemeral, s.acl)
	if errors.Is(err, zk.ErrNoNode) {
		if err = s.parents(); err != nil {
			return err
		}
		_, err = s.conn.Create(node, []byte(s.owner), zk.FlagEphemeral, s.acl)
	}
	if errors.Is(err, zk.ErrNodeExists) { // an earlier answer was lost
		return nil
	}
	return err
}

// Renew is a write, since that is what a quorum must agree on. The sample is read behind it, without waiting in between.
func (s *session) Renew(ctx context.Context, sample []driver.Held) (bool, error) {
	asked := time.Now()
	err := calls.Do(ctx, &s.calls, func() error {
		var still []bool
		errs := calls.Each(2, 2, func(i int) (err error) {
			if i == 0 {
				return s.renew()
			}
			still, err = s.check(sample)
			return err
		})
		for _, there := range still {
			if !there && errs[1] == nil {
				s.renewal.note()
			}
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return false, s.failed("renew", err)
	}
	s.renewed(asked, s.ttl)
	return s.renewal.take(), nil
}

// renew writes the session's node. What it then knows of evictions stays until a renewal has said so to its caller.
func (s *session) renew() error {
	node, r := s.names.session(s.ID()), &s.renewal
	r.mu.Lock()
	defer r.mu.Unlock()
	stat, err := s.conn.Set(node, []byte(s.owner), r.version)
	if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) {
		r.evicted = true
		if errors.Is(err, zk.ErrNoNode) { // deleted by hand; the session does not depend on it
			if err := s.enter(); err != nil {
				return err
			}
		}
		stat, err = s.conn.Set(node, []byte(s.owner), -1)
	}
	if err == nil {
		r.version = stat.Version
	}
	return err
}

func (r *renewal) note() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.evicted = true
}

// take returns whether a key may be gone, once.
func (r *renewal) take() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.evicted
	r.evicted = false
	return was
}
