package lockstest

import (
	mathrand "math/rand/v2"
	"time"
)

// faultsEach is the number of faults for each client in one run.
const faultsEach = 4

// faultAt is one fault of one client's connection.
type faultAt struct {
	fault       Fault
	after, last time.Duration // since the end of the one before; until it is healed
}

// plan has the faults of each client in turn, and about how long they take. They begin soon after each other
// and last from a fifth of the ttl to half as much again: some sessions survive them and some do not.
func plan(seed uint64, faults []Fault, ttl time.Duration) (planned [linearClients][]faultAt, span time.Duration) {
	if len(faults) == 0 {
		return planned, 0
	}
	random := mathrand.New(mathrand.NewPCG(seed, linearClients)) //nolint:gosec // a schedule, not a secret
	part := func(least, most float64) time.Duration {
		return time.Duration((least + random.Float64()*(most-least)) * float64(ttl))
	}
	var order []int
	for n := range planned {
		var takes time.Duration
		for range faultsEach {
			if len(order) == 0 {
				order = random.Perm(len(faults))
			}
			b := faultAt{faults[order[0]], part(0.2, 0.7), part(0.2, 1.5)}
			order = order[1:]
			planned[n] = append(planned[n], b)
			takes += b.after + b.last
		}
		span = max(span, takes)
	}
	return planned, span
}

// suffer applies the planned faults, and heals them.
func (c *contender) suffer(planned []faultAt) {
	for _, b := range planned {
		time.Sleep(b.after)
		c.endanger()
		b.fault.Begin(c.t, c.driver)
		time.Sleep(b.last)
		b.fault.End(c.t, c.driver)
		c.safe()
	}
}

// endanger notes that the service may end the session from now on without notice. Only services without
// EarlyLoss do.
func (c *contender) endanger() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.driver.Caps().EarlyLoss {
		return
	}
	c.danger, c.shaken = true, true
	if c.clientSession != nil {
		c.clientSession.ending(c.h.now())
	}
}

func (c *contender) safe() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.danger = false
}

// shook reports, once, that the session was in a danger that has passed. It may have lost keys.
func (c *contender) shook() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.danger || !c.shaken {
		return false
	}
	c.shaken = false
	return true
}

// settle makes t the client's session.
func (c *contender) settle(t *clientSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clientSession = t
	if c.danger {
		t.ending(c.h.now())
	}
}
