package triggers

import (
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
)

// freshLimit bounds how many due times within the grace one decision opens or skips. The next decision covers those
// beyond: the cursor says how far this one came.
const freshLimit = 1000

// rules decide due times. They hold no state: the store may call decide again with newer rows.
type rules struct {
	plan    *plan.Plan
	replica string
	of      string // namespace of the starts
	now     time.Time
	newID   func(job string, n int) string // the id of the n-th task that this decision opens for a job
}

// decide covers every due time of (cursor, now] with a ledger row, in order.
//
// With jitter a trigger is due when it starts, for all that follows; due times stay in the rows. Due times that calendars leave out are skipped. Of the others those within the grace run, later ones as the catch-up policy says: none of them, the latest
// unless one within the grace runs anyway, or all within window and limit. While the job's slot is
// taken, a due time is skipped, waits, or replaces the run, see slots; with policy all a late one that
// would be skipped waits for the slot instead, so that all of them run, one after the other. Orders of the job come last.
func (d rules) decide(state ledger.JobState) (dec ledger.Decision, ok bool) {
	j, known := d.plan.Jobs[state.Name]
	if !known || j.Hash != state.Hash {
		return dec, false // a configuration that this replica does not have governs the job
	}
	dec.Job = state.Name
	var due span
	held := d.suspended(j, state)
	c := &coverage{rules: d, job: j, cursor: state.Cursor}
	if j.Times != nil {
		c.begun = j.Starts(d.of).Begun(d.now)
		dec.Skipped = c.hold(state)
	}
	if j.Times != nil && !held {
		due = c.due()
	}
	slots := d.slotsOf(j, state, len(due.runs)+d.ordered(state), &dec)
	switch {
	case j.Times == nil:
	case held:
		due.all = c.pass(c.begun, jobs.Skipped, reason.Suspended, "suspended")
	default:
		c.miss(due.passed)
	}
	waits := time.Time{} // with policy all
	for i, at := range due.runs {
		if !c.leaveOut(at.Add(-time.Nanosecond)) {
			break
		}
		late := d.late(j, at)
		if slots.overtaken(len(due.runs) - i - 1) {
			c.add(d.pass(j, plan.Stretch{First: at, Last: at, Count: 1}, jobs.Skipped, reason.Replaced, "replaced by the due time "+rfc3339(due.runs[len(due.runs)-1])+", before it started"))
			continue
		}
		switch opening, taken := slots.ask(jobs.Trigger{Job: j.Name, At: at, Cause: causeOf(late)}); {
		case taken.why == "":
			c.add(opening)
		case late && j.CatchUp.Policy == jobs.CatchUpAll:
			waits = at
		default:
			c.add(d.pass(j, plan.Stretch{First: at, Last: at, Count: 1}, jobs.Skipped, taken.code, taken.why))
		}
		if !waits.IsZero() {
			break
		}
	}
	if due.all && waits.IsZero() {
		c.leaveOut(c.begun)
	}
	dec.Triggers = c.rows
	slots.order(state, c.cursor, due.all && waits.IsZero() && !c.full)
	switch {
	case !waits.IsZero():
		dec.Wait(waits, d.now)
	case len(c.rows) > 0 || slots.changed():
		slots.close(c.cursor)
	}
	return dec, true
}

// span is what is due: first the due times that no longer run, then those that the catch-up policy and the grace let
// run, in order.
type span struct {
	passed time.Time // those up to here no longer run
	runs   []time.Time
	all    bool // there are no others
}

// due splits the due times after the cursor that start by now. It walks through those that run, and only counts the others: an outage of
// weeks costs no more than one of minutes.
func (c *coverage) due() span {
	j := c.job
	lateUntil := j.Starts(c.of).Begun(c.now.Add(-j.CatchUp.Grace - time.Nanosecond))
	fresh, more := j.Times.Between(later(c.cursor, lateUntil), c.begun, freshLimit)
	budget := 0
	switch {
	case j.CatchUp.Policy == jobs.CatchUpAll:
		budget = j.CatchUp.Limit
	case j.CatchUp.Policy == jobs.CatchUpLatest && len(fresh) == 0:
		budget = 1
	}
	var late []time.Time
	if budget > 0 {
		late = j.Times.Latest(later(c.cursor, c.tooOld(j)), lateUntil, budget)
	}
	s := span{passed: lateUntil, runs: append(late, fresh...), all: !more}
	if len(late) > 0 {
		s.passed = late[0].Add(-time.Nanosecond)
	}
	return s
}

// tooOld is the time up to which due times are older than the catch-up window.
func (d rules) tooOld(j *plan.Job) time.Time {
	return j.Starts(d.of).Begun(d.now.Add(-j.CatchUp.Window - time.Nanosecond))
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (d rules) late(j *plan.Job, at time.Time) bool {
	return j.Starts(d.of).Of(at).Before(d.now.Add(-j.CatchUp.Grace))
}

func causeOf(late bool) jobs.Cause {
	if late {
		return jobs.CauseCatchUp
	}
	return jobs.CauseSchedule
}

// miss adds the rows of due times that were decided too late, up to and including until: those beyond the window, and the others.
func (c *coverage) miss(until time.Time) {
	j := c.job
	if !until.After(c.cursor) {
		return // mostly, as nothing is late
	}
	old := c.pass(earlier(c.tooOld(j), until), jobs.Missed, reason.CatchUpWindow, fmt.Sprintf("older than the catch-up window of %v", j.CatchUp.Window))
	if old {
		code, why := missedBecause(j)
		c.pass(until, jobs.Missed, code, why)
	}
}

func missedBecause(j *plan.Job) (reason.Code, string) {
	switch j.CatchUp.Policy {
	case jobs.CatchUpNone:
		return reason.CatchUpNone, "catch-up policy none"
	case jobs.CatchUpAll:
		return reason.CatchUpLimit, fmt.Sprintf("beyond the catch-up limit of %d", j.CatchUp.Limit)
	}
	return reason.CatchUpLatest, "catch-up policy latest: a later due time stands for it"
}

// pass is the row of due times that do not run.
func (d rules) pass(j *plan.Job, r plan.Stretch, o jobs.Outcome, code reason.Code, why string) ledger.Opening {
	t := jobs.Trigger{
		Job: j.Name, At: r.First, Count: r.Count, Cause: causeOf(d.late(j, r.First)),
		Outcome: o, Reason: why, ReasonCode: code, Replica: d.replica,
	}
	if r.Count > 1 {
		t.Until = r.Last
	}
	return ledger.Opening{Trigger: t}
}

// open makes the task of trigger t.
func (d rules) open(j *plan.Job, t jobs.Trigger, n int) ledger.Opening {
	id := d.newID(j.Name, n)
	t.Count, t.TaskID, t.Replica = 1, id, d.replica
	task := &jobs.Task{
		ID: id, Pool: j.Pool, Kind: j.Kind, Job: j.Name, ScheduledAt: t.At, Seq: t.Seq,
		MaxAttempts: j.Retries.Limit + 1, OnLost: j.OnLost, LostLimit: j.LostLimit, RunAt: d.now, Payload: j.Payload, By: t.By,
		Priority: j.Priority,
	}
	o := ledger.Opening{Trigger: t, Task: task}
	due := t.At
	switch {
	case t.Cause == jobs.CauseBackfill: // its due time has passed long ago
		due = d.now
	case t.Seq == 0 && j.Times != nil: // of the schedule
		due = j.Starts(d.of).Of(t.At)
	}
	if within := j.Expect.StartWithin; within > 0 {
		o.StartBy = due.Add(within)
	}
	if within := j.Expect.FinishWithin; within > 0 {
		o.FinishBy = due.Add(within)
	}
	return o
}
