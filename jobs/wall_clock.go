package jobs

import (
	"math/bits"
	"time"

	"github.com/robfig/cron/v3"
)

const day = 24 * time.Hour

// wallClock knows which readings of a wall clock are due. A reading is a UTC time with the fields
// that the clock shows; zones and their jumps are not its business.
type wallClock struct {
	spec   *cron.SpecSchedule
	perDay int // readings of a day that matches
}

func newWallClock(spec *cron.SpecSchedule) wallClock {
	spec.Location = time.UTC
	perDay := bits.OnesCount64(values(spec.Hour)) * bits.OnesCount64(values(spec.Minute)) * bits.OnesCount64(values(spec.Second))
	return wallClock{spec, perDay}
}

const starBit = 1 << 63 // robfig's mark for "*"

func values(set uint64) uint64 { return set &^ starBit }

// next returns the first due reading after w.
func (c wallClock) next(w time.Time) time.Time {
	// The schedule of package cron looks no further than the end of the fifth year; the 29th of February
	// can be eight years away.
	for range 3 {
		if due := c.spec.Next(w); !due.IsZero() {
			return due
		}
		w = time.Date(w.Year()+6, time.January, 1, 0, 0, 0, 0, time.UTC).Add(-time.Second)
	}
	return time.Time{}
}

// fires reports whether any day matches.
func (c wallClock) fires() bool {
	if c.spec.Dow&starBit == 0 {
		return true // days of month and weekdays are alternatives, and every weekday comes
	}
	longest := [13]int{0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}
	for month := 1; month <= 12; month++ {
		if c.spec.Month&(1<<month) != 0 && bits.TrailingZeros64(values(c.spec.Dom)) <= longest[month] {
			return true
		}
	}
	return false
}

// between counts the due readings after a up to and including b. Where b is before a that is at most 0. It costs
// a few ns per day.
func (c wallClock) between(a, b time.Time) int {
	total := 0
	for d := a.Truncate(day); !d.After(b); d = d.Add(day) {
		if !c.matches(d) {
			continue
		}
		n := c.perDay
		if b.Sub(d) < day {
			n = c.upTo(b.Sub(d))
		}
		if !a.Before(d) {
			n -= c.upTo(a.Sub(d))
		}
		total += n
	}
	return total
}

// matches is the rule for days: if both day fields are restricted, either is enough.
func (c wallClock) matches(d time.Time) bool {
	if c.spec.Month&(1<<d.Month()) == 0 {
		return false
	}
	dom, dow := c.spec.Dom&(1<<d.Day()) != 0, c.spec.Dow&(1<<d.Weekday()) != 0
	if (c.spec.Dom|c.spec.Dow)&starBit != 0 {
		return dom && dow
	}
	return dom || dow
}

// upTo counts the due readings of a matching day that are at most t after its midnight.
func (c wallClock) upTo(t time.Duration) int {
	second := int(t / time.Second)
	h, m, s := second/3600, second/60%60, second%60
	below := func(set uint64, n int) int { return bits.OnesCount64(values(set) & (1<<n - 1)) }
	perMinute := bits.OnesCount64(values(c.spec.Second))
	n := below(c.spec.Hour, h) * bits.OnesCount64(values(c.spec.Minute)) * perMinute
	if c.spec.Hour&(1<<h) == 0 {
		return n
	}
	n += below(c.spec.Minute, m) * perMinute
	if c.spec.Minute&(1<<m) == 0 {
		return n
	}
	return n + below(c.spec.Second, s+1)
}
