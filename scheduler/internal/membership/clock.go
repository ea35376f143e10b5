package membership

import (
	"fmt"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// consistentRenewals is how often in a row a new database time must be seen before it is believed.
const consistentRenewals = 3

// Clock tells the time that decisions are made by: the smaller of the database's time and what
// the last believed database time plus the time elapsed since says. So neither a database clock
// that jumps ahead nor a replica's own wall clock makes anything fire early.
type Clock struct {
	maxSkew time.Duration

	mu   sync.Mutex
	base reading // the last believed
	next reading // a deviating one that may become base
	seen int     // how often next was confirmed
	off  time.Duration

	// ahead is how far base runs before the database's time: a reading is counted from before it was
	// asked for, so up to its round trip.
	ahead time.Duration

	wall    time.Duration // the database's time less this machine's, at the last reading
	refused int           // readings that deviated by more than maxSkew
}

type reading struct {
	database time.Time
	at       boottime.Instant
	trip     time.Duration // from asking to the answer: the reading is that vague
}

func (r reading) now() time.Time { return r.database.Add(r.at.Elapsed()) }

// NewClock makes one that knows no time yet, and believes steps of up to maxSkew at once.
func NewClock(maxSkew time.Duration) *Clock { return &Clock{maxSkew: maxSkew} }

// Observe takes the database's time as an acknowledged beat brought it; asked is the moment before
// the beat was sent.
func (c *Clock) Observe(asked boottime.Instant, database time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := reading{database, asked, asked.Elapsed()}
	c.wall = database.Sub(asked.Time().Add(r.trip / 2))
	if c.base.at.IsZero() {
		c.base = r
		return
	}
	// The answer is as old as its round trip at most: that is how far off is too low.
	vague, off, limit := r.trip > c.maxSkew/4, database.Sub(c.base.now()), c.maxSkew+c.base.trip
	switch {
	case vague && off <= limit && off+r.trip >= -limit:
		return // it may be right, and is too vague to go by
	case within(off, limit):
		c.base, c.next, c.seen, c.off, c.ahead = r, reading{}, 0, 0, min(c.ahead, r.trip)
		return
	}
	c.refused++
	c.off = off
	if c.seen > 0 && within(database.Sub(c.next.now()), c.maxSkew+c.next.trip+r.trip) {
		c.seen++
	} else {
		c.seen = 1
	}
	c.next = r
	if c.seen >= consistentRenewals {
		c.base, c.next, c.seen, c.off, c.ahead = r, reading{}, 0, 0, 0
	}
}

// Check returns the time to decide by, given the database's time inside the deciding transaction.
func (c *Clock) Check(database time.Time) (time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := c.base.now()
	if d := database.Sub(own); !within(d, c.maxSkew+c.base.trip) {
		return time.Time{}, fmt.Errorf("%w: the database's clock moved by %v", ledger.ErrClock, d.Round(time.Millisecond))
	}
	if database.Before(own) {
		c.ahead = own.Sub(database)
		return database, nil
	}
	c.ahead = 0
	return own, nil
}

// Now estimates the time that Check would return, for timers.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.base.now().Add(-c.ahead)
}

// Instant maps a database time onto this machine's clocks.
func (c *Clock) Instant(database time.Time) boottime.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.base.at.Add(database.Sub(c.base.database))
}

// skew is how far the database's clock is from what is believed; 0 while they agree.
func (c *Clock) skew() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.off
}

// apart is how far the database's clock was from this machine's at the last reading, and how many
// readings were refused.
func (c *Clock) apart() (wall time.Duration, refused int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall, c.refused
}

func within(d, limit time.Duration) bool { return d <= limit && d >= -limit }
