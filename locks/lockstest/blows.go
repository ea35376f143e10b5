package lockstest

import (
	mathrand "math/rand/v2"
	"time"
)

// blowsEach is how often each client's way breaks in one run.
const blowsEach = 4

// blow is one fault of one client's way.
type blow struct {
	fault       Fault
	after, last time.Duration // since the end of the one before; until it is healed
}

// plan is the faults of each client in turn, and about how long they take. They begin soon after each
// other and last from a fifth of the ttl to half as much again: some sessions live through them and
// some do not.
func plan(seed uint64, faults []Fault, ttl time.Duration) (blows [linearClients][]blow, span time.Duration) {
	if len(faults) == 0 {
		return blows, 0
	}
	random := mathrand.New(mathrand.NewPCG(seed, linearClients)) //nolint:gosec // a schedule, not a secret
	part := func(least, most float64) time.Duration {
		return time.Duration((least + random.Float64()*(most-least)) * float64(ttl))
	}
	var order []int
	for n := range blows {
		var takes time.Duration
		for range blowsEach {
			if len(order) == 0 {
				order = random.Perm(len(faults))
			}
			b := blow{faults[order[0]], part(0.2, 0.7), part(0.2, 1.5)}
			order = order[1:]
			blows[n] = append(blows[n], b)
			takes += b.after + b.last
		}
		span = max(span, takes)
	}
	return blows, span
}

// suffer breaks the client's way as planned, and leaves it healed.
func (c *contender) suffer(blows []blow) {
	for _, b := range blows {
		time.Sleep(b.after)
		c.endanger()
		b.fault.Begin(c.t, c.driver)
		time.Sleep(b.last)
		b.fault.End(c.t, c.driver)
		c.safe()
	}
}

// endanger notes that the service may end the session from now on without telling first. Only those do
// that promise no EarlyLoss.
func (c *contender) endanger() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.driver.Caps().EarlyLoss {
		return
	}
	c.danger, c.shaken = true, true
	if c.tenure != nil {
		c.tenure.ending(c.h.now())
	}
}

func (c *contender) safe() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.danger = false
}

// shook reports, once, that the session went through a danger that is over. What it held may have been
// taken away.
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
func (c *contender) settle(t *tenure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tenure = t
	if c.danger {
		t.ending(c.h.now())
	}
}
