package sqllock

import (
	"context"
	"errors"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// change is one transaction that grants, frees or queues. It locks the mark of the namespace first, so one follows the
// other, and what it reads then is what it changes. Only what changes a holding of a key that nobody waits for does without the mark:
// its release, and handOn. The writes of a change find out that there was one, and the change begins again.
//
//	lock the mark, and mint ──▶ read the keys ──▶ end sessions that have expired ──▶ free, grant, queue (in memory)
//	       ▲                                                                                       │
//	       └────────────── a holding has changed meanwhile ◀── write what differs ◀───────────────────┘
//	                                                               └──▶ COMMIT ──▶ tell the sessions of this process
type change struct {
	*leaseSession
	t    *sqlkit.Tx
	keys map[string]*key

	next, last driver.Token // minted and unused
	living     bool         // this session was read, and has not ended
	wrote      bool
	freed      []*part // rows of holders
	left       []*part // places
	ended      []string
	wiping     string  // the session whose keys are freed
	granted    []*part // that had waited
}

var (
	// errNothing undoes a transaction that changed nothing, so that it costs no write.
	errNothing = errors.New("nothing is to be written")
	// errReleased undoes one that met a release, or handOn.
	errReleased = errors.New("a holding has changed meanwhile")
)

// change runs do, perhaps several times, and writes what it did. n is how many tokens it needs, most likely.
func (s *leaseSession) change(ctx context.Context, n int, do func(c *change) error) error {
	c, err := s.once(ctx, n, do)
	for round := 0; errors.Is(err, errReleased); round++ {
		if err = sqlkit.Pause(ctx, round, s.Dialect.Nap()); err == nil {
			c, err = s.once(ctx, n, do)
		}
	}
	if errors.Is(err, errNothing) {
		return nil
	}
	if err != nil {
		return err
	}
	c.tell(ctx)
	for _, id := range c.ended {
		if id != c.wiping {
			_ = s.wipe(ctx, id) // else who meets the rest of its rows does it
		}
	}
	return nil
}

func (s *leaseSession) once(ctx context.Context, n int, do func(c *change) error) (c *change, err error) {
	err = s.Tx(ctx, func(t *sqlkit.Tx) error {
		c = &change{leaseSession: s, t: t, keys: map[string]*key{}}
		err := c.mintMore(n)
		if err == nil {
			err = do(c)
		}
		if err == nil {
			err = c.write()
		}
		if err == nil && !c.wrote {
			err = errNothing
		}
		return err
	})
	return c, err
}

func (c *change) mintMore(n int) (err error) {
	c.next, err = c.mint(c.t, max(n, 1))
	c.last = c.next + driver.Token(max(n, 1)) - 1
	return err
}

func (c *change) token() (driver.Token, error) {
	if c.next > c.last {
		if err := c.mintMore(firstPlaces); err != nil {
			return 0, err
		}
	}
	c.next++
	return c.next - 1, nil
}

// alive returns an error if this session has ended. It is asked with the mark locked, as sessions are ended.
func (c *change) alive() error {
	if c.living {
		return nil
	}
	alive, err := names(c.t, aliveRow, c.id)
	if err == nil && !alive[c.id] {
		err = driver.ErrSessionEnded
	}
	return err
}

const aliveRow = `SELECT id FROM {sessions} WHERE id = ? AND dead = 0 AND expires_at > {now}` // primary key

// drop takes a holder out of a key.
func (c *change) drop(k *key, p *part) {
	k.holders = slices.DeleteFunc(k.holders, func(other *part) bool { return other == p })
	c.freed = append(c.freed, p)
}

// advance grants a key to those whose turn has come.
func (c *change) advance(k *key) error {
	for {
		if len(k.queue) == 0 && k.rest {
			if err := c.readQueue(c.t, k); err != nil {
				return err
			}
		}
		if len(k.queue) == 0 {
			return nil
		}
		first := k.queue[0]
		if !first.live() {
			if err := c.end(k.queue[:1]); err != nil {
				return err
			}
		}
		n, err := c.pullIn(c.t, k.queue[:1])
		if err != nil {
			return err
		}
		c.wrote = c.wrote || n > 0
		if first.live() {
			if !k.admits(first.info) {
				return nil
			}
			if err := c.grant(k, first); err != nil {
				return err
			}
			c.granted = append(c.granted, first)
		}
		k.queue = k.queue[1:]
		c.left = append(c.left, first)
	}
}

// grant makes p, which is a place or new, a holder of the key.
func (c *change) grant(k *key, p *part) (err error) {
	held := *p
	if held.info.Token, err = c.token(); err != nil {
		return err
	}
	p.info.Token, held.written = held.info.Token, false
	k.holders = append(k.holders, &held)
	return nil
}

// ask asks for one key, which was loaded. number is that of the place if it waits.
func (c *change) ask(acquisition string, w driver.Want, wait bool) (r driver.Result, number int64, err error) {
	k := c.keys[w.Key]
	had, err := c.had(k, acquisition)
	if err != nil {
		return r, 0, err
	}
	if had != nil {
		if had.info.Token == 0 && had.info.Meta != w.Meta {
			c.wrote = true
			_, err = c.t.Exec(`UPDATE {places} SET meta = ? WHERE namespace = ? AND name = ? AND number = ?`, w.Meta, c.namespace, k.name, had.number)
		}
		return k.result(had), had.number, err
	}
	p := &part{info: asks(w), acquisition: acquisition}
	p.info.Session, p.info.Owner = c.id, c.owner
	switch {
	case c.refuses(acquisition):
		return driver.Result{Err: driver.ErrAbandoned}, 0, nil
	case len(k.queue) == 0 && k.admits(p.info):
		err = c.grant(k, p)
		return k.result(p), 0, err
	case !wait:
		return driver.Result{Holder: k.holder()}, 0, nil
	}
	next, err := c.token()
	p.number = int64(next)
	k.queue = append(k.queue, p)
	return k.result(p), p.number, err
}

// had returns what an acquisition has of a key: also a place far behind.
func (c *change) had(k *key, acquisition string) (*part, error) {
	if p := k.find(c.id, acquisition); p != nil || !k.rest {
		return p, nil
	}
	all, err := c.own(c.t, []string{k.name})
	for _, p := range all {
		if p.acquisition == acquisition {
			return p, err
		}
	}
	return nil, err
}
