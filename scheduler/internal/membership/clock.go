package membership

import (
	"fmt"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// consistentRenewals is how many heartbeats in a row must bring a new database time before it is believed.
const consistentRenewals = 3

// Clock is the time that decisions are made by: the earlier one of the database's time, and of the last believed
// database time plus the time elapsed since. So neither a database clock that jumps ahead nor a
// replica's own wall clock makes a trigger fire early.
//
//	             the database's time deviates by more than maxSkew
//	believed ───────────────────────────────────────────────────────▶ nothing is decided
//	  ▲  ▲                                                              │  │
//	  │  └────────────────────── it agrees again ───────────────────────┘  │
//	  └──────── consistentRenewals heartbeats in a row agree on it ────────┘
type Clock struct {
	maxSkew time.Duration

	mu   sync.Mutex
	base reading // the last believed
	next reading // a deviating one that may become base
	seen int     // how many readings in a row confirmed next
	off  time.Duration

	// ahead is how far base is ahead of the database's time: a reading counts from before it was
	// asked for, so it is ahead by up to its round trip.
	ahead time.Duration

	wall    time.Duration // the database's time less this machine's, at the last reading
	refused int           // readings that deviated by more than maxSkew
}

type reading struct {
	database time.Time
	at       boottime.Instant
	trip     time.Duration // from asking to the answer: the reading is exact to that
}

func (r reading) now() time.Time { return r.database.Add(r.at.Elapsed()) }

// NewClock makes a Clock that has no time yet, and believes steps of up to maxSkew at once.
func NewClock(maxSkew time.Duration) *Clock { return &Clock{maxSkew: maxSkew} }

// Observe takes the database's time as an acknowledged heartbeat brought it; asked is the moment before
// the heartbeat was sent.
func (c *Clock) Observe(asked boottime.Instant, database time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := reading{database, asked, asked.Elapsed()}
	c.wall = database.Sub(asked.Time().Add(r.trip / 2))
	if c.base.at.IsZero() {
		c.base = r
		return
	}
	// The reading is at most its round trip old: it may be too low by that.
	vague, off, limit := r.trip > c.maxSkew/4, database.Sub(c.base.now()), c.maxSkew+c.base.trip
	switch {
	case vague && off <= limit && off+r.trip >= -limit:
		return // it may be right, and is too inexact to use
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

// skew is how far the database's clock is from the believed time; 0 while they agree.
func (c *Clock) skew() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.off
}

// apart is the difference between the database's clock and this machine's at the last reading, and how many readings were
// refused.
func (c *Clock) apart() (wall time.Duration, refused int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall, c.refused
}

func within(d, limit time.Duration) bool { return d <= limit && d >= -limit }
