package zklock

import (
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// tryQueued is one attempt to take a key that has a queue, or that others may hold too.
//
// What a list of the queue says holds until its version has changed, if the container stays: a node that has a name for ever keeps
// it, that of a holder beside which the key is taken, or a pin.
func (s *session) tryQueued(h *holding, waits bool) (r driver.Result, again bool, err error) {
	queue := s.names.queue(h.Key)
	pin := queue + "/" + pins + h.id
	pinned, current := false, false
	defer func() {
		if pinned {
			_ = s.conn.Delete(pin, -1) // else it ends with the session
		}
	}()
	for range attempts {
		children, stat, err := s.conn.Children(queue)
		if errors.Is(err, zk.ErrNoNode) {
			if h.kind.alone() {
				s.book.queued(h.Key, false)
				return s.tryUnqueued(h)
			}
			if err := s.container(queue); err != nil {
				return r, false, err
			}
			continue
		}
		if err != nil {
			return r, false, err
		}
		c := membersOf(children, stat)
		if len(c.places) > 0 || !h.kind.joins(c.holders) {
			if waits {
				return r, false, nil
			}
			if !current { // this server may be behind: the key may have been released before this call
				if err := s.sync(); err != nil {
					return r, false, err
				}
				current = true
				continue
			}
			if r, again, err = s.taken(h, c); err != nil || !again {
				return r, false, err
			}
			continue
		}
		keeps, there := s.keeps(h, c)
		if !there {
			if _, err := s.conn.Create(pin, nil, zk.FlagEphemeral, s.acl); err != nil && !errors.Is(err, zk.ErrNoNode) {
				return r, false, err
			}
			pinned = true
			continue
		}
		if r, again, err = s.admit(h, keeps); err != nil || !again {
			if r.Token > 0 && len(c.holders) == 0 {
				pinned = false // it is gone
			}
			return r, false, err
		}
	}
	return r, true, nil
}

// keeps are the operations that fail if the queue is not as it was read. Where nobody is in it, and the key is to be held alone, it is
// deleted: then the next try needs one request. It is false if the key needs a pin.
func (s *session) keeps(h *holding, c members) ([]any, bool) {
	queue := s.names.queue(h.Key)
	pin := pins + h.id
	same := &zk.SetDataRequest{Path: queue, Version: c.version}
	empties, unpins := &zk.DeleteRequest{Path: queue, Version: -1}, &zk.DeleteRequest{Path: queue + "/" + pin, Version: -1}
	switch {
	case len(c.holders) > 0:
		return []any{&zk.CheckVersionRequest{Path: queue + "/" + c.holders[0].name, Version: -1}, same}, true
	case h.kind.alone() && len(c.others) == 0:
		s.book.queued(h.Key, false)
		return []any{empties}, true
	case !slices.Contains(c.others, pin):
		return nil, false
	case h.kind.alone() && len(c.others) == 1:
		return []any{unpins, empties}, true
	}
	return []any{unpins, same}, true
}

// admit takes a key that has a queue in which nobody waits, if the operations that keep it as it was read succeed.
func (s *session) admit(h *holding, keeps []any) (r driver.Result, again bool, err error) {
	at := len(keeps)
	ops := append(keeps, s.alone(h)...)
	if !h.kind.alone() {
		ops = append(append(keeps, s.unheld(h)...), s.joined(h))
	}
	h.state = unsure
	done, failed, err := s.multi(ops...)
	switch {
	case err == nil && h.kind.alone():
		return s.won(h, done[at].Stat.Mzxid, done[at].Stat.Version), false, nil
	case err == nil:
		h.node = s.joinedNode(h)
		return s.won(h, done[at-1].Stat.Mzxid, 0), false, nil
	case failed >= at && errors.Is(err, zk.ErrNodeExists):
		h.state = fresh
		return s.busy(h, s.names.held(h.Key), nil)
	case failed >= at && errors.Is(err, zk.ErrNoNode):
		h.state = fresh
		return r, true, s.container(s.names.lock(h.Key))
	case failed >= 0 && (errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNotEmpty)):
		h.state = fresh
		return r, true, nil
	}
	return r, false, err
}

// joined is the operation that makes the node of a holder beside which others may hold the key.
func (s *session) joined(h *holding) *zk.CreateRequest {
	return &zk.CreateRequest{Path: s.joinedNode(h), Data: s.record(h), Acl: s.acl, Flags: zk.FlagEphemeral}
}

func (s *session) joinedNode(h *holding) string {
	return s.names.queue(h.Key) + "/" + holds + h.kind.String() + "-" + h.id
}

// taken says who has a key: one that holds it, or, while it is being handed over, the first that waits.
func (s *session) taken(h *holding, c members) (r driver.Result, again bool, err error) {
	if len(c.holders) > 0 {
		m := c.holders[0]
		return s.busy(h, s.names.queue(h.Key)+"/"+m.name, &m)
	}
	r, again, err = s.busy(h, s.names.held(h.Key), nil)
	if again && err == nil {
		m := c.places[0]
		r, again, err = s.busy(h, s.names.queue(h.Key)+"/"+m.name, &m)
		if r.Holder != nil {
			r.Holder.Place = 1
		}
	}
	return r, again, err
}
