package triggers

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
)

// slots are those of a job in one decision. What the decision opens, starts and ends is counted at once.
//
//	free slot           ──▶ a run that waits, the first in due order; then the due times
//	all taken, forbid   ──▶ the due time is skipped; beside a run of a backfill it waits, unless one does
//	           queue    ──▶ it waits, and is skipped where queue_limit runs wait
//	           replace  ──▶ it waits; what waited before is cancelled, and so is the oldest run, unless a slot is about to be free
type slots struct {
	rules
	job    *plan.Job
	dec    *ledger.Decision
	taken  func() taken // what is in the way once no slot is free
	free   int          // may be negative: the job had more slots
	open   []jobs.Task  // that have a slot and were not asked to stop, the oldest first; not those of this decision
	ending int          // slots that are taken by what was told to stop, or is lost
	queued []jobs.Task  // in due order
	opened int          // tasks of this decision

	backfilled bool // a run of a backfill has a slot
}

// slotsOf gives the slots that are free to runs that wait, and begins dec with that. While the job is suspended only runs by hand get one, and the others
// are skipped. wanted is how many runs are about to ask: with replace they come before those that wait.
func (d rules) slotsOf(j *plan.Job, state ledger.JobState, wanted int, dec *ledger.Decision) *slots {
	s := &slots{rules: d, job: j, dec: dec, free: math.MaxInt, taken: func() taken { return d.slotTaken(j, state) }, backfilled: state.Backfilled}
	if j.Concurrency != jobs.Allow {
		lost := state.LostSlots(d.now, slotCount(j))
		s.free = slotCount(j) - len(state.Open) - lost
		s.ending = lost
	}
	for _, t := range sorted(state.Open) {
		if slices.Contains(state.Stopping, t.ID) {
			s.ending++
		} else {
			s.open = append(s.open, t)
		}
	}
	waits := sorted(state.Queued)
	if d.suspended(j, state) {
		waits = slices.DeleteFunc(waits, func(t jobs.Task) bool {
			byHand := t.Seq > 0 || t.RetryOf != ""
			if !byHand {
				dec.Ends = append(dec.Ends, ledger.Ending{Task: t.ID, Code: reason.Suspended, Reason: "suspended while it waited for a slot"})
			}
			return !byHand
		})
	}
	if j.Concurrency != jobs.Replace {
		wanted = 0
	}
	n := min(len(waits), max(s.free-wanted, 0))
	for _, t := range waits[:n] {
		dec.Starts = append(dec.Starts, t.ID)
		s.take(t)
	}
	s.queued = waits[n:]
	return s
}

// slotCount is how many slots a job has.
func slotCount(j *plan.Job) int { return max(j.MaxRunning, 1) }

func sorted(tasks []jobs.Task) []jobs.Task {
	return slices.SortedFunc(slices.Values(tasks), ledger.InDueOrder)
}

// take takes a slot for a task that this decision opens or starts.
func (s *slots) take(t jobs.Task) {
	if s.job.Concurrency == jobs.Allow {
		return
	}
	if s.free--; s.free == 0 {
		id, due := t.ID, t.ScheduledAt
		s.taken = func() taken { return openedFirst(id, due, s.now) }
	}
}

// ask opens the task of a trigger, in a free slot or waiting for one. Otherwise it says what is in the way.
func (s *slots) ask(t jobs.Trigger) (o ledger.Opening, why taken) {
	by := "" // the run that replaces others
	if s.job.Concurrency == jobs.Replace {
		by = runOf(s.newID(s.job.Name, s.opened), t.At)
		s.drop(by)
	}
	switch {
	case s.free > 0:
	case s.job.Concurrency == jobs.Queue && len(s.queued) >= s.job.QueueLimit:
		return o, taken{
			code: reason.QueueFull, why: fmt.Sprintf("%d runs of the job wait for a slot, as many as queue_limit allows; %s", len(s.queued), s.taken().why),
			remedy: "wait until one of them has started, or cancel one first: scheduler tasks cancel " + s.queued[len(s.queued)-1].ID,
		}
	case s.job.Concurrency == jobs.Replace:
		s.replace(by)
	case s.job.Concurrency != jobs.Queue && !s.besideBackfill(t):
		return o, s.taken()
	}
	o = s.rules.open(s.job, t, s.opened)
	s.opened++
	if s.free > 0 {
		s.take(*o.Task)
		return o, taken{}
	}
	o.Queued = true
	o.Task.Reason, o.Task.ReasonCode = "waits for a slot of its job: "+s.taken().why, reason.WaitsForSlot
	s.queued = append(s.queued, *o.Task)
	return o, taken{}
}

// drop cancels the runs that wait.
func (s *slots) drop(by string) {
	for _, t := range s.queued {
		s.dec.Ends = append(s.dec.Ends, ledger.Replaced(t.ID, by))
	}
	s.queued = nil
}

// replace cancels the oldest run, unless a slot is about to be free. A pending run ends at once, but for one whose last attempt was lost and may still be
// running: its slot is free when that must have ended.
func (s *slots) replace(by string) {
	if s.ending > 0 || len(s.open) == 0 {
		return
	}
	oldest := s.open[0]
	s.open = s.open[1:]
	s.dec.Ends = append(s.dec.Ends, ledger.Replaced(oldest.ID, by))
	mayRun := oldest.ReasonCode == reason.ReplicaDied && oldest.RunAt.After(s.now)
	if oldest.State == jobs.StatePending && !mayRun {
		s.free++
	} else {
		s.ending++
	}
}

// overtaken reports whether a due time does not run as so many later ones of the same decision are there: of several, the newest replaces.
func (s *slots) overtaken(later int) bool {
	return s.job.Concurrency == jobs.Replace && later >= max(s.free, 1)
}

// close ends the decision, whose due times up to cursor are decided. If a run waits for a slot, the job is looked at again soon.
func (s *slots) close(cursor time.Time) {
	s.dec.Cursor = cursor
	s.dec.Due, s.dec.NextAt = s.job.Coming(cursor, s.of)
	if len(s.queued) > 0 {
		s.dec.Queues(s.now)
	}
}

// changed reports whether the decision has anything to write about runs that waited.
func (s *slots) changed() bool {
	return len(s.queued) > 0 || len(s.dec.Starts) > 0 || len(s.dec.Ends) > 0
}
