package why

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// undecided are the causes of a due time without a row.
func (x *ofJob) undecided(w *wire.WhyJob) []wire.Cause {
	if c, is := x.none(w); is {
		return []wire.Cause{c}
	}
	all := x.stops()
	last := wire.Cause{Code: reason.Due, Until: x.About, Message: "is due in " + lasting(x.About.Sub(x.At)) + ", at " + clock(x.About)}
	if passed := x.At.Sub(x.About); passed > 0 {
		last.Message = "was due " + lasting(passed) + " ago, at " + clock(x.About)
	}
	if local := x.About.In(x.here.Zone); local.Format(time.DateTime) != x.About.UTC().Format(time.DateTime) {
		last.Message += ", " + local.Format("2006-01-02 15:04:05 MST") + " in its zone"
	}
	if fires := x.fires(); fires.After(x.About) {
		last.Until = fires
		last.Message += "; a calendar leaves out that time, and it runs for the others at " + clock(fires)
	}
	if starts := x.starts(); starts.After(x.fires()) {
		last.Until = starts
		last.Message += "; with its jitter it starts at " + clock(starts)
	}
	if !x.starts().After(x.At) {
		last = wire.Cause{Code: reason.Undecided, Since: x.About, Message: fmt.Sprintf("was due %s ago, and no replica has decided it yet", x.At.Sub(x.About).Round(time.Millisecond))}
		if len(all) == 0 {
			last.Message += "; any live replica does that within a second"
		}
		all = append([]wire.Cause{last}, all...)
		if c, is := x.isResumed(); is {
			all = append(all, c)
		}
		return all
	}
	if len(all) == 0 {
		last.Message += "; nothing is known that would stop it"
	}
	all = append(all, last)
	if c, is := x.isResumed(); is {
		all = append(all, c)
	}
	return all
}

// lasting is a length of time in whole seconds; from two days on in days and hours.
func lasting(d time.Duration) string {
	const day = 24 * time.Hour
	if d < 2*day {
		return d.Round(time.Second).String()
	}
	d = d.Round(time.Hour)
	if hours := d % day / time.Hour; hours > 0 {
		return fmt.Sprintf("%dd%dh", d/day, hours)
	}
	return fmt.Sprintf("%dd", d/day)
}

// isResumed: an override has the job run although its definition suspends it.
func (x *ofJob) isResumed() (c wire.Cause, is bool) {
	if o := x.Job.Override; o == nil || *o || !x.here.InFile {
		return c, false
	}
	c = wire.Cause{Code: reason.Resumed, Override: true, By: x.Job.SuspendedBy, Until: x.Job.SuspendedUntil}
	c.Message = "its definition suspends the job, and it was resumed" + after(" by ", c.By) + ", which comes before that; 'scheduler jobs resume " + x.Job.Name + " --reset' has the definition hold again"
	return c, true
}

// stretches is how many closures of a row are looked through for the due time before a time.
const stretches = 1000

// passOver takes the row away if it stands for due times on either side of the time, which is none of them. Its definition has to be known, and to have
// its first due time: else it is not known which these are.
func (x *ofJob) passOver() {
	r := x.Row
	if r == nil || x.Definition == nil || !r.At.Before(x.About) || !x.About.Before(r.Until) {
		return
	}
	if s := x.schedule(); s != nil && x.has(s, r.At) && !x.has(s, x.About) {
		x.Row, x.among = nil, r
	}
}

// schedule is the one of then, or else that of the replica that answers; nil: neither is known.
func (x *ofJob) schedule() *jobs.Schedule {
	if x.here.Then != nil {
		return x.here.Then
	}
	return x.here.Schedule
}

// has reports whether a schedule has a due time, be it one that a calendar leaves out.
func (x *ofJob) has(s *jobs.Schedule, due time.Time) bool {
	before := due.Add(-time.Nanosecond)
	leftOut, _ := s.LeftOut(before, due, 1)
	return len(leftOut) > 0 || s.Next(before).Equal(due)
}

// none: there is no such due time, or nothing is known of it.
func (x *ofJob) none(w *wire.WhyJob) (c wire.Cause, is bool) {
	x.beside(w)
	passed := !x.About.IsZero() && !x.About.After(x.At)
	then := x.schedule()
	fits := then == nil || x.About.IsZero() || then.Next(x.About.Add(-time.Nanosecond)).Equal(x.About)
	undecided := passed && x.About.After(x.Job.Cursor) && !x.Job.NextAt.IsZero() && !x.Job.NextAt.After(x.About)
	switch {
	case passed && !undecided && len(x.ByHand) > 0:
		return x.byHand(fits && then != nil), true
	case passed && !undecided && !x.Known.IsZero() && x.About.Before(x.Known) && (x.First.IsZero() || x.About.Before(x.First)):
		return wire.Cause{Code: reason.BeforeJob, Since: x.Known, Message: "is before " + clock(x.Known) + ", from when on the job is known"}, true
	case passed && !undecided && x.About.Before(x.First):
		return wire.Cause{Code: reason.BeforeLedger, Since: x.First, Message: "is before the oldest row that the ledger has of the job, " + clock(x.First) + "; older ones were deleted, as store.retention.triggers says, or the job was new"}, true
	case x.Job.Retired && !passed:
		return wire.Cause{Code: reason.JobRemoved, Message: "will not run: no live configuration has the job"}, true
	case !fits && x.leftOut() != "":
		return wire.Cause{Code: reason.Calendar, Message: "is left out by calendar " + x.leftOut() + x.nearest(w)}, true
	case !fits:
		return wire.Cause{Code: reason.NotADueTime, Message: "is no due time of the job" + x.nearest(w)}, true
	case x.here.Known && x.here.Schedule == nil && !passed:
		return wire.Cause{Code: reason.OnDemand, Message: "has no schedule: it runs on demand"}, true
	case passed && then == nil && x.here.Known && x.Definition != nil:
		return wire.Cause{Code: reason.OnDemand, Message: "has no schedule, and the ledger has no run for " + clock(x.About)}, true
	case x.About.IsZero():
		return wire.Cause{Code: reason.NoFurther, Message: "has no further due time" + x.allowed() + x.nearest(w)}, true
	case passed && !undecided:
		return wire.Cause{Code: reason.NoRow, Message: "has no row in the ledger: the job had another schedule then, or no live configuration had it" + x.nearest(w)}, true
	}
	return c, false
}

// byHand: no schedule asked for what ran then. due: it is a due time of the job's schedule all the same.
func (x *ofJob) byHand(due bool) wire.Cause {
	r := x.ByHand[0]
	c := wire.Cause{Code: reason.ByHand, By: r.By, Since: r.DecidedAt, Count: len(x.ByHand), Message: "is no due time of the job: a run by hand was asked for then" + after(", by ", r.By)}
	if due {
		c.Message = "was not decided by the job's schedule, which was another one or none then: a run was asked for" + after(" by ", r.By)
	}
	switch {
	case r.TaskID != "":
		c.Message += "; it is task " + r.TaskID
		c.Tasks = []wire.WhyTask{{ID: r.TaskID, State: r.Result, Replica: r.Replica, StartedAt: r.StartedAt}}
	case r.Outcome == jobs.Skipped:
		c.Message += after(", and skipped: ", r.Reason)
	}
	if r.Result != "" {
		c.Message += ", which " + endedIn(r.Result) + " at " + clock(r.FinishedAt) + after(": ", r.Reason)
	}
	return c
}

// allowed says which calendar leaves out the next due times, where there are some.
func (x *ofJob) allowed() string {
	next := x.firstLeftOut(x.At, x.At.AddDate(1, 0, 0))
	if next.Calendar == "" {
		return ""
	}
	return " that its calendars allow: calendar " + next.Calendar + " leaves out the next ones, from " + clock(next.First)
}

// leftOut is the calendar that leaves out the due time; "": none does.
func (x *ofJob) leftOut() string {
	return x.firstLeftOut(x.About.Add(-time.Nanosecond), x.About).Calendar
}

// firstLeftOut is what calendars leave out first of (after, until], by what the replica that answers has; the zero value: nothing, or another definition
// is asked about.
func (x *ofJob) firstLeftOut(after, until time.Time) (first jobs.LeftOut) {
	if x.here.Schedule == nil || x.here.Then != nil {
		return first
	}
	if all, _ := x.here.Schedule.LeftOut(after, until, 1); len(all) > 0 {
		first = all[0]
	}
	return first
}

// beside finds the due times next to the one asked about: by the schedule of then, and by the ledger.
func (x *ofJob) beside(w *wire.WhyJob) {
	s := x.schedule()
	about := x.About
	if about.IsZero() {
		about = x.At
	}
	if s != nil {
		if before := s.Latest(time.Time{}, about.Add(-time.Nanosecond), 1); len(before) > 0 {
			w.Before = before[0]
		}
		w.After = s.Next(about)
		if d := x.Definition; d != nil && x.here.Then != nil && !d.Until.IsZero() && !w.After.Before(d.Until) {
			w.After = time.Time{} // that definition does not govern any more
		}
	}
	if b := x.JobFacts.Before; b != nil {
		if at := cmp.Or(b.Until, b.At); at.After(w.Before) {
			w.Before = at
		}
	}
	if r := x.among; r != nil { // what calendars leave out has rows, too
		if left, _ := s.LeftOut(r.At.Add(-time.Nanosecond), about, stretches); len(left) > 0 && left[len(left)-1].Last.After(w.Before) {
			w.Before = left[len(left)-1].Last
		}
		if left, _ := s.LeftOut(about, r.Until, 1); len(left) > 0 && (w.After.IsZero() || left[0].First.Before(w.After)) {
			w.After = left[0].First
		}
	}
	if a := x.JobFacts.After; a != nil && (w.After.IsZero() || a.At.Before(w.After)) {
		w.After = a.At
	}
}

func (x *ofJob) nearest(w *wire.WhyJob) string {
	var said []string
	if !w.Before.IsZero() {
		said = append(said, clock(w.Before)+" before it")
	}
	if !w.After.IsZero() {
		said = append(said, clock(w.After)+" after it")
	}
	switch len(said) {
	case 0:
		return ""
	case 1:
		return "; the nearest is " + said[0]
	}
	return "; the nearest are " + strings.Join(said, " and ")
}

// summary is the first cause with its subject.
func (x *ofJob) summary(causes []wire.Cause) string {
	first := causes[0]
	switch first.Code {
	case reason.OnDemand, reason.NoFurther:
		return x.Job.Name + " " + first.Message
	case reason.Calendar, reason.NotADueTime, reason.ByHand, reason.BeforeJob, reason.BeforeLedger:
		return clock(x.About) + " " + first.Message
	case reason.JobRemoved:
		return x.Job.Name + " " + first.Message
	case reason.Due:
		return x.Job.Name + " " + first.Message
	case reason.Undecided, reason.NoRow:
		return x.subject() + " " + first.Message
	}
	return x.subject() + " may not run: " + first.Message
}
