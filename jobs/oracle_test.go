package jobs

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// oracle is a schedule as plain sets and questions about a day, read by nothing but the loops below. A nil one allows everything.
type oracle struct {
	seconds, minutes, hours, months []int
	dom, dow                        question
	both                            bool // a day has to match both, as one of the fields begins with *
	running                         bool // the minute or the hour begins with *
}

// question is one about the day of a clock reading.
type question func(t time.Time) bool

// shows reports whether a clock reading is due.
func (o oracle) shows(t time.Time) bool {
	in := func(set []int, n int) bool { return set == nil || slices.Contains(set, n) }
	if !in(o.minutes, t.Minute()) || !in(o.hours, t.Hour()) || !in(o.seconds, t.Second()) || !in(o.months, int(t.Month())) {
		return false
	}
	dom, dow := o.dom == nil || o.dom(t), o.dow == nil || o.dow(t)
	return dom && dow || !o.both && (o.dom != nil && dom || o.dow != nil && dow)
}

func anyOf(some ...question) question {
	return func(t time.Time) bool { return slices.ContainsFunc(some, func(q question) bool { return q(t) }) }
}

func onDays(days ...int) question {
	return func(t time.Time) bool { return slices.Contains(days, t.Day()) }
}

func onWeekdays(days ...int) question {
	return func(t time.Time) bool { return slices.Contains(days, int(t.Weekday())) }
}

func odd(t time.Time) bool { return t.Day()%2 == 1 }

// lengthOf counts the days of t's month.
func lengthOf(t time.Time) int {
	n := 0
	for d := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC); d.Month() == t.Month(); d = d.AddDate(0, 0, 1) {
		n++
	}
	return n
}

// beforeLast: the day is n days before the last one of its month.
func beforeLast(n int) question {
	return func(t time.Time) bool { return t.Day() == lengthOf(t)-n }
}

// nearest: of all days from Monday to Friday of its month, the day is the nearest to that which of says, for a month of that
// length. None is nearest to a day that does not exist.
func nearest(of func(last int) int) question {
	return func(t time.Time) bool {
		last := lengthOf(t)
		wanted, best := of(last), 0
		if wanted < 1 || wanted > last {
			return false
		}
		for day := 1; day <= last; day++ {
			weekday := time.Date(t.Year(), t.Month(), day, 0, 0, 0, 0, time.UTC).Weekday()
			if weekday != time.Saturday && weekday != time.Sunday && (best == 0 || distance(day, wanted) < distance(best, wanted)) {
				best = day
			}
		}
		return t.Day() == best
	}
}

func distance(a, b int) int { return max(a-b, b-a) }

func whole(last int) int { return last }

func fixedDay(n int) func(int) int { return func(int) int { return n } }

// nth: the day is the n-th weekday of that kind in its month.
func nth(weekday, n int) question {
	return func(t time.Time) bool {
		count := 0
		for day := 1; day <= t.Day(); day++ {
			if int(time.Date(t.Year(), t.Month(), day, 0, 0, 0, 0, time.UTC).Weekday()) == weekday {
				count++
			}
		}
		return int(t.Weekday()) == weekday && count == n
	}
}

// lastOf: the day is that weekday, and there is no further one in its month.
func lastOf(weekday int) question {
	return func(t time.Time) bool {
		return int(t.Weekday()) == weekday && t.AddDate(0, 0, 7).Month() != t.Month()
	}
}

// glance is one look at a wall clock.
type glance struct{ at, shows time.Time }

// watch looks at the wall clock of a zone each step, from two days before from.
func watch(zone *time.Location, from, until time.Time, step time.Duration) (seen []glance) {
	for t := from.Add(-48 * time.Hour); t.Before(until); t = t.Add(step) {
		l := t.In(zone)
		seen = append(seen, glance{t, time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), l.Second(), 0, time.UTC)})
	}
	return seen
}

// due says when the schedule is due after from, by what was seen.
func (o oracle) due(seen []glance, from time.Time) (due []time.Time) {
	latest := seen[0].shows // the latest reading that the clock has shown
	step := seen[1].at.Sub(seen[0].at)
	for _, now := range seen {
		hit := o.running && now.at.After(from) && o.shows(now.shows)
		for ; latest.Before(now.shows); latest = latest.Add(step) {
			hit = hit || !o.running && now.at.After(from) && o.shows(latest.Add(step))
		}
		if hit {
			due = append(due, now.at)
		}
	}
	return due
}

// agree compares a schedule with all that is due after from, up to and including until.
func agree(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, s *Schedule, what string, want []time.Time, from, until time.Time) {
	t.Helper()
	got, more := s.Between(from, until, 1<<20)
	if more || !slices.EqualFunc(want, got, time.Time.Equal) {
		t.Fatalf("%s from %v until %v (−watched +Between):\n%s", what, from, until, cmp.Diff(want, got))
	}
	if n, exact := s.CountBetween(from, until); n != len(want) || !exact {
		t.Fatalf("%s: CountBetween(%v, %v) = %d, %v, want %d", what, from, until, n, exact, len(want))
	}
	if got := s.Latest(from, until, 3); !slices.EqualFunc(want[max(len(want)-3, 0):], got, time.Time.Equal) {
		t.Fatalf("%s: Latest(%v, %v, 3) = %v of %v", what, from, until, got, want)
	}
}

// The oracle itself, by hand.
func TestOracle(t *testing.T) {
	for what, c := range map[string]struct {
		is   question
		days string
	}{
		"last":            {beforeLast(0), "31"},
		"3 before":        {beforeLast(3), "28"},
		"nearest to 1":    {nearest(fixedDay(1)), "3"},
		"nearest to 15":   {nearest(fixedDay(15)), "14"},
		"nearest to last": {nearest(whole), "31"},
		"nearest to 32":   {nearest(fixedDay(32)), ""},
		"second Friday":   {nth(5, 2), "14"},
		"fifth Friday":    {nth(5, 5), ""},
		"last Friday":     {lastOf(5), "28"},
	} {
		var days string
		for day := 1; day <= 31; day++ {
			if at := time.Date(2026, 8, day, 7, 0, 0, 0, time.UTC); c.is(at) { // August 2026 begins on a Saturday
				days += at.Format("2")
			}
		}
		if days != c.days {
			t.Errorf("%s: %s, want %s", what, days, c.days)
		}
	}
}
