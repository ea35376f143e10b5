package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// fields is an expression of fields. Its due times are found by a walk: through the days and what the clock shows on them, or, where they follow real
// time, through all minutes.
type fields struct {
	zone                    timeZone
	seconds, minutes, hours []int
	wild                    bool // minute or hour begins with *: it follows real time
	dom, dow                dayField
	spec                    string
}

// dayField is a field of days.
type dayField struct {
	text string
	has  func(day time.Time) bool
}

func (f dayField) star() bool { return strings.HasPrefix(f.text, "*") }

// on reports whether a day matches: either field is enough if both are restricted.
func (f fields) on(day time.Time) bool {
	if f.dom.star() || f.dow.star() {
		return f.dom.has(day) && f.dow.has(day)
	}
	return f.dom.has(day) || f.dow.has(day)
}

// walk lists the due times from a moment on, and before another one.
func (f fields) walk(from, to time.Time) listed {
	var due []time.Time
	if f.wild {
		for t := from.Truncate(time.Minute); t.Before(to); t = t.Add(time.Minute) {
			shown := f.zone.shows(t)
			if !slices.Contains(f.minutes, shown.Minute()) || !slices.Contains(f.hours, shown.Hour()) || !f.on(shown) {
				continue
			}
			for _, s := range f.seconds {
				due = append(due, t.Add(time.Duration(s)*time.Second))
			}
		}
	} else {
		for day := from.Truncate(24*time.Hour).AddDate(0, 0, -1); day.Before(to.AddDate(0, 0, 1)); day = day.AddDate(0, 0, 1) {
			if !f.on(day) {
				continue
			}
			for _, h := range f.hours {
				for _, m := range f.minutes {
					for _, s := range f.seconds {
						due = append(due, f.zone.firstShown(day.Add(time.Duration(h)*time.Hour+time.Duration(m)*time.Minute+time.Duration(s)*time.Second)))
					}
				}
			}
		}
	}
	slices.SortFunc(due, time.Time.Compare)
	due = slices.DeleteFunc(slices.CompactFunc(due, time.Time.Equal), func(t time.Time) bool { return t.Before(from) || !t.Before(to) })
	return listed{due, to, f.spec}
}

// listed is due at some moments, which are known before until.
type listed struct {
	due   []time.Time
	until time.Time
	spec  string
}

// after is the place of the first one after a moment.
func (l listed) after(t time.Time) int {
	if !t.Before(l.until) && t.Before(never) {
		panic(fmt.Sprintf("%s is not known after %v", l.spec, l.until))
	}
	n, _ := slices.BinarySearchFunc(l.due, t, func(due, t time.Time) int {
		if due.After(t) {
			return 1
		}
		return -1
	})
	return n
}

func (l listed) next(after time.Time) time.Time {
	if n := l.after(after); n < len(l.due) {
		return l.due[n]
	}
	return never
}

func (l listed) count(after, until time.Time) int { return max(0, l.after(until)-l.after(after)) }

func (l listed) moved(by time.Duration) rule {
	later := listed{nil, l.until, l.spec} // by less than the day that a walk begins before
	for _, at := range l.due {
		later.due = append(later.due, at.Add(by))
	}
	return later
}

func (l listed) String() string { return l.spec }

// lastDay is how many days the month of a day has.
func lastDay(day time.Time) int {
	return time.Date(day.Year(), day.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// nearestWeekday is the one that is nearest to the n-th of the month of a day, within it; 0: the month has no such day.
func nearestWeekday(day time.Time, n int) int {
	last := lastDay(day)
	if n < 1 || n > last {
		return 0
	}
	for _, near := range []int{n, n - 1, n + 1, n - 2, n + 2} {
		at := time.Date(day.Year(), day.Month(), near, 0, 0, 0, 0, time.UTC)
		if near >= 1 && near <= last && at.Weekday() != time.Saturday && at.Weekday() != time.Sunday {
			return near
		}
	}
	return 0
}

// everyDay is a field without restriction, of any name.
func everyDay() dayField { return dayField{"*", func(time.Time) bool { return true }} }

func oddDays() dayField {
	return dayField{"*/2", func(day time.Time) bool { return day.Day()%2 == 1 }}
}

func dayOfMonth(n int) dayField {
	return dayField{fmt.Sprint(n), func(day time.Time) bool { return day.Day() == n }}
}

// beforeLast is so many days before the last one: L, L-3.
func beforeLast(n int) dayField {
	return dayField{fromLast(n), func(day time.Time) bool { return day.Day() == lastDay(day)-n }}
}

// weekdayNear is 15W.
func weekdayNear(n int) dayField {
	return dayField{fmt.Sprintf("%dW", n), func(day time.Time) bool { return day.Day() == nearestWeekday(day, n) }}
}

// weekdayNearLast is LW, L-3W.
func weekdayNearLast(n int) dayField {
	return dayField{fromLast(n) + "W", func(day time.Time) bool { return day.Day() == nearestWeekday(day, lastDay(day)-n) }}
}

func fromLast(n int) string {
	if n == 0 {
		return "L"
	}
	return fmt.Sprintf("L-%d", n)
}

func weekday(w time.Weekday) dayField {
	return dayField{short(w), func(day time.Time) bool { return day.Weekday() == w }}
}

// nthWeekday is FRI#2.
func nthWeekday(w time.Weekday, n int) dayField {
	return dayField{fmt.Sprintf("%s#%d", short(w), n), func(day time.Time) bool { return day.Weekday() == w && (day.Day()+6)/7 == n }}
}

// lastWeekday is FRIL.
func lastWeekday(w time.Weekday) dayField {
	return dayField{short(w) + "L", func(day time.Time) bool { return day.Weekday() == w && day.Day() > lastDay(day)-7 }}
}

func short(w time.Weekday) string { return strings.ToUpper(w.String()[:3]) }

// hashedIn is a number from first to last that the documents say the name of a job chooses for a field, by the place of the expression.
func hashedIn(name, field string, place, first, last int) int {
	return first + int(chosen(fmt.Sprintf("%s\n%s\n%d", name, field, place), int64(last-first+1)))
}

// hashedDay is H in the day of month.
func hashedDay(name string, place int) dayField {
	n := hashedIn(name, "day of month", place, 1, 28)
	return dayField{"H", func(day time.Time) bool { return day.Day() == n }}
}
