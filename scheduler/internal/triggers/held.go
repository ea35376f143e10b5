package triggers

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
)

// hold adds the rows of the first due times that have fired and do not run whatever the policies of the job say, and returns how many of these a
// user has skipped:
//
//  1. as many as a user has skipped, the next that were not decided, whatever would have become of them otherwise
//  2. those before the end of a suspension that has ended by itself
func (c *coverage) hold(state ledger.JobState) (skipped int) {
	if state.SkipNext > 0 {
		if next, _ := c.job.Times.Between(c.cursor, c.begun, state.SkipNext); len(next) > 0 {
			why := "skipped by hand"
			if state.SkipBy != "" {
				why = "skipped by " + state.SkipBy
			}
			before := len(c.rows)
			c.pass(next[len(next)-1], jobs.Skipped, reason.SkipNext, why)
			for _, o := range c.rows[before:] {
				if o.Trigger.ReasonCode == reason.SkipNext {
					skipped += o.Trigger.Count
				}
			}
		}
	}
	if s := state.Suspension; s.Holds(false) && s.At(c.now).Suspended == nil {
		c.pass(earlier(c.begun, c.job.Starts(c.of).Begun(s.Until.Add(-time.Microsecond))), jobs.Skipped, reason.Suspended, "suspended")
	}
	return skipped
}

// suspended reports whether the job is, by an override or else by its definition.
func (d rules) suspended(j *plan.Job, state ledger.JobState) bool {
	return state.Suspension.At(d.now).Holds(j.Suspend)
}
