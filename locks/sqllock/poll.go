package sqllock

import (
	"context"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

const (
	// A session that waits for a key looks again after a pause, which grows by half each time. If it is the next one, the pause
	// begins at firstPause and ends at nextPause; else it begins at nextPause and ends at laterPause, since others come before.
	// Where the holders are sessions of this process, these tell it, and it does not look: Look finds what got lost. Where the
	// database shows that it was written, the pause begins anew with each write, and ends at quietPause.
	firstPause = time.Millisecond
	nextPause  = 12 * time.Millisecond
	laterPause = 100 * time.Millisecond
	quietPause = 250 * time.Millisecond
	// watchPause is between two looks whether the database was written.
	watchPause = 2 * time.Millisecond

	pollLimit = 2 * time.Second // of one query
)

// here are the sessions of this process, by their ids: what grants a key to one of them tells it.
var here sync.Map

func (s *leaseSession) enter() {
	if !s.apart {
		here.Store(s.id, s)
	}
}

func (s *leaseSession) leave() { here.Delete(s.id) }

func isHere(session string) bool {
	_, is := here.Load(session)
	return is
}

// tell notifies the sessions of this process of grants to them, and tells those that wait for the same keys who holds these now.
func (c *change) tell(ctx context.Context) {
	near := map[string]bool{} // whether all holders of a key are sessions of this process
	for _, p := range c.granted {
		near[p.info.Key] = !slices.ContainsFunc(c.keys[p.info.Key].holders, func(h *part) bool { return !isHere(h.info.Session) })
	}
	if len(near) > 0 {
		here.Range(func(_, to any) bool {
			if to := to.(*leaseSession); to.namespace == c.namespace {
				to.hear(ctx, near)
			}
			return true
		})
	}
	for _, p := range c.granted {
		if to, is := here.Load(p.info.Session); is {
			to.(*leaseSession).notify(driver.Grant{Place: driver.Place{Acquisition: p.acquisition, Key: p.info.Key}, Token: p.info.Token})
		}
	}
}

// hear notes whether all holders of keys are sessions of this process now.
func (s *leaseSession) hear(ctx context.Context, near map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, now := range near {
		if s.waiting.heldBy(key, now, 0) {
			s.wakePoll(ctx)
		}
	}
}

// wakePoll makes the polling look again, or begin, since who holds a key has changed. With mu held.
func (s *leaseSession) wakePoll(ctx context.Context) {
	if s.polling {
		select {
		case s.woken <- struct{}{}:
		default:
		}
		return
	}
	if _, longest, _ := s.patience(); longest == 0 || s.over {
		return
	}
	s.polling = true
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.work.Go(func() { s.poll(ctx) })
}

// notify is told of a grant, perhaps before the answer that the place was taken, or of one that it knows.
func (s *leaseSession) notify(g driver.Grant) {
	s.forget(g.Place)
	select {
	case s.granted <- g:
	default:
	}
}

func (s *leaseSession) forget(p driver.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting.remove(p)
}

// await looks for the grant of a place from now on.
func (s *leaseSession) await(ctx context.Context, p driver.Place, number int64, holder *driver.Info) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting.add(p, number, s.isNear(holder), holder.Token)
	if !s.polling {
		s.wakePoll(ctx)
	}
}

// seen notes who holds the key of a place.
func (s *leaseSession) seen(ctx context.Context, p driver.Place, holder *driver.Info) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting.has(p) && s.waiting.heldBy(p.Key, s.isNear(holder), 0) {
		s.wakePoll(ctx)
	}
}

func (s *leaseSession) isNear(holder *driver.Info) bool { return !s.apart && isHere(holder.Session) }

// poll looks for grants while the session has places behind holders of other processes, with one query for mostPolled keys:
//
//  1. wait: shorter the sooner a turn may come, and until something was written where the database shows that;
//  2. ask which places were granted, and who is next.
func (s *leaseSession) poll(ctx context.Context) {
	pause := time.Duration(0)
	for {
		first, longest, watch := s.goesOn()
		if longest == 0 || ctx.Err() != nil {
			return
		}
		pause = min(max(pause*3/2, first), longest)
		if s.rest(ctx, pause/2+rand.N(pause/2), watch) {
			pause = 0
		}
		if moved, err := s.grants(ctx); err == nil && moved {
			pause = 0
		}
	}
}

// goesOn is patience for the polling, which ends if the longest pause is 0.
func (s *leaseSession) goesOn() (first, longest time.Duration, watch func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first, longest, watch = s.patience(); longest == 0 || s.over {
		s.polling = false
		s.stop()
		return 0, 0, nil
	}
	return first, longest, watch
}

// patience is the first and the longest pause, and what shows that the database was written; 0 if there is nothing to look for.
// With mu held.
func (s *leaseSession) patience() (first, longest time.Duration, watch func() bool) {
	switch {
	case s.waiting.far == 0:
		return 0, 0, nil
	case s.watch != nil:
		return firstPause, quietPause, s.watch
	case s.waiting.soon > 0:
		return firstPause, nextPause, nil
	}
	return nextPause, laterPause, nil
}

// rest waits, and reports whether it was cut short, by a write or by what it was told.
func (s *leaseSession) rest(ctx context.Context, pause time.Duration, watch func() bool) bool {
	step := pause
	if watch != nil {
		step = min(watchPause, pause)
	}
	for end := time.Now().Add(pause); time.Now().Before(end); {
		if watch != nil && watch() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-s.woken:
			return true
		case <-time.After(step):
		}
	}
	return false
}

// mostPolled is how many keys one query is for, which has to end within pollLimit.
const mostPolled = 1000

// found is a row of that query: a holding of this session (1), the holders of a key (2), or the first place of its queue (3).
type found struct {
	kind         int
	key          string
	acquisition  string // of 1
	number       int64  // the token of 1, the last token of 2, or the number of 3
	one, another string // sessions of 2
}

// grants notifies of the places that were granted, and notes of the others who is before them. moved: a queue has. Each
// part reads by primary key.
func (s *leaseSession) grants(ctx context.Context) (moved bool, err error) {
	s.mu.Lock()
	keys := slices.Sorted(maps.Keys(s.waiting.keys))
	s.mu.Unlock()
	for some := range slices.Chunk(keys, mostPolled) {
		rows, err := s.find(ctx, some)
		if err != nil {
			return moved, err
		}
		if s.learn(slices.Values(rows)) {
			moved = true
		}
	}
	return moved, nil
}

// find asks for the holders, the queues and the own holdings of keys.
func (s *leaseSession) find(ctx context.Context, keys []string) (rows []found, err error) {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	list, names := sqlkit.List(keys)
	args := slices.Concat([]any{s.namespace}, names, []any{s.id, s.namespace}, names, []any{s.namespace}, names)
	err = s.Autocommit(ctx, func(t *sqlkit.Tx) error {
		rows = nil
		return t.Query(`SELECT 1, name, acquisition, token, '', '' FROM {leases}{by_key} WHERE namespace = ? AND name IN `+list+` AND session_id = ?
			UNION ALL SELECT 2, name, '', MAX(token), MIN(session_id), MAX(session_id) FROM {leases}{by_key} WHERE namespace = ? AND name IN `+list+` GROUP BY name
			UNION ALL SELECT 3, name, '', MIN(number), '', '' FROM {places}{by_key} WHERE namespace = ? AND name IN `+list+` GROUP BY name`,
			args, func(scan func(...any) error) error {
				var r found
				err := scan(&r.kind, &r.key, &r.acquisition, &r.number, &r.one, &r.another)
				rows = append(rows, r)
				return err
			})
	})
	return rows, err
}

// learn takes in what was found, each row once, and notifies of the grants among it.
func (s *leaseSession) learn(rows iter.Seq[found]) (moved bool) {
	var granted []driver.Grant
	s.mu.Lock()
	for r := range rows {
		switch r.kind {
		case 1:
			g := driver.Grant{Place: driver.Place{Acquisition: r.acquisition, Key: r.key}, Token: driver.Token(r.number)}
			if s.waiting.has(g.Place) {
				s.waiting.remove(g.Place)
				granted = append(granted, g)
			}
		case 2:
			near := !s.apart && isHere(r.one) && isHere(r.another)
			moved = s.waiting.heldBy(r.key, near, driver.Token(r.number)) || moved
		case 3:
			moved = s.waiting.first(r.key, r.number) || moved
		}
	}
	s.mu.Unlock()
	for _, g := range granted {
		s.notify(g)
	}
	return moved || len(granted) > 0
}
