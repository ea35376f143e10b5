package why

import (
	"fmt"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// noPool: a pool that a program has added, and that no replica has yet, has a row with a hash, and no live replica with it.
func (p *pending) noPool() (c wire.Cause, is bool) {
	if p.Pool != nil && p.Pool.Hash != "" {
		return c, false
	}
	return wire.Cause{Code: reason.NoPool, Message: "no live configuration has pool " + p.Task.Pool + "; start a replica that has it, or cancel the task"}, true
}

// allPaused ends at a known time, or when somebody resumes.
func (p *pending) allPaused() (c wire.Cause, is bool) {
	if !p.Pausing.Is() {
		return c, false
	}
	return wire.Cause{Code: reason.Paused, By: p.Pausing.By, Since: p.Pausing.Since, Until: p.Pausing.Until, Message: p.Pausing.String() + "; nothing starts until it is resumed"}, true
}

func (p *pending) paused() (c wire.Cause, is bool) {
	if p.Pool == nil || p.Pool.Paused == nil || !*p.Pool.Paused {
		return c, false
	}
	c = wire.Cause{Code: reason.PoolPaused, By: p.Pool.PausedBy, Override: true, Since: p.Paused, Message: "pool " + p.Task.Pool + " is paused"}
	c.Message += after(" by ", c.By)
	if !c.Since.IsZero() {
		c.Message += " since " + clock(c.Since)
	}
	if p.Pool.PauseReason != "" {
		c.Message += " (" + p.Pool.PauseReason + ")"
	}
	c.Message += "; nothing of it starts until it is resumed"
	return c, true
}

// orderChanged: the order is that which the tasks are to have.
func (p *pending) orderChanged() (c wire.Cause, is bool) {
	if !p.Moving || p.Pool == nil {
		return c, false
	}
	c = wire.Cause{Code: reason.OrderChanged, Message: "a configuration has removed the order of pool " + p.Task.Pool}
	if p.Pool.Order == jobs.OrderKey {
		c.Message = "a configuration has given pool " + p.Task.Pool + " the order key"
	}
	c.Message += "; nothing of it starts until the replicas have sorted all its tasks anew"
	return c, true
}

func (p *pending) maxRunning() (c wire.Cause, is bool) {
	if p.Pool == nil || p.Pool.MaxRunning == 0 || p.Running.N < p.Pool.MaxRunning {
		return c, false
	}
	c = wire.Cause{Code: reason.MaxRunning, Max: p.Pool.MaxRunning, Count: p.Running.N, More: p.Running.More, Tasks: listed(p.Running)}
	if o := p.Pool.Override; o != nil && o.MaxRunning != nil {
		c.Override, c.By = true, p.Pool.LimitsBy
	}
	c.Message = fmt.Sprintf("%s of %d tasks of pool %s run, as many as its max_running allows: %s", amount(p.Running.Count), c.Max, p.Task.Pool, idsOf(p.Running))
	return c, true
}

func (p *pending) rate() (c wire.Cause, is bool) {
	if p.Pool == nil || p.Pool.Rate == (jobs.Rate{}) {
		return c, false
	}
	opens := p.Pool.OpensIn(p.Bucket, p.At)
	if opens == 0 {
		return c, false
	}
	c = wire.Cause{Code: reason.Rate, Rate: p.Pool.Rate, Until: p.At.Add(opens)}
	if o := p.Pool.Override; o != nil && o.Rate != nil {
		c.Override, c.By = true, p.Pool.LimitsBy
	}
	c.Message = fmt.Sprintf("the rate of pool %s, %s, lets no more start now; the next task may start at %s", p.Task.Pool, c.Rate, clock(c.Until))
	return c, true
}
