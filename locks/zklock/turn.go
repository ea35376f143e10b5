package zklock

import (
	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// turn gives a key back and takes a place behind the others that wait for it, with one request. It is false if it did
// nothing, as where it is not known that somebody waits: then the key may be free afterwards, and is to be granted at once.
func (s *session) turn(acquisition string, release []driver.Held, wants []driver.Want) (r driver.Result, done bool, err error) {
	if len(release) != 1 || len(wants) != 1 || release[0].Key != wants[0].Key {
		return r, false, nil
	}
	old := s.findHeld(release[0])
	if old == nil {
		return r, false, nil
	}
	defer old.mu.Unlock()
	if !old.kind.alone() || old.next == "" || old.Acquisition == acquisition {
		return r, false, nil
	}
	h, err := s.claim(acquisition, wants[0])
	if err != nil { // it was abandoned, which is said once the key is given back
		return r, false, nil
	}
	defer h.mu.Unlock()
	if h.state != fresh {
		return r, false, nil
	}
	h.state = unsure
	ops := append(s.frees(old), &zk.CheckVersionRequest{Path: old.next, Version: -1})
	made, failed, err := s.multi(append(ops, s.enqueues(h)...)...)
	if err != nil {
		if failed >= 0 {
			h.state, err = fresh, nil
			s.drop(h)
		}
		return r, false, err
	}
	h.state, h.node = waiting, made[len(made)-1].String
	s.drop(old)
	r, err = s.queued(h)
	return r, true, err
}
