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
	now     time.Time
	newID   func(job string, n int) string // the id of the n-th task that this decision opens for a job
}

// decide covers every due time of (cursor, now] with a ledger row, in order.
//
// Due times within the grace run, later ones as the catch-up policy says: none of them, the latest
// unless one within the grace runs anyway, or all within window and limit. While the job's slot is
// taken (forbid), a due time is skipped; with policy all a late one waits for the slot instead, so
// that all of them run, one after the other.
func (d rules) decide(state ledger.JobState) (dec ledger.Decision, ok bool) {
	j, known := d.plan.Jobs[state.Name]
	if !known || j.Hash != state.Hash {
		return dec, false // a configuration that this replica does not have governs the job
	}
	dec.Job = state.Name
	if j.Times == nil {
		return dec, true
	}
	due := d.due(j, state.Cursor)
	if due.last().IsZero() {
		return dec, true
	}
	if suspended(j, state) {
		due = span{passed: between(j, state.Cursor, d.now)}
		dec.Triggers = append(dec.Triggers, d.pass(j, due.passed, jobs.Skipped, reason.Suspended, "suspended"))
	} else {
		dec.Triggers = d.miss(j, due.passed)
	}
	dec.Cursor = due.passed.last
	taken := d.slotTaken(j, state)
	opened := 0
	for _, at := range due.runs {
		late := d.late(j, at)
		switch {
		case taken.why == "":
			opening := d.open(j, jobs.Trigger{Job: j.Name, At: at, Cause: causeOf(late)}, opened)
			opened++
			dec.Triggers = append(dec.Triggers, opening)
			if j.Concurrency != jobs.Allow {
				taken = openedFirst(opening, d.now)
			}
		case late && j.CatchUp.Policy == jobs.CatchUpAll:
			dec.Wait(at, d.now)
			return dec, true
		default:
			dec.Triggers = append(dec.Triggers, d.pass(j, stretch{at, at, 1}, jobs.Skipped, taken.code, taken.why))
		}
		dec.Cursor = at
	}
	dec.NextAt = j.Next(dec.Cursor)
	return dec, true
}

// span is what is due: first the due times that no longer run, then those that the catch-up policy and the grace let
// run, in order.
type span struct {
	passed stretch
	runs   []time.Time
}

// stretch is count due times from first to last.
type stretch struct {
	first, last time.Time
	count       int
}

func (s span) last() time.Time {
	if len(s.runs) > 0 {
		return s.runs[len(s.runs)-1]
	}
	return s.passed.last
}

// due splits the due times of (cursor, now]. It walks through those that run, and only counts the others: an outage of
// weeks costs no more than one of minutes.
func (d rules) due(j *plan.Job, cursor time.Time) span {
	lateUntil := d.now.Add(-j.CatchUp.Grace - time.Nanosecond)
	fresh, _ := j.Times.Between(later(cursor, lateUntil), d.now, freshLimit)
	budget := 0
	switch {
	case j.CatchUp.Policy == jobs.CatchUpAll:
		budget = j.CatchUp.Limit
	case j.CatchUp.Policy == jobs.CatchUpLatest && len(fresh) == 0:
		budget = 1
	}
	var late []time.Time
	if budget > 0 {
		late = j.Times.Latest(later(cursor, d.now.Add(-j.CatchUp.Window-time.Nanosecond)), lateUntil, budget)
	}
	s := span{runs: append(late, fresh...)}
	passedUntil := lateUntil
	if len(late) > 0 {
		passedUntil = late[0].Add(-time.Nanosecond)
	}
	s.passed = between(j, cursor, passedUntil)
	return s
}

// between is the due times of (after, until].
func between(j *plan.Job, after, until time.Time) stretch {
	first := j.Next(after)
	if first.IsZero() || first.After(until) {
		return stretch{}
	}
	count, _ := j.Times.CountBetween(after, until)
	return stretch{first, j.Times.Latest(after, until, 1)[0], count}
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

func suspended(j *plan.Job, state ledger.JobState) bool {
	if state.Suspended != nil {
		return *state.Suspended
	}
	return j.Suspend
}

func (d rules) late(j *plan.Job, at time.Time) bool { return at.Before(d.now.Add(-j.CatchUp.Grace)) }

func causeOf(late bool) jobs.Cause {
	if late {
		return jobs.CauseCatchUp
	}
	return jobs.CauseSchedule
}

// miss is the rows of due times that were decided too late: those beyond the window, and the others.
func (d rules) miss(j *plan.Job, passed stretch) (rows []ledger.Opening) {
	if passed.count == 0 {
		return nil
	}
	edge := d.now.Add(-j.CatchUp.Window)
	before := passed.first.Add(-time.Nanosecond)
	if old := between(j, before, earlier(edge.Add(-time.Nanosecond), passed.last)); old.count > 0 {
		rows = append(rows, d.pass(j, old, jobs.Missed, reason.CatchUpWindow,
			fmt.Sprintf("older than the catch-up window of %v", j.CatchUp.Window)))
		before = old.last
	}
	if rest := between(j, before, passed.last); rest.count > 0 {
		code, why := missedBecause(j)
		rows = append(rows, d.pass(j, rest, jobs.Missed, code, why))
	}
	return rows
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
func (d rules) pass(j *plan.Job, r stretch, o jobs.Outcome, code reason.Code, why string) ledger.Opening {
	t := jobs.Trigger{
		Job: j.Name, At: r.first, Count: r.count, Cause: causeOf(d.late(j, r.first)),
		Outcome: o, Reason: why, ReasonCode: code, Replica: d.replica,
	}
	if r.count > 1 {
		t.Until = r.last
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
	}
	return ledger.Opening{Trigger: t, Task: task}
}
