package zklock

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// patience is how long a place pauses after an answer was lost.
const patience = 100 * time.Millisecond

// enqueues are the operations that take a place; the last one makes its node.
func (s *session) enqueues(h *holding) []any {
	queue := s.names.queue(h.Key)
	return []any{
		&zk.SetDataRequest{Path: queue, Version: -1}, // so that a try which has read the queue before fails
		&zk.CreateRequest{
			Path: queue + "/" + waits + h.kind.String() + "-" + h.id + "-", Data: s.record(h), Acl: s.acl,
			Flags: zk.FlagEphemeral | zk.FlagSequence,
		},
	}
}

// enqueue takes a place.
func (s *session) enqueue(h *holding) error {
	for range attempts {
		h.state = unsure
		done, failed, err := s.multi(s.enqueues(h)...)
		if err == nil {
			h.state, h.node = waiting, done[1].String
			return nil
		}
		if failed < 0 || !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		h.state = fresh
		if err := s.container(s.names.queue(h.Key)); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s changes too often to queue up", h.Key)
}

// look finds out whether the turn of a place has come, and takes the key if so. Else it waits for one node: the place before, a
// holder, or, where any holder may be the one that makes room, the list of the queue. A holding without its place is fresh again.
//
// While it is the first place nobody else is admitted, so what it has read of the holders can only become less. straight
// says that it was the first, and that who held the key alone is gone.
func (s *session) look(h *holding, straight bool) (driver.Result, error) {
	queue := s.names.queue(h.Key)
	all := false // watch the list
	for range attempts {
		if !straight {
			c, err := s.members(h, all)
			if err != nil {
				return driver.Result{}, err
			}
			at := slices.IndexFunc(c.places, func(m member) bool { return queue+"/"+m.name == h.node })
			if at < 0 {
				s.lost(h)
				return driver.Result{Err: driver.ErrNotQueued}, nil
			}
			h.next = ""
			if at+1 < len(c.places) {
				h.next = queue + "/" + c.places[at+1].name
			}
			before, waits := c.before(at)
			switch {
			case waits:
				_, there, err := s.follow(h, queue+"/"+before.name)
				if err != nil {
					return driver.Result{}, err
				}
				if there {
					return s.behind(h, c)
				}
				continue
			case !h.kind.joins(c.holders) && c.holders[0].kind == h.kind:
				if !all {
					all = true
					continue
				}
				return s.behind(h, c)
			case !h.kind.joins(c.holders):
				_, there, err := s.follow(h, queue+"/"+c.holders[0].name)
				if err != nil {
					return driver.Result{}, err
				}
				if there {
					return s.behind(h, c)
				}
				continue
			}
			// The place before was granted, most often: that is read, as a request to change something costs more.
			if holder, there, err := s.follow(h, s.names.held(h.Key)); err != nil || there {
				return driver.Result{Queued: true, Holder: holder}, err
			}
		}
		straight = false
		r, again, err := s.advance(h)
		if err != nil || !again {
			return r, err
		}
	}
	return driver.Result{}, fmt.Errorf("%s changes too often to wait for it", h.Key)
}

// members lists the queue, and waits for its next change if watched.
func (s *session) members(h *holding, watched bool) (members, error) {
	queue := s.names.queue(h.Key)
	if watched && (h.blocker != queue || h.watch == nil) {
		children, stat, watch, err := s.conn.ChildrenW(queue)
		if err == nil {
			s.watch(h, queue, watch)
			return membersOf(children, stat), nil
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return members{}, err
		}
		return members{}, nil
	}
	children, stat, err := s.conn.Children(queue)
	if err != nil {
		return members{}, gone(err)
	}
	return membersOf(children, stat), nil
}

// advance takes the key for the first place, unless one holds it alone.
func (s *session) advance(h *holding) (r driver.Result, again bool, err error) {
	queue := s.names.queue(h.Key)
	var ops []any
	if h.kind.alone() {
		ops = s.alone(h)
	} else {
		ops = append(s.unheld(h), s.joined(h), &zk.SetDataRequest{Path: queue, Version: -1})
	}
	ops = append(ops, &zk.DeleteRequest{Path: h.node, Version: -1})
	h.state = unsure
	done, failed, err := s.multi(ops...)
	if err == nil {
		stat := done[0].Stat
		if !h.kind.alone() {
			h.node, stat = s.joinedNode(h), done[3].Stat
		}
		r := s.won(h, stat.Mzxid, stat.Version)
		s.notify(driver.Grant{Place: h.Place, Token: r.Token})
		return r, false, nil
	}
	if failed < 0 {
		return r, false, err
	}
	h.state = waiting
	switch {
	case errors.Is(err, zk.ErrNodeExists):
		holder, there, err := s.follow(h, s.names.held(h.Key))
		if err != nil || !there {
			return r, !there, err
		}
		return driver.Result{Queued: true, Holder: holder}, false, nil
	case errors.Is(err, zk.ErrNoNode) && failed < len(ops)-2:
		return r, true, s.container(s.names.lock(h.Key))
	case errors.Is(err, zk.ErrNoNode): // the next look says that it has no place any more
		return r, true, nil
	}
	return r, false, err
}

// follow waits for the end of a node, and says who has it. It is false if the node is gone: look again. A watch on a
// node that is not there would stay for ever.
func (s *session) follow(h *holding, node string) (*driver.Info, bool, error) {
	var data []byte
	var stat *zk.Stat
	var err error
	if h.blocker == node && h.watch != nil {
		data, stat, err = s.conn.Get(node)
	} else {
		var watch <-chan zk.Event
		if data, stat, watch, err = s.conn.GetW(node); err == nil {
			s.watch(h, node, watch)
		}
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	info := parse(data).info(h.Key, stat)
	return &info, true, nil
}

// behind is the result of a place, with one that has the key.
func (s *session) behind(h *holding, c members) (driver.Result, error) {
	r, _, err := s.taken(h, c)
	return driver.Result{Queued: true, Holder: r.Holder}, err
}

// watch has the place look again when the node that it waits for has changed.
func (s *session) watch(h *holding, node string, changed <-chan zk.Event) {
	h.blocker, h.watch = node, changed
	s.calls.Go(func() {
		select {
		case <-changed:
			s.lookAgain(h, changed)
		case <-h.dropped:
		case <-s.over:
		}
	})
}

// lookAgain looks until there is an answer, unless another watch has taken over.
func (s *session) lookAgain(h *holding, changed <-chan zk.Event) {
	for fired := true; ; fired = false {
		h.mu.Lock()
		if h.isDropped() || h.state == held || h.state == fresh || h.watch != nil && h.watch != changed {
			h.mu.Unlock()
			return
		}
		straight := fired && h.blocker == s.names.held(h.Key) && h.state == waiting
		h.watch, h.blocker = nil, ""
		_, err := s.answer(h, straight)
		if h.state == fresh {
			s.drop(h)
		}
		h.mu.Unlock()
		if err == nil {
			return
		}
		if !s.pauses() {
			return
		}
	}
}

// pauses waits a moment after a failure; it is false once the session is over.
func (s *session) pauses() bool {
	select {
	case <-time.After(patience):
		return true
	case <-s.over:
		return false
	}
}

// answer says what a holding has, after requests without an answer too.
func (s *session) answer(h *holding, straight bool) (driver.Result, error) {
	if h.state == unsure {
		was := h.node
		if err := s.resolve(h); err != nil {
			return driver.Result{}, err
		}
		if h.state == held && was != "" { // its place was granted
			s.notify(driver.Grant{Place: h.Place, Token: h.token})
		}
	}
	switch h.state {
	case waiting:
		return s.look(h, straight)
	case held:
		return driver.Result{Token: h.token}, nil
	}
	return driver.Result{}, nil
}

// resolve finds out what became of requests without an answer. They were carried out by now or never will be: the session has
// one connection, and the servers take nothing from an earlier one.
func (s *session) resolve(h *holding) error {
	if err := s.sync(); err != nil {
		return err
	}
	queue := s.names.queue(h.Key)
	if h.kind.alone() {
		there, mark, err := s.conn.Exists(s.names.mark(h.Key, h.id))
		if err != nil {
			return err
		}
		_, lock, err := s.conn.Exists(s.names.lock(h.Key))
		if err != nil {
			return err
		}
		_, holder, err := s.conn.Exists(s.names.held(h.Key))
		if err != nil {
			return err
		}
		if there && holder.Czxid == mark.Czxid { // so the version, read before, counts no later grant
			s.won(h, mark.Czxid, lock.Version)
			return nil
		}
	}
	children, stat, err := s.conn.Children(queue)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	var c members
	if err == nil {
		c = membersOf(children, stat)
	}
	mine := func(m member) bool { return m.id == h.id }
	if i := slices.IndexFunc(c.holders, mine); i >= 0 {
		node := queue + "/" + c.holders[i].name
		there, stat, err := s.conn.Exists(node)
		if err != nil {
			return err
		}
		if there {
			h.node = node
			s.won(h, stat.Czxid, 0)
			return nil
		}
	}
	if i := slices.IndexFunc(c.places, mine); i >= 0 {
		h.state, h.node = waiting, queue+"/"+c.places[i].name
		return nil
	}
	if slices.Contains(c.others, pins+h.id) {
		_ = s.conn.Delete(queue+"/"+pins+h.id, -1)
	}
	s.lost(h)
	return nil
}
