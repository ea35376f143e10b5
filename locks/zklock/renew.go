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

// Renew is one write, since that is what a quorum must agree on. It compares the nodes of the sample in the same request.
func (s *session) Renew(ctx context.Context, sample []driver.Held) (bool, error) {
	asked := time.Now()
	if err := calls.Do(ctx, &s.calls, func() error { return s.renew(s.compares(sample)) }); err != nil {
		return false, s.failed("renew", err)
	}
	s.renewed(asked, s.ttl)
	return s.renewal.take(), nil
}

// compares are operations that change nothing, and fail if one of these holdings is gone. What this session does not know as held is
// noted as gone. One that a request is under way for, as its release, is left out.
func (s *session) compares(sample []driver.Held) (ops []any) {
	for _, held := range sample {
		s.book.mu.Lock()
		h := s.book.held[held]
		s.book.mu.Unlock()
		switch {
		case h == nil:
			s.renewal.note()
		case h.mu.TryLock():
			if !h.isDropped() {
				ops = append(ops, s.same(h)...)
			}
			h.mu.Unlock()
		}
	}
	return ops
}

// same are operations that fail if the node of a holding is gone, or is another one's by now.
func (s *session) same(h *holding) []any {
	if !h.kind.alone() {
		return []any{&zk.CheckVersionRequest{Path: h.node, Version: -1}} // its name is unique
	}
	return []any{
		&zk.CheckVersionRequest{Path: s.names.lock(h.Key), Version: h.version}, // each grant changes it
		&zk.CheckVersionRequest{Path: s.names.held(h.Key), Version: -1},
	}
}

// renew writes the session's node, and compares. What it then knows of evictions stays until a renewal has said so to its caller.
func (s *session) renew(compares []any) error {
	node, r := s.names.session(s.ID()), &s.renewal
	r.mu.Lock()
	defer r.mu.Unlock()
	stat, failed, err := s.write(node, r.version, compares)
	if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) {
		r.evicted = true
		if failed == 0 && errors.Is(err, zk.ErrNoNode) { // deleted by hand; the session does not depend on it
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

// write writes a node of a version, and fails if one of the comparisons does: failed is 0 if it is the node itself.
func (s *session) write(node string, version int32, compares []any) (_ *zk.Stat, failed int, err error) {
	if len(compares) == 0 {
		stat, err := s.conn.Set(node, []byte(s.owner), version)
		return stat, 0, err
	}
	done, failed, err := s.multi(append([]any{&zk.SetDataRequest{Path: node, Data: []byte(s.owner), Version: version}}, compares...)...)
	if err != nil {
		return nil, failed, err
	}
	return done[0].Stat, failed, nil
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
