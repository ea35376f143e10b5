package scheduler

import (
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

// slotTaken says why no run of the job may start, or "": whose run is in the way, where it is and since when, as far as
// the locked rows say. Who asked for a run is told the remedy, too: force is the command that starts it over a lost attempt.
func (d decider) slotTaken(j *jobPlan, state ledger.JobState, force string) (why, remedy string) {
	switch {
	case j.Concurrency == jobs.Allow:
		return "", ""
	case len(state.Open) > 0:
		first := state.Open[0]
		why = d.stands(first)
		if more := len(state.Open) - 1; more > 0 { // of a time when the job allowed it
			why += fmt.Sprintf("; %d more of the job are open", more)
		}
		return why, "wait for its end, or cancel it first: scheduler tasks cancel " + first.ID
	case state.BusyUntil.After(d.now):
		return d.mayRun(state), "try again then; if you know that it has ended, start it now: " + force
	}
	return "", ""
}

// mayRun says until when a lost attempt keeps the job busy, and whose it is.
func (d decider) mayRun(state ledger.JobState) string {
	why := "a lost attempt may run until " + second(state.BusyUntil)
	if lost := state.Lost; lost != nil {
		why += ": " + runOf(lost.ID, lost.ScheduledAt) + " was lost with replica " + lost.Replica + " at " + second(lost.At)
	}
	return why
}

// override is what force does: the job counts as free, though a lost attempt of it may still run, of which the note tells.
// An open task keeps the slot; force has no say about what a replica knows of.
func (d decider) override(j *jobPlan, state ledger.JobState) (free ledger.JobState, note string) {
	if j.Concurrency == jobs.Allow || len(state.Open) > 0 || !state.BusyUntil.After(d.now) {
		return state, ""
	}
	note = ledger.Forced + d.mayRun(state)
	state.BusyUntil, state.Lost = time.Time{}, nil
	return state, note
}

// stands says where an open task is.
func (d decider) stands(t ledger.OpenTask) string {
	run := runOf(t.ID, t.ScheduledAt)
	switch {
	case t.State == jobs.StateRunning:
		return run + " has been running on replica " + t.Replica + " since " + second(t.StartedAt)
	case !t.RunAt.After(d.now):
		return run + " has been pending in pool " + t.Pool + " since " + second(t.RunAt)
	case t.Attempt > 0:
		return run + " waits for a retry at " + second(t.RunAt)
	}
	return run + " waits until " + second(t.RunAt)
}

// openedFirst says of a due time that an earlier one got the slot in the same decision. Whether that starts at once is
// not known yet.
func openedFirst(o ledger.Opening, now time.Time) string {
	return runOf(o.Task.ID, o.Task.ScheduledAt) + " was opened first, at " + second(now)
}

func runOf(task string, at time.Time) string {
	return "the run of " + at.UTC().Format(time.RFC3339Nano) + " (task " + task + ")"
}

// second is a time for people.
func second(t time.Time) string { return t.UTC().Format(time.RFC3339) }
