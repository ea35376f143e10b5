package triggers

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
)

// leftOutLimit is how many rows one decision writes of due times that calendars leave out: an outage of years has one for each night. As
// with freshLimit, the next decision goes on where this one ends.
const leftOutLimit = 500

// coverage is the rows of a decision about one job, in order, and how far they reach. Where calendars leave due times out, their rows stand
// between the others.
type coverage struct {
	rules
	job    *plan.Job
	rows   []ledger.Opening
	begun  time.Time // exactly the due times up to here have started; of a job with a schedule
	cursor time.Time // all due times up to here have a row
	full   bool      // as many rows as one decision may have: nothing more is added
}

// add adds the row of one due time, which is the next one.
func (c *coverage) add(o ledger.Opening) {
	c.rows = append(c.rows, o)
	c.cursor = o.Trigger.At
}

// pass adds rows for all due times up to and including until: those that do not run, for this reason, and those that are left out. It reports
// whether there was room for all.
func (c *coverage) pass(until time.Time, o jobs.Outcome, code reason.Code, why string) bool {
	return c.cover(until, func(s plan.Stretch) ledger.Opening { return c.rules.pass(c.job, s, o, code, why) })
}

// leaveOut adds rows for all due times up to and including until, which are left out. It reports whether there was room for all.
func (c *coverage) leaveOut(until time.Time) bool { return c.cover(until, nil) }

func (c *coverage) cover(until time.Time, pass func(plan.Stretch) ledger.Opening) bool {
	if c.full {
		return false
	}
	if !until.After(c.cursor) {
		return true
	}
	passed := func(until time.Time) {
		if pass == nil {
			return
		}
		if s := plan.Between(c.job.Times, c.cursor, until); s.Count > 0 {
			c.rows, c.cursor = append(c.rows, pass(s)), s.Last
		}
	}
	out, more := c.job.Times.LeftOut(c.cursor, until, leftOutLimit)
	for _, o := range out {
		passed(o.First.Add(-time.Nanosecond))
		c.leave(o)
	}
	if c.full = more; !more {
		passed(until)
	}
	return !more
}

// leave adds the row of a stretch that is left out, or makes the last row longer where that is of the same.
func (c *coverage) leave(o jobs.LeftOut) {
	why := plan.WhyLeftOut(o)
	if n := len(c.rows) - 1; n >= 0 && c.rows[n].Trigger.ReasonCode == reason.Calendar && c.rows[n].Trigger.Reason == why {
		last := &c.rows[n].Trigger
		last.Count, last.Until = last.Count+o.Count, o.Last
	} else {
		row := c.rules.pass(c.job, plan.Stretch{First: o.First, Last: o.Last, Count: o.Count}, jobs.Skipped, reason.Calendar, why)
		row.Trigger.Cause = jobs.CauseSchedule // it is not made up for, however late it is written
		c.rows = append(c.rows, row)
	}
	c.cursor = o.Last
}
