package lockstest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

const (
	overtakes    = "a reader overtakes a writer that waits"
	lastFirst    = "the last one is served first"
	keepsPlace   = "an abandoned place is granted"
	grantsDead   = "the place of an ended session is granted"
	oneMore      = "one holder more than the limit"
	rightQueue   = "right"
	turnSeeds    = 6 // of 20 bugs 18 show at the first one, and 2 at the second
	unreadGrants = 1024
)

// Each kind of wrong queue is caught within a few seeds, and a right one passes them. A seed fixes what clients do and not how
// they interleave, so a bug has a few seeds to show.
func TestTurnsCatch(t *testing.T) {
	for _, bug := range []string{rightQueue, overtakes, lastFirst, keepsPlace, grantsDead, oneMore} {
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			seeds := uint64(turnSeeds)
			if bug == rightQueue {
				seeds = 3
			}
			for seed := uint64(1); seed <= seeds; seed++ {
				service := &queueService{Driver: memlock.New(), bug: bug, keys: map[string]*queueKey{}}
				s := &suite{ttl: time.Second, Harness: Harness{
					Driver:        func(*testing.T) driver.Driver { return service },
					ExpireSession: func(_ *testing.T, s driver.Session) { _ = s.Close(context.Background()) },
				}}
				r := s.takeTurns(t, Linear{Seed: seed})
				result, _ := searchTurns(closed(r.ops), linearLimit)
				t.Logf("seed %d: %s", seed, result)
				switch {
				case bug == rightQueue && result != porcupine.Ok:
					t.Errorf("seed %d: %s, and the queue is right", seed, result)
				case bug != rightQueue && result == porcupine.Illegal:
					return
				}
			}
			if bug != rightQueue {
				t.Errorf("not found with %d seeds", turnSeeds)
			}
		})
	}
}

// queueService has the sessions of memlock, and queues of its own with a bug.
type queueService struct {
	driver.Driver
	bug string

	mu    sync.Mutex
	keys  map[string]*queueKey
	token driver.Token
}

type queueKey struct{ holders, queue []*queuePlace }

type queuePlace struct {
	session *queueSession
	id      string
	want    driver.Want
	token   driver.Token // 0: it waits
}

// queueSession is never asked for a key that memlock holds.
type queueSession struct {
	driver.Session
	service *queueService
	granted chan driver.Grant
	ended   bool
}

func (s *queueService) Open(ctx context.Context, o driver.Open) (driver.Session, error) {
	c, err := s.Driver.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return &queueSession{Session: c, service: s, granted: make(chan driver.Grant, unreadGrants)}, nil
}

// admits reports whether w may hold the key together with its holders.
func (s *queueService) admits(k *queueKey, w driver.Want) bool {
	if len(k.holders) == 0 {
		return true
	}
	first, limit := k.holders[0].want, max(w.Limit, 1)
	if first.Shared != w.Shared || max(first.Limit, 1) != limit {
		return false
	}
	if s.bug == oneMore && limit > 1 {
		limit++
	}
	return w.Shared || len(k.holders) < limit
}

func (s *queueService) grant(k *queueKey, p *queuePlace) {
	s.token++
	p.token = s.token
	k.holders = append(k.holders, p)
}

// advance grants the key to those whose turn has come.
func (s *queueService) advance(k *queueKey) {
	for len(k.queue) > 0 {
		n := 0
		if s.bug == lastFirst {
			n = len(k.queue) - 1
		}
		p := k.queue[n]
		if !s.admits(k, p.want) {
			return
		}
		k.queue = slices.Delete(k.queue, n, n+1)
		s.grant(k, p)
		select {
		case p.session.granted <- driver.Grant{Place: driver.Place{Acquisition: p.id, Key: p.want.Key}, Token: p.token}:
		default: // Look finds it
		}
	}
}

// drop takes out what satisfies gone; the queue keeps it if keep is set.
func (s *queueService) drop(k *queueKey, keep bool, gone func(*queuePlace) bool) {
	k.holders = slices.DeleteFunc(k.holders, gone)
	if !keep {
		k.queue = slices.DeleteFunc(k.queue, gone)
	}
	s.advance(k)
}

func (s *queueService) find(c *queueSession, key, id string) (*queueKey, *queuePlace) {
	k := s.keys[key]
	if k == nil {
		k = &queueKey{}
		s.keys[key] = k
	}
	for _, p := range slices.Concat(k.holders, k.queue) {
		if p.session == c && p.id == id {
			return k, p
		}
	}
	return k, nil
}

func (c *queueSession) ask(id string, w driver.Want, wait bool) driver.Result {
	s := c.service
	k, p := s.find(c, w.Key, id)
	if p == nil {
		p = &queuePlace{session: c, id: id, want: w}
		behind := len(k.queue) > 0 && (s.bug != overtakes || !w.Shared)
		switch {
		case !behind && s.admits(k, w):
			s.grant(k, p)
		case wait:
			k.queue = append(k.queue, p)
		default:
			return driver.Result{Holder: &driver.Info{Key: w.Key}}
		}
	}
	if p.token > 0 {
		return driver.Result{Token: p.token}
	}
	return driver.Result{Queued: true}
}

func (c *queueSession) call(serve func(s *queueService)) error {
	c.service.mu.Lock()
	defer c.service.mu.Unlock()
	if c.ended {
		return driver.ErrSessionEnded
	}
	serve(c.service)
	return nil
}

func (c *queueSession) TryAcquire(_ context.Context, id string, wants []driver.Want) (results []driver.Result, err error) {
	err = c.call(func(*queueService) {
		for _, w := range wants {
			results = append(results, c.ask(id, w, false))
		}
	})
	return results, err
}

func (c *queueSession) Queue() driver.Queue { return c }

func (c *queueSession) Granted() <-chan driver.Grant { return c.granted }

func (c *queueSession) Acquire(_ context.Context, id string, release []driver.Held, wants []driver.Want) (results []driver.Result, err error) {
	err = c.call(func(*queueService) {
		c.free(release)
		results = append(results, c.ask(id, wants[0], true)) // clients ask for one key
	})
	return results, err
}

func (c *queueSession) Look(_ context.Context, places []driver.Place) (results []driver.Result, err error) {
	err = c.call(func(s *queueService) {
		for _, at := range places {
			_, p := s.find(c, at.Key, at.Acquisition)
			switch {
			case p == nil:
				results = append(results, driver.Result{Err: driver.ErrNotQueued})
			default:
				results = append(results, driver.Result{Token: p.token, Queued: p.token == 0})
			}
		}
	})
	return results, err
}

func (c *queueSession) Abandon(_ context.Context, id string, keys []string) error {
	return c.call(func(s *queueService) {
		for _, key := range keys {
			k, _ := s.find(c, key, id)
			s.drop(k, s.bug == keepsPlace, func(p *queuePlace) bool { return p.session == c && p.id == id })
		}
	})
}

func (c *queueSession) free(held []driver.Held) {
	for _, h := range held {
		k, _ := c.service.find(c, h.Key, "")
		c.service.drop(k, false, func(p *queuePlace) bool { return p.session == c && p.token > 0 && p.token == h.Token })
	}
}

func (c *queueSession) Release(_ context.Context, held []driver.Held) error {
	return c.call(func(*queueService) { c.free(held) })
}

func (c *queueSession) Close(ctx context.Context) error {
	_ = c.call(func(s *queueService) {
		c.ended = true
		for _, k := range s.keys {
			s.drop(k, s.bug == grantsDead, func(p *queuePlace) bool { return p.session == c })
		}
	})
	return c.Session.Close(ctx)
}
