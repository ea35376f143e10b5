package why

import (
	"fmt"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// ExplainOrder returns what an open order waits for, at least one cause, the most important first; none of one that has ended. f is about the next due time
// of its job. h.Task is why a pending run of a backfill is in its state.
func ExplainOrder(o wire.Order, f ledger.JobFacts, h HereOfJob) []wire.Cause {
	if o.State != wire.OrderOpen {
		return nil
	}
	x := ofOrder{ofJob{JobFacts: f, here: h}, o}
	looks := []func() (wire.Cause, bool){x.notDue, x.paused, x.otherConfig}
	own, full := wire.Cause{}, false
	if o.Backfill != nil {
		if own, full = x.ownRuns(); !full { // else the rest matters once one of these has ended
			looks = append(looks, x.dueTime, x.slot, x.lost)
		}
	}
	var all []wire.Cause
	for _, look := range looks {
		if c, is := look(); is {
			all = append(all, c)
		}
	}
	if full {
		all = append(append(all, own), h.Task...)
	}
	if len(all) > 0 {
		return all
	}
	if b := o.Backfill; b != nil && b.Rate.Count > 0 && b.Made > 0 && b.Left > 0 { // when the next run may be made is in its row alone
		return []wire.Cause{{Code: reason.Rate, Rate: b.Rate, Message: "its runs are made no faster than " + b.Rate.String()}}
	}
	return []wire.Cause{{Code: reason.Ready, Message: "nothing holds it up: a live replica goes on with it within a second"}}
}

// ofOrder is an open order of a job.
type ofOrder struct {
	ofJob
	order wire.Order
}

func (x *ofOrder) notDue() (c wire.Cause, is bool) {
	if !x.order.At.After(x.At) { // also of a backfill, which has none
		return c, false
	}
	return wire.Cause{Code: reason.NotDue, Until: x.order.At, Message: "its time comes in " + lasting(x.order.At.Sub(x.At))}, true
}

// paused: nothing is decided meanwhile, so nothing is made either.
func (x *ofOrder) paused() (c wire.Cause, is bool) {
	p := pending{Facts: x.Next, here: x.here.Here}
	c, is = p.allPaused()
	if is && !c.Until.IsZero() && x.order.At.After(c.Until) { // it has ended by then
		return wire.Cause{}, false
	}
	return c, is
}

// ownRuns: as many runs of the backfill are open as may be at once, or all are made.
func (x *ofOrder) ownRuns() (c wire.Cause, is bool) {
	b := x.order.Backfill
	most := max(b.MaxRunning, 1)
	if b.Running == 0 || b.Running < most && b.Left > 0 {
		return c, false
	}
	c = wire.Cause{Code: reason.MaxRunning, Max: most, Count: b.Running, Message: fmt.Sprintf("as many of its runs are open as may be at once, %d", most)}
	if b.Left == 0 {
		c.Message = "all its runs are made, and the last ones are open"
	}
	for _, id := range b.OpenTasks {
		t := wire.WhyTask{ID: id}
		for i := range x.Open {
			if x.Open[i].ID == id {
				t = whyTasks(&x.Open[i])[0]
			}
		}
		c.Tasks = append(c.Tasks, t)
	}
	if len(c.Tasks) > 0 {
		c.Message += ": " + x.taskSaid(c.Tasks[0])
	}
	if more := b.Running - 1; more > 0 && len(c.Tasks) > 0 {
		c.Message += fmt.Sprintf(", and %d more", more)
	}
	return c, true
}

// taskSaid names a task, and how it stands, if that is known.
func (x *ofOrder) taskSaid(t wire.WhyTask) string {
	switch t.State {
	case jobs.StateRunning:
		return "task " + t.ID + ", running on " + t.Replica + " since " + clock(t.StartedAt)
	case jobs.StatePending:
		return "task " + t.ID + ", pending"
	}
	return "task " + t.ID
}

// dueTime: what has started by the schedule is decided before a run of a backfill is made.
func (x *ofOrder) dueTime() (c wire.Cause, is bool) {
	due := x.Job.NextAt
	if later := x.Job.NextStartAt; later.After(due) {
		due = later
	}
	if due.IsZero() || due.After(x.At) {
		return c, false
	}
	return wire.Cause{Code: reason.Undecided, Since: due, Message: "a due time of the job comes before it: that of " + clock(x.Job.NextAt) + " is not decided yet"}, true
}

// slot: a backfill takes a slot of its job that is free, and of several it leaves one to due times.
func (x *ofOrder) slot() (c wire.Cause, is bool) {
	slots := max(x.here.Slots, 1)
	may := slots
	if slots > 1 {
		may--
	}
	if x.here.Policy == jobs.Allow || !x.here.Known || x.OpenN.N < may || len(x.Open) == 0 {
		return c, false
	}
	c = wire.Cause{Code: reason.WaitsForSlot, Max: slots, Count: x.OpenN.N, More: x.OpenN.More}
	for i := range x.Open {
		c.Tasks = append(c.Tasks, whyTasks(&x.Open[i])...)
	}
	c.Message = "it waits for the slot of job " + x.order.Job + ", taken by " + x.taskSaid(c.Tasks[0])
	if slots > 1 {
		c.Message = fmt.Sprintf("it waits for a slot of job %s: of its %d one is kept for due times, and the others are taken by %s", x.order.Job, slots, x.taskSaid(c.Tasks[0]))
	}
	if n := x.OpenN.N - 1; n > 0 {
		c.Message += ", and " + amount(ledger.Count{N: n, More: x.OpenN.More}) + " more of its runs are open"
	}
	return c, true
}

// lost: a lost attempt that may run has its slot.
func (x *ofOrder) lost() (c wire.Cause, is bool) {
	if !x.BusyUntil.After(x.At) || x.here.Policy == jobs.Allow {
		return c, false
	}
	of := x.ofJob
	of.About = x.At
	return of.lostMayRun()
}
