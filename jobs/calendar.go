package jobs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/icalendar"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	closest "github.com/lockstep-scheduler/lockstep/internal/nearest"
	"github.com/lockstep-scheduler/lockstep/internal/zone"
)

// Calendar is a part of time that jobs leave out or keep to: days off, office hours, a maintenance window. A moment is in it if Dates, Weekly or ICS
// say so, by what the clock of its zone then shows. An empty Calendar has no moment.
type Calendar struct {
	// Dates are whole days: "2026-12-25". At most 10,000.
	Dates []string
	// Weekly are hours of weekdays: "MON-FRI 09:00-17:00", "SAT,SUN" for whole days, "* 12:00-13:00" for every day. The end does not belong
	// to it, and may be 24:00; hours that end before they start go on into the next day, as "FRI 22:00-06:00". At most 100.
	Weekly []string
	// ICS is the text of an iCalendar file, of at most 1 MiB. Its events are in the calendar, whatever they are about, and those that recur are until
	// the end of 2099; those that were cancelled are not. It may have 10,000 events and 100,000 occurrences.
	ICS      string
	Timezone string // IANA name; default UTC
}

// Otherwise says what becomes of due times that calendars leave out.
type Otherwise string

const (
	OtherwiseSkip Otherwise = "skip" // they do not run
	OtherwiseNext Otherwise = "next" // those of one closure become one run, at its end
)

// JobCalendars are the calendars of its set that a job goes by. Without names the job has none.
//
// A due time is allowed if it is in all calendars of Only and in none of Exclude. The others do not run: the ledger has them as skipped, with the
// name of the calendar. A closure is a stretch of time without an allowed moment. With OtherwiseNext the last due time of a closure runs
// when the closure ends, in place of all of it: unless a due time lies at that very moment, which then is the one.
type JobCalendars struct {
	Exclude   []string  `json:",omitempty"`
	Only      []string  `json:",omitempty"`
	Otherwise Otherwise `json:",omitempty"` // default skip
}

// Any reports whether the job has calendars.
func (c JobCalendars) Any() bool { return len(c.Exclude)+len(c.Only) > 0 }

// names are those of all calendars of a job, sorted.
func (c JobCalendars) names() []string {
	all := slices.Concat(c.Exclude, c.Only)
	slices.Sort(all)
	return slices.Compact(all)
}

// hashed is the same for what has the same meaning.
func (c JobCalendars) hashed() JobCalendars {
	sorted := func(names []string) []string {
		names = slices.Clone(names)
		slices.Sort(names)
		return slices.Compact(names)
	}
	c.Exclude, c.Only = sorted(c.Exclude), sorted(c.Only)
	if c.Otherwise == OtherwiseSkip {
		c.Otherwise = ""
	}
	return c
}

// calendar is a Calendar made ready. It does not change.
type calendar struct {
	zone    *time.Location
	weekly  []hours          // in order, without overlaps
	days    []icalendar.Span // as readings of the clock
	moments []icalendar.Span
	content string // tells calendars with other times from each other
	size    string // for people: "12 dates, 2 weekly"
}

// read makes a calendar ready. What is wrong goes to p, and is left out.
func (c Calendar) read(p *problems, path string) *calendar {
	ready := &calendar{}
	var err error
	if ready.zone, err = zone.Load(c.Timezone); err != nil {
		p.add(path+".timezone", "%s", err)
		ready.zone = time.UTC
	}
	content := []string{cmp.Or(c.Timezone, "UTC")}
	if n := len(c.Dates); n > limits.CalendarDates {
		p.add(path+".dates", "%d dates, at most %d are allowed", n, limits.CalendarDates)
		c.Dates = nil
	}
	for i, text := range c.Dates {
		day, err := time.Parse(time.DateOnly, text)
		if year := day.Year(); err != nil || year < 1970 || year > 9998 {
			p.add(fmt.Sprintf("%s.dates[%d]", path, i), "%.40q is not a date from 1970 to 9998; write it as in 2026-12-25", text)
			continue
		}
		ready.days = append(ready.days, icalendar.Span{From: day, Until: day.AddDate(0, 0, 1)})
	}
	if n := len(c.Weekly); n > limits.CalendarWeekly {
		p.add(path+".weekly", "%d entries, at most %d are allowed", n, limits.CalendarWeekly)
		c.Weekly = nil
	}
	for i, text := range c.Weekly {
		all, err := readWeekly(text)
		if err != nil {
			p.add(fmt.Sprintf("%s.weekly[%d]", path, i), "%s", err)
			continue
		}
		ready.weekly = append(ready.weekly, all...)
	}
	ready.weekly = mergeHours(ready.weekly)
	ready.days = icalendar.Merge(ready.days)
	content = append(content, fmt.Sprint(ready.weekly), fmt.Sprint(ready.days))
	if c.ICS != "" {
		events, err := icalendar.Read(c.ICS, ready.zone)
		if err != nil {
			p.add(path+".ics", "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		ready.days, ready.moments = icalendar.Merge(append(ready.days, events.Days...)), events.Spans
		content = append(content, events.Content...)
	}
	ready.content, ready.size = fingerprint(content), c.size()
	return ready
}

// size says how much is in a calendar.
func (c Calendar) size() string {
	var parts []string
	add := func(n int, one, several string) {
		switch {
		case n == 1:
			parts = append(parts, "1 "+one)
		case n > 1:
			parts = append(parts, fmt.Sprint(n, " ", several))
		}
	}
	add(len(c.Dates), "date", "dates")
	add(len(c.Weekly), "weekly", "weekly")
	add(strings.Count(c.ICS, "BEGIN:VEVENT"), "event", "events")
	return cmp.Or(strings.Join(parts, ", "), "empty")
}

// calendars checks the calendars of a set, and makes them ready.
func (p *problems) calendars(s Set) map[string]*calendar {
	ready := make(map[string]*calendar, len(s.Calendars))
	for _, name := range slices.Sorted(maps.Keys(s.Calendars)) {
		ready[name] = s.Calendars[name].read(p, "calendars."+name)
	}
	return ready
}

// calendarsOf checks the calendars that a job names.
func (p *problems) calendarsOf(path string, job Job, all map[string]Calendar) {
	c := job.Calendars
	p.oneOf(path+".otherwise", string(c.Otherwise), string(OtherwiseSkip), string(OtherwiseNext))
	names := c.names()
	if n := len(names); n > limits.JobCalendars {
		p.add(path, "%d calendars, at most %d are allowed; join some of them", n, limits.JobCalendars)
	}
	for _, list := range []struct {
		key   string
		names []string
	}{{".exclude", c.Exclude}, {".only", c.Only}} {
		for i, name := range list.names {
			at := fmt.Sprintf("%s%s[%d]", path, list.key, i)
			if _, known := all[name]; !known {
				p.add(at, "there is no calendar %.80q; %s", name, nearName(name, all))
			} else if slices.Contains(list.names[:i], name) {
				p.add(at, "%q is given twice; remove one", name)
			} else if list.key == ".only" && slices.Contains(c.Exclude, name) {
				p.add(at, "%q is in exclude, too, so that no due time would be allowed; remove one", name)
			}
		}
	}
}

func nearName(name string, all map[string]Calendar) string {
	names := slices.Sorted(maps.Keys(all))
	if k := closest.Of(name, names); k != "" {
		return fmt.Sprintf("did you mean %q?", k)
	}
	return "defined are " + some(names)
}
