package triggers

import (
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
)

// taken is what keeps a run of a job from starting. The zero value is a free slot.
type taken struct {
	code   reason.Code
	why    string // which run is in the way, where it is and since when, as far as the locked rows say
	remedy string // what the caller of a run can do
	until  time.Time
	force  string // what forces a run over the lost attempts that are in the way; see [jobs.LostError]
}

// slotTaken says what is in the way of a run of the job.
func (d rules) slotTaken(j *plan.Job, state ledger.JobState) taken {
	n := slotCount(j)
	switch open := len(state.Open); {
	case j.Concurrency == jobs.Allow || open+state.LostSlots(d.now, n) < n:
		return taken{}
	case open >= n:
		first := state.Open[0]
		why := d.stands(first)
		if more := open - 1; more > 0 { // with one slot, from a time when the job had more
			why += fmt.Sprintf("; %d more of the job are open", more)
		}
		return taken{code: reason.SlotTaken, why: why, remedy: "wait for its end, or cancel it first: scheduler tasks cancel " + first.ID}
	default:
		lost := taken{code: reason.LostMayRun, why: mayRun(state), until: state.BusyUntil, force: forceOver(state)}
		lost.remedy = "try again then; if you know that it has ended"
		if len(state.Lost) > 1 {
			lost.remedy = "try again then; see them: scheduler tasks list --job " + j.Name + " --state lost; if you know that all of them have ended"
		}
		if open > 0 {
			lost.why += fmt.Sprintf("; %d more of the job are open", open)
		}
		return lost
	}
}

// refusal is the error of a run that cannot start; command starts it over lost attempts; force is what the caller gave.
func (t taken) refusal(job, command, force string) error {
	if t.force == "" {
		return fmt.Errorf("%w: %s; %s", jobs.ErrConflict, t.why, t.remedy)
	}
	why := t.why + "; "
	if force != "" {
		why += fmt.Sprintf("force does not name it but %.80q; ", force)
	}
	return &jobs.LostError{Job: job, Until: t.until, Force: t.force, Reason: why + t.remedy + ", start it now: " + command + " --force=" + t.force}
}

// forceOver is what forces a run over the present lost attempts of a busy job: another loss changes it.
func forceOver(state ledger.JobState) string {
	if len(state.Lost) > 0 {
		return state.Lost[0].ID
	}
	return state.BusyUntil.UTC().Format(time.RFC3339Nano)
}

// mayRun says until when lost attempts keep the job busy, and which run the last one is of.
func mayRun(state ledger.JobState) string {
	until := second(state.BusyUntil)
	if len(state.Lost) == 0 {
		return "a lost attempt may run until " + until
	}
	last := state.Lost[0]
	was := runOf(last.ID, last.ScheduledAt) + " was lost with replica " + last.Replica + " at " + second(last.At)
	if more := len(state.Lost) - 1; more > 0 { // from a time when the job allowed it
		return fmt.Sprintf("%d lost attempts may run until %s: %s, %d before", more+1, until, was, more)
	}
	return "a lost attempt may run until " + until + ": " + was
}

// override applies force: the job counts as free, though the lost attempts that it names may still run, as the note says.
// An open task keeps the slot: force is for lost attempts only.
func (d rules) override(j *plan.Job, state ledger.JobState, force string) (free ledger.JobState, note string) {
	if d.slotTaken(j, state).force != force || force == "" {
		return state, ""
	}
	note = "forced although " + mayRun(state)
	state.BusyUntil, state.Lost = time.Time{}, nil
	return state, note
}

// stands says which state an open task is in.
func (d rules) stands(t jobs.Task) string {
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

// openedFirst says of a due time that an earlier one got the slot in the same decision. Whether that one starts at once is
// not known yet.
func openedFirst(task string, due, now time.Time) taken {
	return taken{code: reason.SlotTaken, why: runOf(task, due) + " was opened first, at " + second(now), remedy: "wait for its end, or cancel it first: scheduler tasks cancel " + task}
}

func runOf(task string, at time.Time) string {
	return "the run of " + rfc3339(at) + " (task " + task + ")"
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// second is a time as messages show it.
func second(t time.Time) string { return t.UTC().Format(time.RFC3339) }
