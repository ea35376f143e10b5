package triggers

import (
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// orderAgain is when to look again at a backfill that waits for one of its runs to end, for a slot of the job, or for due times to be decided.
const orderAgain = time.Second

// order makes the runs of the job's orders whose time has come, after its due times, which are decided up to a time: all of them that have started, or some.
// Runs at a time come before those of backfills, which would put them off.
func (s *slots) order(state ledger.JobState, decided time.Time, all bool) {
	for _, o := range state.Orders {
		switch {
		case o.Asked.Backfill != nil, o.Asked.At.After(s.now):
		case s.job.Concurrency == jobs.Replace && s.opened > 0: // it replaces what this decision opens, in the next one
			o.NextAt = s.now
			s.dec.Orders = append(s.dec.Orders, o.Order)
		default:
			s.orderedRun(o.Order)
		}
	}
	for _, o := range state.Orders {
		if o.Asked.Backfill != nil {
			s.backfill(o, decided, all)
		}
	}
}

// ordered is how many runs of orders are about to ask for a slot: with replace one in a decision.
func (d rules) ordered(state ledger.JobState) int {
	if slices.ContainsFunc(state.Orders, func(o ledger.OrderState) bool { return o.Asked.Backfill == nil && !o.Asked.At.After(d.now) }) {
		return 1
	}
	return 0
}

// orderedRun opens the run of an order, as one by hand: also while the job is suspended; and where the job's policies forbid it, it is skipped.
func (s *slots) orderedRun(o ledger.Order) {
	run := jobs.Trigger{Job: s.job.Name, At: o.Asked.At, Seq: 1, Cause: jobs.CauseManual, By: o.By, Order: o.ID}
	payload, opening, no := o.Asked.Payload, ledger.Opening{}, taken{}
	if payload == nil {
		payload = s.job.Payload
	}
	if err := s.job.Accepts(payload); err != nil { // params or locks are others by now, or the job's payload never fitted
		no = taken{code: reason.PayloadRefused, why: strings.ReplaceAll(err.Error(), "\n", "; ")}
	} else {
		opening, no = s.ask(run)
	}
	if no.code != "" {
		run.Count, run.Outcome, run.Reason, run.ReasonCode, run.Replica = 1, jobs.Skipped, no.why, no.code, s.replica
		opening = ledger.Opening{Trigger: run}
		o.Close(s.now, wire.OrderSkipped, no.code, no.why)
	} else {
		opening.Task.Payload = payload
		o.Progress.TaskID = opening.Task.ID
		o.Close(s.now, wire.OrderDone, "", "")
	}
	s.dec.Triggers, s.dec.Orders = append(s.dec.Triggers, opening), append(s.dec.Orders, o)
}

// backfill counts the runs that have ended, and makes further ones, the oldest first, as far as all of these let it:
//
//	max_running    so many of its own runs are open at once
//	rate           so many are made in a time
//	slots          it takes a free one while no run waits for one, and of several it leaves one to due times
//	the schedule   what has started by it is decided first, and no due time is made that is not
func (s *slots) backfill(is ledger.OrderState, decided time.Time, all bool) {
	o, asked := is.Order, is.Asked.Backfill
	p := &o.Progress
	p.Open = slices.Clone(p.Open)
	p.Ends(is.Ended)
	o.NextAt = s.now.Add(orderAgain)
	defer func() { s.dec.Orders = append(s.dec.Orders, o) }()
	if s.job.Times == nil || s.job.ScheduleHash() != o.Asked.Schedule {
		o.Close(s.now, wire.OrderCancelled, reason.ScheduleChanged, "the schedule was changed; order another backfill for what is left")
		return
	}
	rate := ledger.Limits{Rate: asked.Rate}
	until := asked.To.Add(-time.Nanosecond)
	if !is.RanTo.IsZero() {
		until = is.RanTo
	}
	more, n := false, 0
	for at := s.job.Times.Next(p.Cursor); !at.IsZero() && !at.After(until); at = s.job.Times.Next(at) { // one by one: mostly few are used
		if n++; n > freshLimit {
			more = true
			break
		}
		if _, ran := slices.BinarySearchFunc(is.Ran, at, time.Time.Compare); ran || !asked.Again && s.runs(at) {
			p.Cursor, p.Ran = at, p.Ran+1
			continue
		}
		if len(p.Open) >= asked.MaxRunning || !all || at.After(decided) || !s.spare() {
			return
		}
		if rate.Starts(p.Bucket, s.now) < 1 {
			o.NextAt = s.now.Add(rate.OpensIn(p.Bucket, s.now))
			return
		}
		opening, _ := s.ask(jobs.Trigger{Job: s.job.Name, At: at, Seq: 1, Cause: jobs.CauseBackfill, By: o.By, Order: o.ID})
		s.dec.Triggers = append(s.dec.Triggers, opening)
		p.Cursor, p.Made, p.Bucket = at, p.Made+1, rate.Started(p.Bucket, s.now, 1)
		p.Open = append(p.Open, ledger.OrderRun{At: at, Task: opening.Task.ID})
	}
	switch {
	case more:
		o.NextAt = s.now
	case !is.RanTo.IsZero():
		p.Cursor, o.NextAt = later(p.Cursor, is.RanTo), s.now
	case len(p.Open) == 0:
		o.Close(s.now, wire.OrderDone, "", "")
	}
}

// runs reports whether this decision has a run of a due time.
func (s *slots) runs(at time.Time) bool {
	return slices.ContainsFunc(s.dec.Triggers, func(o ledger.Opening) bool { return o.Trigger.At.Equal(at) && ledger.HasRun(o.Trigger.Outcome) })
}

// spare reports whether a backfill may take a slot.
func (s *slots) spare() bool {
	if s.job.Concurrency == jobs.Allow {
		return true
	}
	kept := 0
	if slotCount(s.job) > 1 {
		kept = 1
	}
	return s.free > kept && len(s.queued) == 0
}

// besideBackfill reports whether a due time that finds all slots taken waits for one, although the job forbids it: a run of a backfill has one, and nothing
// waits yet. So no due time is skipped for a backfill, and it comes before the next run of that.
func (s *slots) besideBackfill(t jobs.Trigger) bool {
	return s.job.Concurrency == jobs.Forbid && s.backfilled && len(s.queued) == 0 && (t.Cause == jobs.CauseSchedule || t.Cause == jobs.CauseCatchUp)
}
