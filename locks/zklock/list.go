package zklock

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// List reads the names of all keys of the namespace, as ZooKeeper has no lists of a part, and then the keys of the page.
func (s *session) List(ctx context.Context, prefix, after string, limit int) ([]driver.Info, error) {
	infos, err := calls.Await(ctx, &s.calls, func() ([]driver.Info, error) {
		if err := s.sync(); err != nil {
			return nil, err
		}
		queued := map[string]bool{}
		keys := map[string]bool{}
		for _, parent := range []string{s.names.locks, s.names.queues} {
			children, _, err := s.conn.Children(parent)
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return nil, err
			}
			for _, name := range children {
				if key, ok := unescape(name); ok && strings.HasPrefix(key, prefix) && key > after {
					keys[key] = true
					queued[key] = parent == s.names.queues
				}
			}
		}
		return s.page(slices.Sorted(maps.Keys(keys)), queued, limit)
	})
	return infos, s.failed("list", err)
}

// page reads who has the first of these keys that anybody has, at most limit of them.
func (s *session) page(keys []string, queued map[string]bool, limit int) ([]driver.Info, error) {
	var infos []driver.Info
	for chunk := range slices.Chunk(keys, max(limit, inFlight)) {
		found := make([][]driver.Info, len(chunk))
		errs := calls.Each(len(chunk), inFlight, func(i int) (err error) {
			found[i], err = s.infos(chunk[i], queued[chunk[i]])
			return err
		})
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		for _, of := range found {
			if len(of) > 0 && limit > 0 {
				infos = append(infos, of...)
				limit--
			}
		}
		if limit == 0 {
			break
		}
	}
	return infos, nil
}

// infos reads who has a key: its holders in the order of their tokens, then those that wait.
func (s *session) infos(key string, queued bool) ([]driver.Info, error) {
	var holders, waiters []driver.Info
	data, stat, err := s.conn.Get(s.names.held(key))
	if err == nil {
		holders = append(holders, parse(data).info(key, stat))
	} else if !errors.Is(err, zk.ErrNoNode) {
		return nil, err
	}
	if !queued {
		return holders, nil
	}
	queue := s.names.queue(key)
	children, stat, err := s.conn.Children(queue)
	if err != nil {
		return holders, gone(err)
	}
	c := crowdOf(children, stat)
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
