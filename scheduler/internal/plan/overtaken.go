package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/foresight"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// mostOvertaken is how many rows an edit writes of due times of one job that calendars left out; what is beyond is one row.
const mostOvertaken = 100

// overtaken returns what ledger.Definitions.Overtaken does, by the definition in the history:
//
//  1. What its calendars left out is skipped, as ever; but with OtherwiseNext, what a due time was to run for after the edit is missed.
//  2. All else is missed, or skipped if the job is suspended.
//  3. Where its calendars have other times now, what they left out is unknown: if nothing was to run yet, it is all, else none.
//
// known is false if this program cannot read the definition.
func (p *Plan) overtaken(compiler *jobs.Compiler, o ledger.Overtaken) (rows []jobs.Trigger, known bool) {
	was, err := foresight.ReadShown(o.Definition)
	switch {
	case err != nil:
		return nil, false
	case len(was.Schedules) == 0, !was.Calendars.Any() && !o.Pending():
		return nil, true // mostly
	}
	job := was.Job()
	within := was.Within(p.calendars) // true without any
	job.Calendars = jobs.JobCalendars{}
	all, err := job.Compile(o.Job)
	if err != nil {
		return nil, false
	}
	override := o.Suspension.At(o.Now)
	suspended := override.Until.IsZero() && override.Holds(was.Suspend)
	cursor := o.Cursor
	pass := func(until time.Time) {
		s := Between(all, cursor, until)
		if s.Count == 0 {
			return
		}
		row := o.Row(s.First, s.Last, s.Count)
		switch {
		case !within && !o.Pending() && was.Calendars.Otherwise != jobs.OtherwiseNext:
			row.Outcome, row.ReasonCode = jobs.Skipped, reason.Calendar
			row.Reason = fmt.Sprintf("the calendars that the job had left it out: %s", strings.Join(slices.Concat(was.Calendars.Exclude, was.Calendars.Only), ", "))
		case suspended:
			row.Outcome, row.ReasonCode, row.Reason = jobs.Skipped, reason.Suspended, "suspended"
		}
		rows, cursor = append(rows, row), s.Last
	}
	var out []jobs.LeftOut
	if within && was.Calendars.Any() {
		job.Calendars = was.Calendars
		times, err := compiler.Compile(o.Job, job)
		if err != nil {
			return nil, false
		}
		out, _ = times.LeftOut(o.Cursor, o.Now, mostOvertaken)
	}
	for _, left := range out {
		if left.Instead.After(o.Now) {
			continue
		}
		pass(left.First.Add(-time.Nanosecond))
		row := o.Row(left.First, left.Last, left.Count)
		row.Outcome, row.ReasonCode, row.Reason = jobs.Skipped, reason.Calendar, WhyLeftOut(left)
		rows, cursor = append(rows, row), left.Last
	}
	pass(o.Now)
	return rows, true
}

// Stretch is Count due times from First to Last.
type Stretch struct {
	First, Last time.Time
	Count       int
}

// Between is the due times of (after, until] that run.
func Between(times *jobs.Schedule, after, until time.Time) Stretch {
	first := times.Next(after)
	if first.IsZero() || first.After(until) {
		return Stretch{}
	}
	count, _ := times.CountBetween(after, until)
	return Stretch{first, times.Latest(after, until, 1)[0], count}
}

// WhyLeftOut is the reason of due times that a calendar leaves out.
func WhyLeftOut(o jobs.LeftOut) string {
	why := "calendar " + o.Calendar + " excludes it"
	if o.Outside {
		why = "outside of calendar " + o.Calendar
	}
	if !o.Instead.IsZero() {
		why += fmt.Sprintf("; the run of %s stands for it", o.Instead.UTC().Format(time.RFC3339))
	}
	return why
}
