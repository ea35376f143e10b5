package jobs

import (
	"sort"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/icalendar"
)

// at reports whether a moment is in the calendar, and until when, after it, that stays so at least; zero: for ever.
func (c *calendar) at(t time.Time) (in bool, until time.Time) {
	in, until = inSpans(c.moments, t)
	if len(c.weekly) == 0 && len(c.days) == 0 {
		return in, until
	}
	p := steadyAt(t, c.zone)
	reading := p.reading(t)
	onDay, dayUntil := inSpans(c.days, reading)
	inHours, hoursUntil := inWeek(c.weekly, reading)
	local, shown := join(onDay, dayUntil, inHours, hoursUntil)
	localUntil := p.end
	switch n := len(c.days); {
	case !shown.IsZero():
		if at := p.moment(shown); !p.endsBy(at) {
			localUntil = at
		}
	case n == 0 || reading.Sub(c.days[n-1].Until) > longestJump: // no clock goes back into it
		localUntil = time.Time{}
	}
	return join(in, until, local, localUntil)
}

// join is a moment's place in two parts together: in one of them as long as in either, outside as long as outside of both.
func join(in bool, until time.Time, also bool, alsoUntil time.Time) (bool, time.Time) {
	switch {
	case in == also && in:
		if until.IsZero() || alsoUntil.IsZero() {
			return true, time.Time{}
		}
		return true, later(until, alsoUntil)
	case in:
		return true, until
	case also:
		return true, alsoUntil
	}
	return false, sooner(until, alsoUntil)
}

// sooner is the earlier of two times; zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// inSpans looks a time up in spans that are in order.
func inSpans(all []icalendar.Span, t time.Time) (in bool, until time.Time) {
	i := sort.Search(len(all), func(i int) bool { return all[i].Until.After(t) })
	switch {
	case i == len(all):
		return false, time.Time{}
	case all[i].From.After(t):
		return false, all[i].From
	}
	return true, all[i].Until
}

// inWeek looks a reading of a clock up in the hours of a week.
func inWeek(all []hours, reading time.Time) (in bool, until time.Time) {
	if len(all) == 0 {
		return false, time.Time{}
	}
	today := reading.Truncate(day)
	week := today.Add(-time.Duration(today.Weekday()) * day)
	minute := int(reading.Sub(week) / time.Minute)
	moment := func(minutes int) time.Time { return week.Add(time.Duration(minutes) * time.Minute) }
	first := all[0]
	i := sort.Search(len(all), func(i int) bool { return all[i].until > minute })
	switch {
	case i == len(all):
		return false, moment(weekMinutes + first.from)
	case all[i].from > minute:
		return false, moment(all[i].from)
	case all[i].until < weekMinutes || first.from > 0:
		return true, moment(all[i].until)
	case first.until == weekMinutes: // the whole week
		return true, time.Time{}
	}
	return true, moment(weekMinutes + first.until) // on into the next week
}
