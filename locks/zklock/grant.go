package zklock

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

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
		case r.Err != nil:
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

// try takes one key if it is free.
func (s *session) try(key string, r record) (driver.Result, error) {
	for range 10 { // other clients may interfere; this does not wait for a holder
		done, err := s.conn.Multi(
			&zk.SetDataRequest{Path: s.names.lock(key), Version: -1},
			&zk.CreateRequest{Path: s.names.held(key), Data: r.bytes(), Acl: s.acl, Flags: zk.FlagEphemeral},
		)
		switch {
		case err == nil:
			return driver.Result{Token: driver.Token(done[0].Stat.Mzxid)}, nil
		case errors.Is(err, zk.ErrNoNode):
			if err := s.container(key); err != nil {
				return driver.Result{}, err
			}
		case errors.Is(err, zk.ErrNodeExists):
			data, stat, err := s.conn.Get(s.names.held(key))
			switch {
			case errors.Is(err, zk.ErrNoNode):
				continue // released since
			case errors.Is(err, zk.ErrSessionExpired):
				return driver.Result{}, err
			case err != nil:
				// It may be held by this session, from an earlier call: the error must not say that nothing was
				// granted.
				return driver.Result{}, fmt.Errorf("read the holder: %v", err) //nolint:errorlint // a sentinel would say that nothing was granted, which is not known
			}
			holder := parse(data)
			if stat.EphemeralOwner == s.id && holder.acquisition == r.acquisition {
				return driver.Result{Token: driver.Token(stat.Czxid)}, nil
			}
			info := holder.info(key, stat)
			return driver.Result{Holder: &info}, nil
		default:
			return driver.Result{}, err
		}
	}
	return driver.Result{}, fmt.Errorf("%s changes too often to read its holder", key)
}

func (s *session) container(key string) error {
	_, err := s.conn.CreateContainer(s.names.lock(key), nil, zk.FlagContainer, s.acl)
	if errors.Is(err, zk.ErrNoNode) {
		return s.parents() // the next round makes it
	}
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return err
}

// evict frees a key that any session holds under the token. A node of this session keeps the server from
// removing the idle container: the versions of a new one would begin again, and remove could delete another
// grant than the one that it has read.
func (s *session) evict(h driver.Held) (bool, error) {
	pin, err := s.conn.Create(s.names.lock(h.Key)+"/pin-", nil, zk.FlagEphemeral|zk.FlagSequence, s.acl)
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	freed, err := s.remove(h, 0)
	_ = s.conn.Delete(pin, -1) // else it ends with the session
	return freed, err
}

// remove frees a key that is held under the token, by session or, if that is 0, by any.
func (s *session) remove(h driver.Held, session int64) (bool, error) {
	for range 10 {
		// In this order: if held, when it is read, is the grant that is meant, and existed when the version was
		// read, then the version is that of the grant. If it did not exist yet, the check below fails.
		_, lock, err := s.conn.Exists(s.names.lock(h.Key))
		if err != nil {
			return false, err
		}
		_, held, err := s.conn.Exists(s.names.held(h.Key)) // a missing node has no token
		if err != nil {
			return false, err
		}
		if driver.Token(held.Czxid) != h.Token || session != 0 && held.EphemeralOwner != session {
			return false, nil
		}
		_, err = s.conn.Multi(
			&zk.CheckVersionRequest{Path: s.names.lock(h.Key), Version: lock.Version},
			&zk.DeleteRequest{Path: s.names.held(h.Key), Version: -1},
		)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, zk.ErrNoNode):
			return false, nil
		case !errors.Is(err, zk.ErrBadVersion):
			return false, err
		}
	}
	return false, fmt.Errorf("%s changes too often to free it", h.Key)
}
