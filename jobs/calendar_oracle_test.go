package jobs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// almanac is what calendars leave out, minute by minute, as a clock was seen: it knows no intervals and no boundaries.
type almanac struct {
	at      []time.Time // moments, a minute apart
	by      []string    // the calendar that leaves the minute out; "": allowed
	outside []bool
}

// watched is a calendar by what a clock shows: in reports whether a moment is in it.
type watched struct {
	name string
	in   func(now glance) bool
}

func watchCalendars(seen []glance, exclude, only []watched) almanac {
	a := almanac{}
	for _, now := range seen {
		by, outside := "", false
		for _, c := range exclude {
			if by == "" && c.in(now) {
				by = c.name
			}
		}
		for _, c := range only {
			if by == "" && !c.in(now) {
				by, outside = c.name, true
			}
		}
		a.at, a.by, a.outside = append(a.at, now.at), append(a.by, by), append(a.outside, outside)
	}
	return a
}

func (a almanac) index(t time.Time) int {
	i, exact := slices.BinarySearchFunc(a.at, t, time.Time.Compare)
	if !exact {
		i--
	}
	return i
}

// reopens is the first minute from at on that is allowed; false if none was seen.
func (a almanac) reopens(at time.Time) (time.Time, bool) {
	for i := a.index(at); i < len(a.by); i++ {
		if a.by[i] == "" {
			return a.at[i], true
		}
	}
	return time.Time{}, false
}

// split walks through due times: which of them run, when, and which are left out by what. The due times must go on far enough for each
// closure that is asked about.
func (a almanac) split(due []time.Time, next bool) (runs, fires []time.Time, out []LeftOut) {
	var closure []time.Time // due times since it began
	var ends time.Time
	end := func() {
		if len(closure) == 0 {
			return
		}
		runsFor := closure[len(closure)-1]
		if slices.ContainsFunc(due, ends.Equal) {
			runsFor = ends
		}
		for _, at := range closure {
			i := a.index(at)
			switch {
			case next && at.Equal(runsFor):
				runs, fires = append(runs, at), append(fires, ends)
			case next:
				out = append(out, LeftOut{at, at, 1, a.by[i], a.outside[i], runsFor})
			default:
				out = append(out, LeftOut{at, at, 1, a.by[i], a.outside[i], time.Time{}})
			}
		}
		closure = nil
	}
	for _, at := range due {
		i := a.index(at)
		if len(closure) > 0 && !at.Before(ends) {
			end()
		}
		if a.by[i] == "" {
			runs, fires = append(runs, at), append(fires, at)
			continue
		}
		if len(closure) == 0 {
			ends, _ = a.reopens(at)
		}
		closure = append(closure, at)
	}
	end()
	return runs, fires, out
}

// drawCalendar draws a calendar, and what a clock says of it.
func drawCalendar(t *rapid.T, p place, name string) (Calendar, watched) {
	c := Calendar{Timezone: rapid.SampledFrom([]string{"", p.zone, "America/New_York", "Asia/Kolkata", "Pacific/Apia"}).Draw(t, name+" zone")}
	zone := mustZone(c.Timezone)
	var parts []func(at, local time.Time) bool
	span := int(p.until.Sub(p.from) / day)
	for range rapid.IntRange(0, 4).Draw(t, "dates") {
		date := p.from.AddDate(0, 0, rapid.IntRange(-1, span+1).Draw(t, "date")).Format(time.DateOnly)
		c.Dates = append(c.Dates, date)
		parts = append(parts, func(_, local time.Time) bool { return local.Format(time.DateOnly) == date })
	}
	for range rapid.IntRange(0, 2).Draw(t, "weekly") {
		text, in := drawWeekly(t)
		c.Weekly = append(c.Weekly, text)
		parts = append(parts, func(_, local time.Time) bool { return in(local) })
	}
	for range rapid.IntRange(0, 2).Draw(t, "events") {
		from := p.from.Add(time.Duration(rapid.IntRange(-600, int(p.until.Sub(p.from)/time.Minute)).Draw(t, "event")) * time.Minute)
		until := from.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "minutes")) * time.Minute)
		c.ICS += fmt.Sprintf("BEGIN:VEVENT\r\nUID:%d\r\nDTSTART:%s\r\nDTEND:%s\r\nEND:VEVENT\r\n", len(c.ICS), from.Format("20060102T150405Z"), until.Format("20060102T150405Z"))
		parts = append(parts, func(at, _ time.Time) bool { return !at.Before(from) && at.Before(until) })
	}
	if c.ICS != "" {
		c.ICS = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\n" + c.ICS + "END:VCALENDAR\r\n"
	}
	return c, watched{name, func(now glance) bool {
		local := now.at.In(zone)
		return slices.ContainsFunc(parts, func(in func(at, local time.Time) bool) bool { return in(now.at, local) })
	}}
}

// drawWeekly draws an entry, and asks of a local time whether its reading lies in it, day by day.
func drawWeekly(t *rapid.T) (string, func(local time.Time) bool) {
	days := map[time.Weekday]bool{}
	var items []string
	for range rapid.IntRange(1, 2).Draw(t, "items") {
		from, to := rapid.IntRange(0, 6).Draw(t, "from"), rapid.IntRange(0, 6).Draw(t, "to")
		items = append(items, strings.ToUpper(time.Weekday(from).String()[:3]+"-"+time.Weekday(to).String()[:3]))
		for d := from; ; d = (d + 1) % 7 {
			days[time.Weekday(d)] = true
			if d == to {
				break
			}
		}
	}
	text := strings.Join(items, ",")
	if rapid.Bool().Draw(t, "whole days") {
		return text, func(local time.Time) bool { return days[local.Weekday()] }
	}
	from := rapid.IntRange(0, 1439).Draw(t, "from minute")
	until := rapid.IntRange(1, 1440).Filter(func(n int) bool { return n != from }).Draw(t, "until minute")
	text += fmt.Sprintf(" %02d:%02d-%02d:%02d", from/60, from%60, until/60, until%60)
	return text, func(local time.Time) bool {
		minute := local.Hour()*60 + local.Minute()
		yesterday := (local.Weekday() + 6) % 7
		if from < until {
			return days[local.Weekday()] && minute >= from && minute < until
		}
		return days[local.Weekday()] && minute >= from || days[yesterday] && minute < until
	}
}

func mustZone(name string) *time.Location {
	zone, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return zone
}

// Whatever schedules and calendars are written, all methods agree with a walk through the minutes: which due times run and when, which are left
// out and by what; and nothing runs that is not allowed.
func TestCalendarsAgreeWithAWatchedClock(t *testing.T) {
	var all []place
	for _, p := range places(t) {
		if p.seen[1].at.Sub(p.seen[0].at) == time.Minute {
			all = append(all, p)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := all[rapid.IntRange(0, len(all)-1).Draw(t, "place")]
		job := Job{Timezone: p.zone}
		var due []time.Time
		for range rapid.IntRange(1, 2).Draw(t, "expressions") {
			spec, at := drawExpression(t, p)
			if _, err := ParseSchedule([]string{spec}, p.zone); err != nil {
				continue
			}
			job.Schedules = append(job.Schedules, spec)
			due = append(due, at...)
		}
		slices.SortFunc(due, time.Time.Compare)
		due = slices.CompactFunc(due, time.Time.Equal)
		set := Set{Calendars: map[string]Calendar{}}
		var exclude, only []watched
		for i := range rapid.IntRange(1, 3).Draw(t, "calendars") {
			name := fmt.Sprintf("c%d", i)
			c, is := drawCalendar(t, p, name)
			set.Calendars[name] = c
			if rapid.IntRange(0, 2).Draw(t, "only") == 0 && i < 2 {
				job.Calendars.Only, only = append(job.Calendars.Only, name), append(only, is)
			} else {
				job.Calendars.Exclude, exclude = append(job.Calendars.Exclude, name), append(exclude, is)
			}
		}
		job.Calendars.Otherwise = rapid.SampledFrom([]Otherwise{"", OtherwiseSkip, OtherwiseNext}).Draw(t, "otherwise")
		set.Jobs = map[string]Job{"j": job}
		if len(job.Schedules) == 0 {
			return
		}
		if err := set.validCalendars(); err != nil {
			t.Fatal(err)
		}
		s, err := set.Compiler().Compile("j", job)
		if err != nil {
			t.Fatal(err)
		}
		a := watchCalendars(p.seen, exclude, only)
		until := a.lastChange(p.until)
		if !until.After(p.from.Add(time.Hour)) {
			return
		}
		due = slices.DeleteFunc(due, func(at time.Time) bool { return !at.Before(until) })
		runs, fires, out := a.split(due, s.closed.next)
		what := fmt.Sprintf("%+q in %s with %+v of %+q", job.Schedules, p.zone, job.Calendars, set.Calendars)
		until = until.Add(-time.Nanosecond)
		agree(t, s, what, runs, p.from, until)
		var left []LeftOut
		stretches, more := s.LeftOut(p.from, until, 1<<20)
		for _, o := range stretches {
			each := s.dueIn(o.First, o.Last)
			if len(each) != o.Count {
				t.Fatalf("%s: %+v has %d due times", what, o, len(each))
			}
			for _, at := range each {
				left = append(left, LeftOut{at, at, 1, o.Calendar, o.Outside, o.Instead})
			}
		}
		if more || !slices.Equal(left, out) {
			t.Fatalf("%s: left out %v, want %v", what, left, out)
		}
		for i, at := range runs {
			if got := s.Fires(at); !got.Equal(fires[i]) {
				t.Fatalf("%s: the due time %v fires at %v, want %v", what, at, got, fires[i])
			}
			if i > 0 && !fires[i].After(fires[i-1]) {
				t.Fatalf("%s: %v fires no later than the one before", what, at)
			}
		}
		known, _ := a.reopens(p.from) // a due time before p.from may wait until then
		if !known.Before(until) {
			return
		}
		now := known.Add(time.Duration(rapid.Int64Range(0, int64(until.Sub(known))).Draw(t, "now")))
		if len(fires) > 0 && rapid.Bool().Draw(t, "one fires now") {
			now = later(known, rapid.SampledFrom(fires).Draw(t, "fires").Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "ns"))))
		}
		fired := s.Fired(now)
		var next time.Time
		for i, at := range runs {
			if (fires[i].After(now) && !at.After(fired)) || (!fires[i].After(now) && at.After(fired)) {
				t.Fatalf("%s: %v fires at %v; Fired(%v) = %v", what, at, fires[i], now, fired)
			}
			if next.IsZero() && fires[i].After(now) {
				next = fires[i]
			}
		}
		if got := s.NextFire(now); !next.IsZero() && !got.Equal(next) {
			t.Fatalf("%s: NextFire(%v) = %v, want %v", what, now, got, next)
		}
		if wakes := s.Wakes(fired); !next.IsZero() && wakes.After(next) {
			t.Fatalf("%s: with all up to %v decided, it is looked at %v, after %v", what, fired, wakes, next)
		}
	})
}

// dueIn are the due times from one up to another, whatever calendars say.
func (s *Schedule) dueIn(first, last time.Time) (all []time.Time) {
	for t := s.nextDue(first.Add(-time.Nanosecond)); !t.IsZero() && !t.After(last); t = s.nextDue(t) {
		all = append(all, t)
	}
	return all
}

// lastChange is the end of the last minute up to until that is allowed: all closures before it have ended.
func (a almanac) lastChange(until time.Time) time.Time {
	i := min(a.index(until), len(a.by)-1)
	for a.by[i] != "" && i > 0 {
		i--
	}
	return a.at[i].Add(time.Minute)
}

// validCalendars checks the calendars of the set alone.
func (s Set) validCalendars() error {
	var p problems
	p.calendars(s)
	for name, job := range s.Jobs {
		p.calendarsOf("jobs."+name+".calendars", job, s.Calendars)
	}
	return p.err()
}
