package lockstest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// contender is one client that acquires, checks, uses and releases keys, and sometimes stops renewing its
// session.
//
//	begin a session ──▶ act … act ──▶ fall: stop renewing, close or expire ──▶ begin another
type contender struct {
	*suite
	t         *testing.T
	h         *history
	namespace string
	driver    driver.Driver
	registers []fenced
	random    *mathrand.Rand

	stream  int
	stop    func() // of the renewals
	wrote   int
	retired []staleHold // what it held in earlier sessions

	renewing      sync.Mutex // held until it is noted what a renewal has found
	mu            sync.Mutex // the client alone writes clientSession and held
	clientSession *clientSession
	held          map[int]driver.Token // without those that are being released
	danger        bool                 // the service may end the session now, without notice
	shaken        bool                 // it was in danger
}

// staleHold is a token of an ended session.
type staleHold struct {
	key, session int
	token        driver.Token
}

// run does so many operations, spread over span if they are faster.
func (c *contender) run(ops int, span time.Duration) {
	began := time.Now()
	c.stream = c.h.stream()
	if !c.begin() {
		return
	}
	at := ops/8 + c.random.IntN(ops/4) // not when the others fall: one of them has to acquire what this one held
	silent := c.random.IntN(2) == 0
	for n := range ops {
		time.Sleep(time.Until(began.Add(span * time.Duration(n) / time.Duration(ops))))
		if n%(ops/2) == at {
			c.fall(silent)
			silent = !silent
		}
		if c.t.Failed() || !c.act() {
			break
		}
	}
	c.end()
}

// fall loses the session in one of several ways, and begins another one.
func (c *contender) fall(silent bool) {
	c.stop()
	if !silent && c.ExpireSession != nil {
		c.clientSession.ending(c.h.now())
		c.ExpireSession(c.t, c.clientSession.Session)
		time.Sleep(c.clientSession.TTL() / 8) // others acquire what it held
	} else { // it expires, while the client goes on
		for range 5 {
			time.Sleep(c.clientSession.TTL() / 4)
			if !c.act() {
				return
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.held)) {
		if c.look(key, c.held[key]) != nil {
			break
		}
	}
	c.again()
}

func name(key int) string { return fmt.Sprintf("user/k%02d", key) }

// act makes one call; false if the client cannot continue.
func (c *contender) act() bool {
	if c.shook() {
		return c.again()
	}
	key := c.random.IntN(linearKeys)
	if n := len(c.held); n > 0 && c.random.IntN(4) == 0 { // else nearly all keys would be held
		key = slices.Sorted(maps.Keys(c.held))[c.random.IntN(n)]
	}
	token, holds := c.held[key]
	switch dice := c.random.IntN(10); {
	case len(c.retired) > 0 && dice == 0:
		z := c.retired[c.random.IntN(len(c.retired))]
		c.write(z.key, z.session, z.token)
	case len(c.retired) > 0 && dice == 1 && !holds:
		z := c.retired[c.random.IntN(len(c.retired))]
		return c.letGo(z.key, z.token) // of an ended session: it must not free keys of others
	case !holds:
		return c.tryAcquire(key)
	case dice < 3:
		c.write(key, c.clientSession.number, token)
	case dice < 4:
		asked := c.h.now()
		written, value := c.registers[key].read()
		c.h.add(c.stream, asked, call{key: name(key), do: doRead}, answer{token: written, value: value})
	case dice < 6:
		if errors.Is(c.look(key, token), driver.ErrSessionEnded) {
			return c.again()
		}
	default:
		return c.letGo(key, token)
	}
	return true
}

func (c *contender) write(key, session int, token driver.Token) {
	c.wrote++
	asked := c.h.now()
	yes := c.registers[key].write(token, c.wrote)
	c.h.add(c.stream, asked, call{key: name(key), do: doWrite, session: session, token: token, value: c.wrote}, answer{yes: yes})
}

// patient bounds one call: a disconnected client should not wait for its answer.
func (c *contender) patient() time.Duration { return max(300*time.Millisecond, c.ttl/3) }

// tries is how often the client asks for an answer that does not come. Mostly it continues until it has one, or
// its session has ended, as package locks does: so a lost answer is not unknown. Sometimes it gives up.
func (c *contender) tries() int {
	if c.random.IntN(10) == 0 {
		return 2
	}
	return int(3*c.ttl/c.patient()) + 3
}

// tryAcquire asks again with the same id until there is an answer.
func (c *contender) tryAcquire(key int) bool {
	id, asked := rand.Text(), c.h.now()
	ask := call{key: name(key), do: doAcquire, session: c.clientSession.number}
	sent := false // and not answered: whatever the next try returns, that one may arrive later
	for range c.tries() {
		ctx, cancel := context.WithTimeout(c.t.Context(), c.patient())
		results, err := c.clientSession.TryAcquire(ctx, id, []driver.Want{{Key: name(key)}})
		if err == nil {
			err = results[0].Err
		}
		switch {
		case err == nil && results[0].Token > 0:
			c.holds(key, results[0].Token)
			c.h.add(c.stream, asked, ask, answer{yes: true, token: results[0].Token})
		case err == nil:
			c.h.add(c.stream, asked, ask, answer{by: c.h.sessionOf(results[0].Holder)})
		case errors.Is(err, driver.ErrSessionEnded):
		case errors.Is(err, driver.ErrRecovering) && sent:
			c.h.undone(ask, asked)
			asked, sent = c.h.now(), false
			wait(ctx, c.patient()/10)
		case errors.Is(err, driver.ErrUnreachable), errors.Is(err, driver.ErrRecovering):
			wait(ctx, c.patient()/10)
		default:
			sent = true
			wait(ctx, c.patient()/10)
		}
		cancel()
		lost := errors.Is(err, driver.ErrSessionEnded)
		if sent && (err == nil || lost) {
			c.unknown(key, asked, ask)
		}
		if lost {
			return c.again()
		}
		if err == nil {
			return true
		}
	}
	if sent {
		c.unknown(key, asked, ask)
		return c.again() // a session that may hold unknown keys is useless
	}
	return true
}

// wait waits for so long, or until ctx is done.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (c *contender) unknown(key int, asked int64, ask call) {
	c.h.add(c.stream, asked, ask, answer{unknown: true})
	c.h.mayHold(name(key), c.clientSession, asked)
}

// again continues with a new session.
func (c *contender) again() bool {
	c.end()
	return c.begin()
}

func (c *contender) look(key int, token driver.Token) error {
	asked := c.h.now()
	ctx, cancel := context.WithTimeout(c.t.Context(), c.patient())
	defer cancel()
	still, err := c.clientSession.Check(ctx, []driver.Held{{Key: name(key), Token: token}})
	if err != nil {
		c.doubt(c.clientSession, asked)
		return err
	}
	c.h.add(c.stream, asked, call{key: name(key), do: doCheck, session: c.clientSession.number, token: token}, answer{yes: still[0]})
	return nil
}

func (c *contender) letGo(key int, token driver.Token) bool {
	asked := c.h.now()
	ask := call{key: name(key), do: doRelease, session: c.clientSession.number, token: token}
	held := c.held[key] == token
	if held {
		c.holds(key, 0)
	}
	sent := false
	for range c.tries() {
		ctx, cancel := context.WithTimeout(c.t.Context(), c.patient())
		err := c.clientSession.Release(ctx, []driver.Held{{Key: name(key), Token: token}})
		if err != nil && !errors.Is(err, driver.ErrSessionEnded) {
			sent = sent || !errors.Is(err, driver.ErrUnreachable)
			wait(ctx, c.patient()/10)
		}
		cancel()
		if errors.Is(err, driver.ErrSessionEnded) {
			if sent {
				c.unknown(key, asked, ask) // it may have been released before the session ended
			}
			if held {
				c.holds(key, token)
			}
			return c.again()
		}
		if err == nil {
			c.released(key, asked, ask)
			return true
		}
	}
	if !sent {
		if held {
			c.holds(key, token)
		}
		return true
	}
	c.unknown(key, asked, ask)
	return c.again()
}

// holds notes what the client holds a key under; 0: it does not.
func (c *contender) holds(key int, token driver.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token == 0 {
		delete(c.held, key)
		return
	}
	c.held[key] = token
}

func (c *contender) released(key int, asked int64, ask call) {
	if c.KeysDieAlone {
		c.renewing.Lock() // it may know of a loss that is not noted yet
		defer c.renewing.Unlock()
	}
	if c.clientSession.earliestEnd() < c.h.now() {
		// The session may have ended, which a release does not report; or the client has given it up, and the
		// service frees the key when it ends.
		c.unknown(key, asked, ask)
		return
	}
	c.h.add(c.stream, asked, ask, answer{yes: true})
}
