package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// closed is what the calendars of a job leave out, as moments: from on, and before until. Only the arithmetic of this file knows it.
type closed struct {
	spans []stretch // in order, and apart
	next  bool      // the due times of each become one
}

// stretch is a part of time; a zero until is never.
type stretch struct{ from, until time.Time }

func (s stretch) has(t time.Time) bool {
	return !t.Before(s.from) && (s.until.IsZero() || t.Before(s.until))
}

// around is the closure that a moment lies in.
func (c *closed) around(t time.Time) (s stretch, in bool) {
	if c == nil {
		return s, false
	}
	i := slices.IndexFunc(c.spans, func(s stretch) bool { return s.has(t) })
	if i < 0 {
		return s, false
	}
	return c.spans[i], true
}

// runsAt is when a due time of ts runs, by the calendars; false if they leave it out.
func (c *closed) runsAt(ts times, due time.Time) (time.Time, bool) {
	s, in := c.around(due)
	switch {
	case !in:
		return due, true
	case !c.next || s.until.IsZero() || ts.due(s.until) || ts.next(due).Before(s.until):
		return time.Time{}, false
	}
	return s.until, true
}

// nextRun is the first moment after t at which a due time of ts runs; zero if there is none within the day.
func (c *closed) nextRun(ts times, t time.Time) time.Time {
	from := t
	if s, in := c.around(t); in {
		from = s.from.Add(-time.Nanosecond)
	}
	for due := ts.next(from); due.Before(t.Add(24 * time.Hour)); due = ts.next(due) {
		if at, runs := c.runsAt(ts, due); runs && at.After(t) {
			return at
		}
	}
	return time.Time{}
}

// leftOutSince is how long due times that are left out may be undecided, and a second for the decision.
const leftOutSince = time.Hour + 5*time.Second

// owed is the first due time after a cursor that must have been decided by a moment; zero if there is none.
func (c *closed) owed(ts times, cursor, by time.Time) time.Time {
	for due := ts.next(cursor); !due.After(by); due = ts.next(due) {
		at, runs := c.runsAt(ts, due)
		if runs && !at.After(by) || !runs && due.Before(by.Add(-leftOutSince)) {
			return due
		}
		if c == nil {
			break
		}
	}
	return time.Time{}
}

// drawCalendars gives some jobs calendars: closures of seconds while replicas run, and of up to hours, also in outages. A job that an edit leaves alone
// keeps its calendar, or gets another one.
func (p *plan) drawCalendars(d draw) {
	for _, name := range p.names() {
		if !d.chance(0.25) {
			continue
		}
		j, in := p.Jobs[name]
		if in {
			p.Jobs[name] = p.drawClosed(d, j)
		}
		if e, edited := p.Edited[name]; edited {
			if in && d.chance(0.5) {
				e.Closed, e.Calendars, e.ICS, e.Kept = p.Jobs[name].Closed, p.Jobs[name].Calendars, p.Jobs[name].ICS, p.Jobs[name].Kept
				p.Edited[name] = e
			} else if d.chance(0.7) {
				p.Edited[name] = p.drawClosed(d, e)
			}
		}
	}
}

// names are those of the jobs of all versions, sorted.
func (p *plan) names() []string {
	names := slices.Collect(maps.Keys(p.Jobs))
	for name := range p.Edited {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (p *plan) drawClosed(d draw, j job) job {
	begin := p.began().Truncate(time.Second)
	c := &closed{next: d.chance(0.5)}
	at := begin.Add(d.between(-10*time.Second, 6*time.Second)).Truncate(time.Second)
	var ends []time.Time
	for range 1 + d.IntN(3) {
		until := at.Add(pick(d, d.between(time.Second, 8*time.Second), d.between(time.Second, 8*time.Second), d.between(time.Minute, 3*time.Hour))).Truncate(time.Second)
		c.spans = append(c.spans, stretch{at, until})
		ends = append(ends, at, until)
		at = until.Add(d.between(time.Second, 8*time.Second)).Truncate(time.Second)
	}
	if j.Closed = c; d.chance(0.3) { // what is open in between and around, in place of what is closed
		open := begin.AddDate(0, 0, -1)
		var spans []stretch
		for i := 0; i < len(ends); i += 2 {
			spans = append(spans, stretch{open, ends[i]})
			open = ends[i+1]
		}
		if d.chance(0.3) {
			c.spans = append(c.spans[:len(c.spans)-1], stretch{ends[len(ends)-2], time.Time{}}) // it does not open again
		} else {
			spans = append(spans, stretch{open, open.AddDate(0, 0, 3)})
		}
		j.ICS = events(spans)
		j.Calendars.Only = []string{calendarOf}
	} else {
		j.ICS = events(c.spans)
		j.Calendars.Exclude = []string{calendarOf}
		if d := keyed(p.Seed, "kept to beside "+j.ICS, 0); d.chance(0.4) {
			from := at.Add(d.between(0, 3*time.Second)).Truncate(time.Second)
			until := from.Add(d.between(time.Second, 8*time.Second)).Truncate(time.Second)
			c.spans = append(c.spans, stretch{from, until})
			j.Kept = events([]stretch{{begin.AddDate(0, 0, -1), from}, {until, until.AddDate(0, 0, 3)}})
			j.Calendars.Only = []string{calendarOf}
		}
	}
	if c.next {
		j.Calendars.Otherwise = jobs.OtherwiseNext
	}
	return j
}

// calendarOf is what the names of calendars begin with; the job's name follows.
const calendarOf = "of-"

func events(all []stretch) string {
	var b strings.Builder
	b.WriteString("BEGIN:VCALENDAR\r\nVERSION:2.0\r\n")
	for i, s := range all {
		const stamp = "20060102T150405Z"
		fmt.Fprintf(&b, "BEGIN:VEVENT\r\nUID:%d\r\nDTSTART:%s\r\nDTEND:%s\r\nEND:VEVENT\r\n", i, s.from.Format(stamp), s.until.Format(stamp))
	}
	b.WriteString("END:VCALENDAR\r\n")
	return b.String()
}

// withCalendar adds the calendar of a job to a set, and names it.
func withCalendar(set *jobs.Set, name string, j job) jobs.Job {
	if j.Closed == nil {
		return j.Job
	}
	calendar := calendarOf + name
	set.Calendars[calendar] = jobs.Calendar{ICS: j.ICS}
	named := func(all []string) []string {
		if len(all) == 0 {
			return nil
		}
		return []string{calendar}
	}
	j.Calendars.Exclude, j.Calendars.Only = named(j.Calendars.Exclude), named(j.Calendars.Only)
	if j.Kept != "" {
		set.Calendars[calendar+"-kept"] = jobs.Calendar{ICS: j.Kept}
		j.Calendars.Only = []string{calendar + "-kept"}
	}
	return j.Job
}

// judgeLeftOut: a row is for what calendars leave out, or for what runs; and what runs does so when they let it. With w.mu held.
func (w *world) judgeLeftOut(name string, e epoch, g memstore.Trigger) {
	first, last := time.UnixMicro(g.At).UTC(), time.UnixMicro(max(g.At, g.Until)).UTC()
	left, overtaken := g.ReasonCode == reason.Calendar, g.Replica == ""
	switch {
	case e.closed == nil && left:
		w.violate(name, "job %s has no calendar, and %v is left out", name, first)
	case e.closed == nil:
		return
	case left && (g.Outcome != string(jobs.Skipped) || g.TaskID != "" || !strings.Contains(g.Reason, calendarOf+name)):
		w.violate(name, "job %s: %v is left out, and the row is %+v", name, first, g)
	}
	for due := first; !due.After(last); due = e.times.next(due) {
		at, runs := e.closed.runsAt(e.times, due)
		switch {
		case !runs && !left && overtaken && (e.closed.next || w.recalendared(name)): // it may have been to run later, or nobody knew
		case runs == left:
			w.violate(name, "job %s: %v runs at %v, by its calendars: %v; the row from %v to %v says %s %s", name, due, at, runs, first, last, g.Outcome, g.ReasonCode)
			return
		case left:
			w.counted["left out"]++
			if overtaken {
				w.counted["left out before an edit"]++
			}
		case at.After(due) && g.TaskID != "":
			w.counted["put off"]++
		}
	}
}

// recalendared reports whether a version has another calendar of the job, or none.
func (w *world) recalendared(name string) bool {
	a, in := w.plan.Jobs[name]
	b, edited := w.plan.Edited[name]
	return !in || !edited || a.ICS != b.ICS || a.Kept != b.Kept
}

// judgePutOff: no due time runs while its calendars leave it out. With w.mu held.
func (w *world) judgePutOff(g memstore.Trigger) {
	list := w.epochs[g.Job]
	if g.Seq > 0 || g.TaskID == "" || len(list) == 0 || list[len(list)-1].closed == nil {
		return
	}
	e, due := list[len(list)-1], time.UnixMicro(g.At).UTC()
	if at, runs := e.closed.runsAt(e.times, due); !runs || at.After(w.latest()) {
		w.violate(g.Job, "job %s: the due time %v runs now, at %v; by its calendars: %v, at %v", g.Job, due, w.latest(), runs, at)
	}
}
