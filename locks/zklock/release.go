package zklock

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// release frees what a holding has, with one request that can free nothing else: the nodes of a grant have names of their
// own. That of one that holds the key alone has not, but its mark keeps the container, whose version counts the grants.
func (s *session) release(h *holding) error {
	if !h.kind.alone() {
		return gone(s.conn.Delete(h.node, -1))
	}
	mark := s.names.mark(h.Key, h.id)
	_, failed, err := s.multi(s.frees(h)...)
	if failed < 0 || !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrBadVersion) {
		return err
	}
	// It was evicted, or somebody has changed the nodes by hand.
	if _, err := s.remove(driver.Held{Key: h.Key, Token: h.token}, s.id); err != nil {
		return err
	}
	return gone(s.conn.Delete(mark, -1))
}

// releaseAll frees what is held: with one request, and if something is not held any more, one by one.
func (s *session) releaseAll(held []driver.Held) error {
	return errors.Join(calls.Each((len(held)+together-1)/together, inFlight/together+1, func(i int) error {
		some := held[i*together : min((i+1)*together, len(held))]
		if len(some) > 1 && s.releaseWhole(some) {
			return nil
		}
		return errors.Join(calls.Each(len(some), inFlight, func(i int) error {
			h := s.findHeld(some[i])
			if h == nil {
				return nil
			}
			defer h.mu.Unlock()
			err := s.release(h)
			if err == nil {
				s.drop(h)
			}
			return err
		})...)
	})...)
}

// releaseWhole is true if it has freed all with one request.
func (s *session) releaseWhole(held []driver.Held) bool {
	var ops []any
	var hs []*holding
	defer func() {
		for _, h := range hs {
			h.mu.Unlock()
		}
	}()
	for _, of := range slices.Compact(slices.SortedFunc(slices.Values(held), func(a, b driver.Held) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Token, b.Token))
	})) {
		h := s.findHeld(of)
		if h == nil {
			continue
		}
		hs = append(hs, h)
		if h.kind.alone() {
			ops = append(ops, s.frees(h)...)
		} else {
			ops = append(ops, &zk.DeleteRequest{Path: h.node, Version: -1})
		}
	}
	if len(hs) > 0 {
		if _, _, err := s.multi(ops...); err != nil {
			return false
		}
	}
	for _, h := range hs {
		s.drop(h)
	}
	return true
}

// frees are the operations that free a key which is held alone.
func (s *session) frees(h *holding) []any {
	return []any{
		&zk.DeleteRequest{Path: s.names.mark(h.Key, h.id), Version: -1},
		&zk.CheckVersionRequest{Path: s.names.lock(h.Key), Version: h.version},
		&zk.DeleteRequest{Path: s.names.held(h.Key), Version: -1},
	}
}

// gone takes a node that is not there as deleted.
func gone(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// evict frees a key that any session holds under the token.
func (s *session) evict(h driver.Held) (bool, error) {
	if freed, err := s.remove(h, 0); freed || err != nil {
		return freed, err
	}
	queue := s.names.queue(h.Key)
	children, stat, err := s.conn.Children(queue)
	if err != nil {
		return false, gone(err)
	}
	for _, m := range membersOf(children, stat).holders {
		node := queue + "/" + m.name
		there, stat, err := s.conn.Exists(node)
		if err != nil {
			return false, err
		}
		if there && driver.Token(stat.Czxid) == h.Token {
			return s.dispossess(m.session(), &zk.DeleteRequest{Path: node, Version: -1})
		}
	}
	return false, nil
}

// remove frees a key that is held alone under the token, by session or, if that is 0, by any. A node of this session keeps
// the server from removing the idle container: the versions of a new one would begin again, and it could delete another
// grant than the one that it has read.
func (s *session) remove(h driver.Held, session int64) (bool, error) {
	pin, err := s.conn.Create(s.names.lock(h.Key)+"/pin-", nil, zk.FlagEphemeral|zk.FlagSequence, s.acl)
	if err != nil {
		return false, gone(err)
	}
	defer func() { _ = s.conn.Delete(pin, -1) }() // else it ends with the session
	for range attempts {
		// In this order: if held, when it is read, is the grant that is meant, and existed when the version was
		// read, then the version is that of the grant. If it did not exist yet, the check below fails.
		_, lock, err := s.conn.Exists(s.names.lock(h.Key))
		if err != nil {
			return false, err
		}
		data, held, err := s.conn.Get(s.names.held(h.Key))
		if err != nil {
			return false, gone(err)
		}
		if driver.Token(held.Czxid) != h.Token || session != 0 && held.EphemeralOwner != session {
			return false, nil
		}
		ops := []any{
			&zk.CheckVersionRequest{Path: s.names.lock(h.Key), Version: lock.Version},
			&zk.DeleteRequest{Path: s.names.held(h.Key), Version: -1},
		}
		if there, mark, err := s.conn.Exists(s.names.mark(h.Key, nameIn(parse(data).id))); err != nil {
			return false, err
		} else if there && mark.EphemeralOwner == held.EphemeralOwner && mark.Czxid == held.Czxid {
			ops = append(ops, &zk.DeleteRequest{Path: s.names.mark(h.Key, parse(data).id), Version: -1})
		}
		freed, err := s.dispossess(sessionID(held.EphemeralOwner), ops...)
		if !errors.Is(err, zk.ErrBadVersion) {
			return freed, err
		}
	}
	return false, fmt.Errorf("%s changes too often to free it", h.Key)
}

// nameIn is the name of a node that somebody wrote into another one; if it cannot be one, that of no node.
func nameIn(id string) string {
	if escape(id) != id || id == "held" {
		return "none"
	}
	return id
}

// dispossess takes something away from a session, and changes its node: so its next renewal says that something is gone.
func (s *session) dispossess(victim string, ops ...any) (bool, error) {
	told := append(ops[:len(ops):len(ops)], &zk.SetDataRequest{Path: s.names.session(victim), Version: -1})
	_, failed, err := s.multi(told...)
	if failed == len(ops) && errors.Is(err, zk.ErrNoNode) { // its node was deleted by hand, which its renewal says too
		_, _, err = s.multi(ops...)
	}
	return err == nil, gone(err)
}
