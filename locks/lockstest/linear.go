package lockstest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

const (
	linearClients = 6
	linearKeys    = 20
	linearOps     = 250 // for each key
	// linearLimit bounds the search; what it cannot decide within has not passed.
	linearLimit = time.Minute
)

// linear looks at what many clients were told, and holds that one lock could have answered so
// (linearizability, checked by porcupine).
var linear = []testCase{
	{"linearizable", func(t *testing.T, s *suite) { s.linearizable(t, false) }},
	{"linearizable through faults", func(t *testing.T, s *suite) {
		if s.Disconnect == nil || s.Reconnect == nil {
			return // said at the start
		}
		s.linearizable(t, true)
	}},
}

func (s *suite) linearizable(t *testing.T, faults bool) {
	began := time.Now()
	ns, h := namespace(), newHistory()
	s.warm(t, ns)
	seed := uint64(began.UnixNano())
	registers := make([]fenced, linearKeys)
	var working sync.WaitGroup
	for n := range linearClients {
		c := &contender{
			suite: s, t: t, h: h, namespace: ns, driver: s.client(t), registers: registers,
			random: mathrand.New(mathrand.NewPCG(seed, uint64(n))), //nolint:gosec // a schedule, not a secret
			held:   map[int]driver.Token{},
		}
		working.Go(func() { c.run(linearKeys*linearOps/linearClients, faults) })
	}
	working.Wait()
	h.expiries()
	t.Logf("%d operations, %d granted, %d without an answer, %d leases that were not released, in %v; seed %d",
		len(h.ops), h.granted, h.unknown, len(h.leases), time.Since(began).Round(time.Millisecond), seed)
	if len(h.ops) < linearKeys*linearOps/2 || h.granted < linearKeys*linearOps/20 || len(h.leases) < linearClients {
		t.Error("too little happened to judge by")
	}
	result, info := porcupine.CheckOperationsVerbose(model.ToModel(), h.ops, linearLimit)
	if result == porcupine.Ok {
		return
	}
	picture := filepath.Join(os.TempDir(), fmt.Sprintf("lockstep-history-%d.html", seed))
	if err := porcupine.VisualizePath(model.ToModel(), info, picture); err != nil {
		t.Log(err)
	}
	t.Errorf("%s: no lock could have given these answers; see %s", result, picture)
}

// fenced is a register beside the lock, as a store would have it: it refuses older tokens.
type fenced struct {
	mu    sync.Mutex
	token driver.Token
	value int
}

func (f *fenced) write(token driver.Token, value int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if token < f.token {
		return false
	}
	f.token, f.value = token, value
	return true
}

func (f *fenced) read() (driver.Token, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.token, f.value
}

// contender is one client that takes, checks, uses and lets go of keys, and sometimes stops renewing
// its session or is cut off.
type contender struct {
	*suite
	t         *testing.T
	h         *history
	namespace string
	driver    driver.Driver
	registers []fenced
	random    *mathrand.Rand

	stream  int
	tenure  *tenure
	stop    func() // of the renewals
	held    map[int]driver.Token
	wrote   int
	retired []zombie // what it held in earlier sessions
}

// zombie is a token whose session is over.
type zombie struct {
	key, session int
	token        driver.Token
}

func (c *contender) run(ops int, faults bool) {
	c.stream = c.h.stream()
	if !c.begin() {
		return
	}
	for n := range ops {
		if n%(ops/2) == ops/4 {
			c.fall(faults)
		}
		if c.t.Failed() || !c.act() {
			break
		}
	}
	c.end()
}

// begin opens a session and keeps it renewed.
func (c *contender) begin() bool {
	for began := time.Now(); time.Since(began) < 30*time.Second; time.Sleep(20 * time.Millisecond) {
		asked := c.h.now()
		ctx, cancel := context.WithTimeout(c.t.Context(), callTimeout)
		s, err := c.driver.Open(ctx, driver.Open{Namespace: c.namespace, TTL: c.ttl, Owner: "contender"})
		cancel()
		if err != nil {
			continue
		}
		c.tenure = &tenure{Session: s, number: c.h.stream()}
		c.tenure.renewed(asked)
		c.stop = c.keep(c.tenure)
		return true
	}
	c.t.Error("no session within 30 s")
	return false
}

// keep renews the session and notes what was acknowledged.
func (c *contender) keep(t *tenure) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(t.TTL() / 5):
			}
			asked := c.h.now()
			calling, done := context.WithTimeout(ctx, t.TTL())
			if t.Renew(calling) == nil {
				t.renewed(asked)
			}
			done()
		}
	})
	return func() { cancel(); renewing.Wait() }
}

// end closes the session: what it held is free from somewhen on.
func (c *contender) end() {
	c.stop()
	c.tenure.ending(c.h.now())
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	_ = c.tenure.Close(ctx) // else it expires
	for key, token := range c.held {
		c.h.holds(name(key), c.tenure)
		c.retired = append(c.retired, zombie{key, c.tenure.number, token})
	}
	clear(c.held)
}

// fall loses the session in one of the ways in which that happens, and begins another one.
func (c *contender) fall(faults bool) {
	switch how := c.random.IntN(3); {
	case how == 0 && c.ExpireSession != nil:
		c.stop()
		c.tenure.ending(c.h.now())
		c.ExpireSession(c.t, c.tenure.Session)
	case how == 1 || !faults:
		c.stop() // and the session expires, while the client goes on
		for range 5 {
			time.Sleep(c.tenure.TTL() / 4)
			if !c.act() {
				return
			}
		}
	default:
		c.Disconnect(c.t, c.driver)
		back := make(chan struct{})
		away := time.Duration(1+c.random.IntN(6)) * c.tenure.TTL() / 4
		go func() {
			defer close(back)
			time.Sleep(away)
			c.Reconnect(c.t, c.driver)
		}()
		for range 3 {
			if !c.act() {
				break
			}
		}
		<-back
		return // the session may have lived
	}
	c.again()
}

func name(key int) string { return fmt.Sprintf("user/k%02d", key) }

// act does one thing; false if the client cannot go on.
func (c *contender) act() bool {
	key := c.random.IntN(linearKeys)
	token, holds := c.held[key]
	switch dice := c.random.IntN(10); {
	case len(c.retired) > 0 && dice == 0:
		z := c.retired[c.random.IntN(len(c.retired))]
		c.write(z.key, z.session, z.token)
	case len(c.retired) > 0 && dice == 1 && !holds:
		z := c.retired[c.random.IntN(len(c.retired))]
		return c.letGo(z.key, z.token) // of a session that is over: it must not free what others hold
	case !holds:
		return c.tryAcquire(key)
	case dice < 3:
		c.write(key, c.tenure.number, token)
	case dice < 4:
		asked := c.h.now()
		written, value := c.registers[key].read()
		c.h.add(c.stream, asked, call{key: name(key), do: doRead}, answer{token: written, value: value})
	case dice < 6:
		return c.look(key, token)
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

// patient bounds one call of a contender: one that is cut off shall not wait for its answer.
const patient = 300 * time.Millisecond

// tryAcquire asks again with the same id while the answer does not come, as package locks does.
func (c *contender) tryAcquire(key int) bool {
	id, asked := rand.Text(), c.h.now()
	ask := call{key: name(key), do: doAcquire, session: c.tenure.number}
	sent := false
	for range 3 {
		ctx, cancel := context.WithTimeout(c.t.Context(), patient)
		results, err := c.tenure.TryAcquire(ctx, id, []driver.Want{{Key: name(key)}})
		cancel()
		if err == nil {
			err = results[0].Err
		}
		switch {
		case err == nil && results[0].Token > 0:
			c.held[key] = results[0].Token
			c.h.add(c.stream, asked, ask, answer{yes: true, token: results[0].Token})
			return true
		case err == nil:
			c.h.add(c.stream, asked, ask, answer{})
			return true
		case errors.Is(err, driver.ErrSessionLost):
			if sent {
				c.unknown(key, asked, ask)
			}
			return c.again()
		case !errors.Is(err, driver.ErrUnreachable) && !errors.Is(err, driver.ErrRecovering):
			sent = true
		}
	}
	if sent {
		c.unknown(key, asked, ask)
		return c.again() // a session that may hold what it does not know is of no use
	}
	return true
}

func (c *contender) unknown(key int, asked int64, ask call) {
	c.h.add(c.stream, asked, ask, answer{unknown: true})
	c.h.holds(name(key), c.tenure)
}

// again goes on with a new session.
func (c *contender) again() bool {
	c.end()
	return c.begin()
}

func (c *contender) look(key int, token driver.Token) bool {
	asked := c.h.now()
	ctx, cancel := context.WithTimeout(c.t.Context(), patient)
	defer cancel()
	still, err := c.tenure.Check(ctx, []driver.Held{{Key: name(key), Token: token}})
	if errors.Is(err, driver.ErrSessionLost) {
		return c.again()
	}
	if err == nil {
		c.h.add(c.stream, asked, call{key: name(key), do: doCheck, session: c.tenure.number, token: token}, answer{yes: still[0]})
	}
	return true
}

func (c *contender) letGo(key int, token driver.Token) bool {
	asked := c.h.now()
	ask := call{key: name(key), do: doRelease, session: c.tenure.number, token: token}
	sent := false
	for range 3 {
		ctx, cancel := context.WithTimeout(c.t.Context(), patient)
		err := c.tenure.Release(ctx, []driver.Held{{Key: name(key), Token: token}})
		cancel()
		switch {
		case err == nil:
			if c.held[key] == token {
				delete(c.held, key)
			}
			c.h.add(c.stream, asked, ask, answer{yes: true})
			if c.tenure.earliestEnd() < c.h.now() {
				c.h.holds(name(key), c.tenure) // it may have ended before, which a release does not tell
			}
			return true
		case errors.Is(err, driver.ErrSessionLost):
			return c.again()
		case !errors.Is(err, driver.ErrUnreachable):
			sent = true
		}
	}
	if !sent {
		return true
	}
	if c.held[key] == token {
		delete(c.held, key)
	}
	c.unknown(key, asked, ask)
	return c.again()
}
