package jobs

import "time"

// closures are the calendars of a job, made ready: what they leave out. The zero value leaves nothing out.
type closures struct {
	exclude, only []ownCalendar
	next          bool // the due times of one closure become one
}

// ownCalendar is a calendar of a job, by its name in the set.
type ownCalendar struct {
	name string
	*calendar
}

// A search for a moment or a due time that is allowed goes no further.
const (
	farthest = 50 * 366 * day // after the last event of a calendar: weekdays and leap days have met in all ways within 40 years, with one of 2100 in between
	mostHops = 20_000         // closures, or stretches without a change
)

// none reports whether nothing is left out.
func (c *closures) none() bool { return len(c.exclude) == 0 && len(c.only) == 0 }

// at says which calendar leaves a moment out, "" for none, and until when, after it, that stays so at least; zero: for ever. Of several
// it is the first: those of exclude come before those of only.
func (c *closures) at(t time.Time) (by string, until time.Time) {
	for _, cal := range c.exclude {
		in, ends := cal.at(t)
		if until = sooner(until, ends); in {
			return cal.name, until
		}
	}
	for _, cal := range c.only {
		in, ends := cal.at(t)
		if until = sooner(until, ends); !in {
			return cal.name, until
		}
	}
	return "", until
}

// outside reports whether a calendar leaves out what is not in it.
func (c *closures) outside(name string) bool {
	for _, cal := range c.exclude {
		if cal.name == name {
			return false
		}
	}
	return true
}

// reopens is the first allowed moment at or after t; zero if there is none, as far as is searched.
func (c *closures) reopens(t time.Time) time.Time {
	horizon := c.horizon(t)
	for range mostHops {
		by, until := c.at(t)
		switch {
		case by == "":
			return t
		case until.IsZero() || until.After(horizon):
			return time.Time{}
		}
		t = until
	}
	return time.Time{}
}

// closes is the end of the allowed stretch that t lies in, if that is at most limit; else zero.
func (c *closures) closes(t, limit time.Time) time.Time {
	for !t.After(limit) {
		by, until := c.at(t)
		switch {
		case by != "":
			return t
		case until.IsZero():
			return time.Time{}
		}
		t = until
	}
	return time.Time{}
}

// horizon is how far a search from t on goes.
func (c *closures) horizon(t time.Time) time.Time {
	for _, all := range [][]ownCalendar{c.exclude, c.only} {
		for _, cal := range all {
			if n := len(cal.days); n > 0 {
				t = later(t, cal.days[n-1].Until)
			}
			if n := len(cal.moments); n > 0 {
				t = later(t, cal.moments[n-1].Until)
			}
		}
	}
	return t.Add(farthest)
}

// Closure is a stretch of time in which the calendars of a job allow nothing.
type Closure struct {
	From  time.Time
	Until time.Time // when it ends; zero: it does not, as far as its calendars are known
}

// Closed names the calendar that leaves a moment out; empty: none does.
func (s *Schedule) Closed(t time.Time) string {
	by, _ := s.closed.at(t)
	return by
}

// Closures returns the closures that lie, in whole or in part, in the time from from on and before to, oldest first, at most limit of them; more
// says that there are others. The first one begins with from if it had begun before.
func (s *Schedule) Closures(from, to time.Time, limit int) (all []Closure, more bool) {
	for t := from; t.Before(to); {
		if by, _ := s.closed.at(t); by == "" {
			if t = s.closed.closes(t, to.Add(-time.Nanosecond)); t.IsZero() {
				return all, false
			}
		}
		if len(all) == limit {
			return all, true
		}
		c := Closure{t.UTC(), s.closed.reopens(t).UTC()}
		if all = append(all, c); c.Until.IsZero() {
			return all, false
		}
		t = c.Until
	}
	return all, false
}
