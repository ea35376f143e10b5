package why

import (
	"fmt"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// waitsForSlot goes by what has the slots of the job now. Where nothing has one, it gets one with the next decision about its job.
func (p *pending) waitsForSlot() (c wire.Cause, is bool) {
	s := p.Slots
	if s == nil {
		return c, false
	}
	c = wire.Cause{Code: reason.WaitsForSlot, Count: s.N, More: s.More, Message: "it waits for a slot of job " + p.Task.Job}
	for i, t := range s.Open {
		c.Tasks = append(c.Tasks, wire.WhyTask{ID: t.ID, State: t.State, Replica: t.Replica, StartedAt: t.StartedAt, RunAt: t.RunAt, ReasonCode: t.ReasonCode, Reason: t.Reason})
		if i > 0 {
			continue
		}
		if c.Message += ", which task " + t.ID + " has, pending in pool " + t.Pool; t.State == jobs.StateRunning {
			c.Message = fmt.Sprintf("it waits for a slot of job %s, which task %s has, running on %s since %s", p.Task.Job, t.ID, t.Replica, clock(t.StartedAt))
		}
	}
	if s.N > 1 {
		c.Message += ", and " + amount(ledger.Count{N: s.N - 1, More: s.More}) + " more have others"
	}
	if s.BusyUntil.After(p.At) {
		c.Until = s.BusyUntil
		c.Message += "; a lost attempt of the job may run until " + clock(s.BusyUntil)
	}
	if s.Before > 0 {
		c.Message += fmt.Sprintf("; %d of its runs were due before it", s.Before)
	}
	return c, true
}
