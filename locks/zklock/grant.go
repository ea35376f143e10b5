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

// attempts is how often a request is made anew when other clients interfere. None of them waits for a holder.
const attempts = 10

// verdict is the error of a whole batch: nil if the outcome of any key is known.
func (s *session) verdict(results []driver.Result) error {
	var unreachable, unknown error
	known := len(results) == 0
	for _, r := range results {
		switch {
		case errors.Is(r.Err, driver.ErrSessionEnded):
			return r.Err
		case errors.Is(r.Err, driver.ErrUnreachable):
			unreachable = r.Err
		case r.Err != nil && !errors.Is(r.Err, driver.ErrAbandoned):
			unknown = r.Err
		default:
			known = true
		}
	}
	if known {
		return nil
	}
	return cmp.Or(unknown, unreachable)
}

// multi carries out all operations or none. failed is the first that cannot be carried out; -1 if none is known.
func (s *session) multi(ops ...any) (done []zk.MultiResponse, failed int, err error) {
	done, err = s.conn.Multi(ops...)
	if err != nil {
		return done, slices.IndexFunc(done, func(r zk.MultiResponse) bool { return r.Error != nil }), err
	}
	return done, -1, nil
}

// The operations that grant a key to one alone, and where they stand in unqueued.
const (
	makesQueue = iota
	removesQueue
	countsGrant
	makesHeld
	marksGrant
	perGrant // how many there are
)

// unqueued are the operations of a grant that fails if the key has a queue.
func (s *session) unqueued(h *holding) []any {
	queue := s.names.queue(h.Key)
	return append([]any{
		&zk.CreateRequest{Path: queue, Acl: s.acl},
		&zk.DeleteRequest{Path: queue, Version: -1},
	}, s.alone(h)...)
}

// alone are the operations of a grant that fails if one holds the key alone.
func (s *session) alone(h *holding) []any {
	return []any{
		&zk.SetDataRequest{Path: s.names.lock(h.Key), Version: -1},
		&zk.CreateRequest{Path: s.names.held(h.Key), Data: s.record(h), Acl: s.acl, Flags: zk.FlagEphemeral},
		&zk.CreateRequest{Path: s.names.mark(h.Key, h.id), Acl: s.acl, Flags: zk.FlagEphemeral},
	}
}

// unheld are operations that change nothing, and fail if one holds the key alone.
func (s *session) unheld(h *holding) []any {
	return []any{
		&zk.CreateRequest{Path: s.names.held(h.Key), Acl: s.acl, Flags: zk.FlagEphemeral},
		&zk.DeleteRequest{Path: s.names.held(h.Key), Version: -1},
	}
}

// try takes a key if it is free and nobody waits for it. If it is to wait, who has it does not matter: the result is empty.
func (s *session) try(h *holding, waits bool) (driver.Result, error) {
	queued := !h.kind.alone() || s.book.guess(h.Key)
	for range attempts {
		var r driver.Result
		var again bool
		var err error
		if queued {
			r, again, err = s.tryQueued(h, waits)
		} else {
			r, again, err = s.tryUnqueued(h)
			queued = again && err == nil && r.Queued
		}
		if err != nil || !again {
			return r, err
		}
	}
	return driver.Result{}, fmt.Errorf("%s changes too often to read its holder", h.Key)
}

// tryUnqueued is one attempt to take a key alone. If it says again and queued, the key has a queue.
func (s *session) tryUnqueued(h *holding) (r driver.Result, again bool, err error) {
	h.state = unsure
	done, failed, err := s.multi(s.unqueued(h)...)
	switch {
	case err == nil:
		stat := done[countsGrant].Stat
		return s.won(h, stat.Mzxid, stat.Version), false, nil
	case errors.Is(err, zk.ErrNodeExists) && failed == makesQueue:
		h.state = fresh
		s.book.queued(h.Key, true)
		return driver.Result{Queued: true}, true, nil
	case errors.Is(err, zk.ErrNodeExists):
		h.state = fresh
		return s.busy(h, s.names.held(h.Key), nil)
	case errors.Is(err, zk.ErrNoNode) && failed == makesQueue:
		h.state = fresh
		return r, true, s.parents()
	case errors.Is(err, zk.ErrNoNode):
		h.state = fresh
		return r, true, s.container(s.names.lock(h.Key))
	}
	return r, false, err
}

// busy reads who has a key. If nobody has it by now, it is to be tried again.
func (s *session) busy(h *holding, node string, m *member) (r driver.Result, again bool, err error) {
	data, stat, err := s.conn.Get(node)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return r, true, nil
	case errors.Is(err, zk.ErrSessionExpired):
		return r, false, err
	case err != nil:
		// It may be held by this session, from an earlier call: the error must not say that nothing was granted.
		return r, false, fmt.Errorf("read the holder: %v", err) //nolint:errorlint // a sentinel would say that nothing was granted, which is not known
	}
	info := parse(data).info(h.Key, stat)
	if m != nil {
		info = m.info(h.Key, data, stat)
	}
	return driver.Result{Holder: &info}, false, nil
}

// container makes the container of a key, or of its queue.
func (s *session) container(path string) error {
	_, err := s.conn.CreateContainer(path, nil, zk.FlagContainer, s.acl)
	if errors.Is(err, zk.ErrNoNode) {
		return s.parents() // the next round makes it
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// tryAll takes free keys that nobody waits for, each alone, with one request: all of them, or, if prefix says so, those before the
// first that is not free. It returns how many.
func (s *session) tryAll(hs []*holding, prefix bool) (granted int, err error) {
	for range attempts {
		if len(hs) == 0 {
			return 0, nil
		}
		var ops []any
		for _, h := range hs {
			h.state = unsure
			ops = append(ops, s.unqueued(h)...)
		}
		done, failed, err := s.multi(ops...)
		if err == nil {
			for i, h := range hs {
				stat := done[i*perGrant+countsGrant].Stat
				s.won(h, stat.Mzxid, stat.Version)
			}
			return len(hs), nil
		}
		if failed < 0 || !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNodeExists) {
			return 0, err
		}
		for _, h := range hs {
			h.state = fresh
		}
		switch at := failed / perGrant; {
		case errors.Is(err, zk.ErrNodeExists) && !prefix:
			return 0, nil
		case errors.Is(err, zk.ErrNodeExists):
			hs = hs[:at]
		case failed%perGrant == makesQueue:
			err = s.parents()
		default:
			err = errors.Join(calls.Each(len(hs)-at, inFlight, func(i int) error { return s.container(s.names.lock(hs[at+i].Key)) })...)
		}
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return 0, err
		}
	}
	return 0, nil // they are tried one by one
}
