package zklock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// listing is the rest of a list: the keys behind its last page, in order.
type listing struct {
	prefix, after string
	keys          []string
	found         map[string]nodes
}

// nodes says which nodes a key had when the names were read: one per read that is needed.
type nodes struct{ held, queue bool }

// List reads the names of all keys of the namespace, as ZooKeeper has no lists of a part, and then the keys of the page. The page behind
// that goes on with the same names, unless another list was read meanwhile.
func (s *session) List(ctx context.Context, prefix, after string, limit int) ([]driver.Info, error) {
	infos, err := calls.Await(ctx, &s.calls, func() (infos []driver.Info, err error) {
		l := s.listing.Swap(nil)
		if l == nil || after == "" || l.prefix != prefix || l.after != after {
			if l, err = s.list(prefix, after); err != nil {
				return nil, err
			}
		}
		if infos, err = s.page(l, limit); err == nil && len(l.keys) > 0 {
			s.listing.Store(l)
		}
		return infos, err
	})
	return infos, s.failed("list", err)
}

// list reads the names of keys.
func (s *session) list(prefix, after string) (*listing, error) {
	if err := s.sync(); err != nil {
		return nil, err
	}
	l := &listing{prefix: prefix, after: after, found: map[string]nodes{}}
	for _, parent := range []string{s.names.locks, s.names.queues} {
		children, _, err := s.conn.Children(parent)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return nil, err
		}
		for _, name := range children {
			if key, ok := unescape(name); ok && strings.HasPrefix(key, prefix) && key > after {
				n := l.found[key]
				if n == (nodes{}) {
					l.keys = append(l.keys, key)
				}
				n.held, n.queue = n.held || parent == s.names.locks, n.queue || parent == s.names.queues
				l.found[key] = n
			}
		}
	}
	slices.Sort(l.keys)
	return l, nil
}

// page reads who has the first of the keys that anybody has, at most limit of them, and leaves the keys behind these.
func (s *session) page(l *listing, limit int) ([]driver.Info, error) {
	var infos []driver.Info
	for len(l.keys) > 0 && limit > 0 {
		chunk := l.keys[:min(max(limit, inFlight), len(l.keys))]
		found := make([][]driver.Info, len(chunk))
		errs := calls.Each(len(chunk), inFlight, func(i int) (err error) {
			found[i], err = s.infos(chunk[i], l.found[chunk[i]])
			return err
		})
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		for i, of := range found {
			if limit == 0 {
				break
			}
			if l.after, l.keys = chunk[i], l.keys[1:]; len(of) > 0 {
				infos = append(infos, of...)
				limit--
			}
		}
	}
	return infos, nil
}

// infos reads who has a key: its holders in the order of their tokens, then those that wait.
func (s *session) infos(key string, n nodes) ([]driver.Info, error) {
	var holders, waiters []driver.Info
	if n.held {
		data, stat, err := s.conn.Get(s.names.held(key))
		if err == nil {
			holders = append(holders, parse(data).info(key, stat))
		} else if !errors.Is(err, zk.ErrNoNode) {
			return nil, err
		}
	}
	if !n.queue {
		return holders, nil
	}
	queue := s.names.queue(key)
	children, stat, err := s.conn.Children(queue)
	if err != nil {
		return holders, gone(err)
	}
	c := membersOf(children, stat)
	for _, m := range slices.Concat(c.holders, c.places) {
		data, stat, err := s.conn.Get(queue + "/" + m.name)
		if errors.Is(err, zk.ErrNoNode) {
			continue // it is gone
		}
		if err != nil {
			return nil, err
		}
		info := m.info(key, data, stat)
		if m.number == "" {
			holders = append(holders, info)
		} else {
			info.Place = len(waiters) + 1
			waiters = append(waiters, info)
		}
	}
	slices.SortFunc(holders, func(a, b driver.Info) int { return cmp.Compare(a.Token, b.Token) })
	return append(holders, waiters...), nil
}
