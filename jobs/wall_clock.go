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
	days   monthDays
	ours   bool // days are found by days alone, and spec has all of them: package cron does not know special days and */2 that is unrestricted
	perDay int  // readings of a day that matches
}

func newWallClock(spec *cron.SpecSchedule, dom, dow chosen) wallClock {
	spec.Location = time.UTC
	perDay := bits.OnesCount64(values(spec.Hour)) * bits.OnesCount64(values(spec.Minute)) * bits.OnesCount64(values(spec.Second))
	special := dom.days
	special.nth = dow.days.nth
	c := wallClock{spec: spec, days: monthDays{dom.set, dow.set, special, dom.star || dow.star}, perDay: perDay}
	known := !c.days.both || spec.Dom&starBit != 0 || spec.Dow&starBit != 0
	if special != (specialDays{}) || !known {
		c.ours = true
		spec.Dom, spec.Dow = everyDay.Dom, everyDay.Dow
	}
	return c
}

var everyDay = func() *cron.SpecSchedule {
	s, _ := parseCanonical("* * * * * *")
	return s
}()

const starBit = 1 << 63 // robfig's mark for "*"

func values(set uint64) uint64 { return set &^ starBit }

// next returns the first due reading after w.
func (c wallClock) next(w time.Time) time.Time {
	if c.ours {
		today := w.Truncate(day)
		if c.matches(today) {
			if due := c.spec.Next(w); due.Before(today.Add(day)) {
				return due
			}
		}
		if today = c.nextDay(today); today.IsZero() {
			return today
		}
		return c.spec.Next(today.Add(-time.Second))
	}
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

// nextDay is the first matching day after d. After 400 years the calendar begins again: a 29th of February that is
// the fifth Friday of its month can be 40 years away.
func (c wallClock) nextDay(d time.Time) time.Time {
	year, month, dom := d.Date()
	for range 400*12 + 1 {
		if found := c.inMonth(year, month) >> (dom + 1) << (dom + 1); found != 0 {
			return time.Date(year, month, bits.TrailingZeros64(found), 0, 0, 0, 0, time.UTC)
		}
		if dom, month = 0, month+1; month > time.December {
			year, month = year+1, time.January
		}
	}
	return time.Time{}
}

// inMonth is the set of the matching days of a month.
func (c wallClock) inMonth(year int, month time.Month) uint64 {
	if c.spec.Month&(1<<month) == 0 {
		return 0
	}
	return c.days.of(time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).Weekday(), monthLength(year, month))
}

// matches reports whether the schedule is due on a day.
func (c wallClock) matches(d time.Time) bool {
	year, month, dom := d.Date()
	return c.inMonth(year, month)&(1<<dom) != 0
}

// between counts the due readings after a up to and including b. Where b is before a that is at most 0. It costs
// a few ns per day.
func (c wallClock) between(a, b time.Time) int {
	first, last := a.Truncate(day), b.Truncate(day)
	if last.Before(first) {
		return 0
	}
	total := c.matching(first, last) * c.perDay
	if c.matches(first) {
		total -= c.upTo(a.Sub(first))
	}
	if c.matches(last) {
		total -= c.perDay - c.upTo(b.Sub(last))
	}
	return total
}

// matching counts the matching days from first to last.
func (c wallClock) matching(first, last time.Time) int {
	total := 0
	from, month, dom := first.Date()
	until, lastMonth, lastDom := last.Date()
	for year := from; year < until || year == until && month <= lastMonth; {
		found := c.inMonth(year, month) >> dom << dom
		if year == until && month == lastMonth {
			found &= 1<<(lastDom+1) - 1
		}
		total += bits.OnesCount64(found)
		if dom, month = 0, month+1; month > time.December {
			year, month = year+1, time.January
		}
	}
	return total
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
