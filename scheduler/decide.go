package scheduler

import (
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

// enumerateLimit bounds how many due times one decision walks through. What lies beyond is decided
// by the next one: the cursor says how far this one came.
const enumerateLimit = 100_000

// lookAgain is when a job is looked at again whose catch-up waits for its slot.
const lookAgain = time.Second

// decider decides due times. It holds no state: the store may ask it again with newer rows.
type decider struct {
	plan    *plan
	replica string
	now     time.Time
	newID   func(job string, n int) string // the id of the n-th task that this decision opens for a job
	claims  func(job string) bool          // this replica has room for one attempt of the job
}

// decide covers every due time of (cursor, now] with a ledger row, in order.
//
// Due times within the grace run, later ones as the catch-up policy says: none of them, the latest
// unless one within the grace runs anyway, or all within window and limit. While the job's slot is
// taken (forbid), a due time is skipped; with policy all a late one waits for the slot instead, so
// that all of them run, one after the other.
func (d decider) decide(state ledger.JobState) (dec ledger.Decision, ok bool) {
	j, known := d.plan.jobs[state.Name]
	if !known || j.hash != state.Hash {
		return dec, false // governed by a configuration that this replica does not have
	}
	dec.Job = state.Name
	if j.schedule == nil {
		return dec, true
	}
	dueTimes, walked := j.dueTimes(state.Cursor, d.now)
	if len(dueTimes) == 0 {
		return dec, true
	}
	dec.Cursor = dueTimes[len(dueTimes)-1]
	dec.NextAt = j.next(dec.Cursor)
	if suspended(j, state) {
		dec.Triggers = d.pass(nil, j, dueTimes, jobs.Skipped, "suspended")
		return dec, true
	}
	taken, opened := d.slotTaken(j, state), 0
	runs := d.toRun(j, dueTimes, walked)
	for i := 0; i < len(dueTimes); i++ {
		at := dueTimes[i]
		if !runs[i] {
			from := i
			for i+1 < len(dueTimes) && !runs[i+1] {
				i++
			}
			dec.Triggers = d.pass(dec.Triggers, j, dueTimes[from:i+1], jobs.Missed, d.missedBecause(j, at))
			continue
		}
		late := d.late(j, at)
		switch {
		case taken == "":
			opening := d.open(j, jobs.Trigger{Job: j.name, At: at, Cause: causeOf(late)}, opened)
			opened++
			dec.Triggers = append(dec.Triggers, opening)
			if j.Concurrency != jobs.Allow {
				taken = "task " + opening.Task.ID + " has the slot"
			}
		case late && j.CatchUp.Policy == jobs.CatchUpAll:
			dec.NextAt = d.now.Add(lookAgain)
			if i == 0 {
				dec.Cursor = state.Cursor
			} else {
				dec.Cursor = dueTimes[i-1]
			}
			return dec, true
		default:
			dec.Triggers = d.pass(dec.Triggers, j, dueTimes[i:i+1], jobs.Skipped, taken)
		}
	}
	return dec, true
}

// dueTimes walks through (after, until]; walked is false if there were more than enumerateLimit.
func (j *jobPlan) dueTimes(after, until time.Time) (times []time.Time, walked bool) {
	for at := j.next(after); !at.IsZero() && !at.After(until); at = j.next(at) {
		if len(times) == enumerateLimit {
			return times, false
		}
		times = append(times, at)
	}
	return times, true
}

func suspended(j *jobPlan, state ledger.JobState) bool {
	if state.Suspended != nil {
		return *state.Suspended
	}
	return j.Suspend
}

// slotTaken says why no run of the job may start, or "".
func (d decider) slotTaken(j *jobPlan, state ledger.JobState) string {
	switch {
	case j.Concurrency == jobs.Allow:
		return ""
	case len(state.Open) > 0:
		return "task " + state.Open[0].ID + " has the slot"
	case state.BusyUntil.After(d.now):
		return "a lost attempt may run until " + state.BusyUntil.UTC().Format(time.RFC3339)
	}
	return ""
}

func (d decider) late(j *jobPlan, at time.Time) bool { return at.Before(d.now.Add(-j.CatchUp.Grace)) }

func causeOf(late bool) jobs.Cause {
	if late {
		return jobs.CauseCatchUp
	}
	return jobs.CauseSchedule
}

// toRun says which due times the catch-up policy lets run. Of a walk that did not reach the present
// only policy all may run anything: the latest due time is not among them.
func (d decider) toRun(j *jobPlan, dueTimes []time.Time, walked bool) []bool {
	runs := make([]bool, len(dueTimes))
	lateOnes := 0
	for i, at := range dueTimes {
		if d.late(j, at) {
			lateOnes = i + 1
		} else {
			runs[i] = true
		}
	}
	budget := 0
	switch j.CatchUp.Policy {
	case jobs.CatchUpAll:
		budget = j.CatchUp.Limit
	case jobs.CatchUpLatest:
		if lateOnes == len(dueTimes) && walked {
			budget = 1
		}
	}
	if !walked {
		budget = 0
	}
	for i := lateOnes - 1; i >= 0 && budget > 0; i-- {
		if d.now.Sub(dueTimes[i]) > j.CatchUp.Window {
			break
		}
		runs[i] = true
		budget--
	}
	return runs
}

func (d decider) missedBecause(j *jobPlan, at time.Time) string {
	switch {
	case d.now.Sub(at) > j.CatchUp.Window:
		return fmt.Sprintf("older than the catch-up window of %v", j.CatchUp.Window)
	case j.CatchUp.Policy == jobs.CatchUpNone:
		return "catch-up policy none"
	case j.CatchUp.Policy == jobs.CatchUpAll:
		return fmt.Sprintf("beyond the catch-up limit of %d", j.CatchUp.Limit)
	}
	return "catch-up policy latest: a later due time stands for it"
}

// pass adds a row for due times that do not run, one for all of them.
func (d decider) pass(rows []ledger.Opening, j *jobPlan, dueTimes []time.Time, o jobs.Outcome, reason string) []ledger.Opening {
	first, last := dueTimes[0], dueTimes[len(dueTimes)-1]
	t := jobs.Trigger{
		Job: j.name, At: first, Count: len(dueTimes), Cause: causeOf(d.late(j, first)),
		Outcome: o, Reason: reason, Replica: d.replica,
	}
	if len(dueTimes) > 1 {
		t.Until = last
	}
	return append(rows, ledger.Opening{Trigger: t})
}

// open makes t's task. It is born running if this replica may and can run it now.
func (d decider) open(j *jobPlan, t jobs.Trigger, n int) ledger.Opening {
	id := d.newID(j.name, n)
	t.Count, t.TaskID, t.Replica = 1, id, d.replica
	task := &jobs.Task{
		ID: id, Pool: j.Pool, Kind: j.Kind, Job: j.name, ScheduledAt: t.At, Seq: t.Seq,
		MaxAttempts: j.Retries.Limit + 1, OnLost: j.OnLost, RunAt: d.now, Payload: j.Payload,
	}
	o := ledger.Opening{Trigger: t, Task: task, Claim: n == 0 && d.claims(j.name)}
	if o.Claim {
		o.MayRunUntil = j.until(d.now)
	}
	return o
}
