package why

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// stops are what may stop a due time, as it is now.
func (x *ofJob) stops() (all []wire.Cause) {
	p := pending{Facts: x.Next, here: x.here.Here}
	looks := []func() (wire.Cause, bool){x.isSuspended, x.isSkipped, x.isPaused, x.otherConfig}
	if x.Next.Task.Pool != "" {
		looks = append(looks, p.noPool, p.noReplica, p.noWorker)
	}
	looks = append(looks, x.slotTaken, x.lostMayRun, x.locksHeld)
	if x.Next.Task.Pool != "" {
		looks = append(looks, p.paused, p.orderChanged, p.lockService, p.maxRunning, p.rate, p.workersBusy)
	}
	for _, look := range looks {
		if c, is := look(); is {
			all = append(all, c)
		}
	}
	return all
}

func (x *ofJob) isSuspended() (c wire.Cause, is bool) {
	switch o := x.Job.Override; {
	case o != nil && *o && !x.Job.SuspendedUntil.IsZero() && !x.About.Before(x.Job.SuspendedUntil):
		return c, false // it has ended by then
	case o != nil && *o:
		c, _ = x.suspendedBy(x.Suspension)
		c.Code, c.Override, c.By = reason.Suspended, true, cmp.Or(x.Job.SuspendedBy, c.By)
		c.Message = "the job is suspended" + after(" by ", c.By)
		if !c.Since.IsZero() {
			c.Message += " since " + clock(c.Since)
		}
		c.Message += after(": ", x.Job.SuspendedReason)
	case o == nil && x.here.InFile:
		c = wire.Cause{Code: reason.Suspended, Message: "the job is suspended in its definition"}
	default:
		return c, false
	}
	if c.Until = x.Job.SuspendedUntil; c.Until.IsZero() {
		c.Message += "; until it is resumed its due times are skipped"
	} else {
		c.Message += "; its due times before " + clock(c.Until) + " are skipped"
	}
	return c, true
}

// isPaused: what is due meanwhile is held.
func (x *ofJob) isPaused() (c wire.Cause, is bool) {
	p := pending{Facts: x.Next, here: x.here.Here}
	if c, is = p.allPaused(); !is || !c.Until.IsZero() && !x.starts().Before(c.Until) { // it has ended by then
		return wire.Cause{}, false
	}
	c.Message = x.Next.Pausing.String() + "; its due times until then are held, and catch_up decides about them"
	if c.Until.IsZero() {
		c.Message = x.Next.Pausing.String() + "; until it is resumed its due times are held, and catch_up decides about them then"
	}
	return c, true
}

// isSkipped: a due time is among those that are skipped if fewer come before it.
func (x *ofJob) isSkipped() (c wire.Cause, is bool) {
	if x.Job.SkipNext == 0 {
		return c, false
	}
	if s := x.here.Schedule; s != nil && !x.here.Differs && !x.Job.Cursor.IsZero() {
		if before, _ := s.Between(x.Job.Cursor, x.About.Add(-time.Nanosecond), x.Job.SkipNext); len(before) == x.Job.SkipNext {
			return c, false
		}
	}
	c = wire.Cause{Code: reason.SkipNext, By: x.Job.SkipBy, Count: x.Job.SkipNext, Message: "its next due time that is not decided yet is skipped"}
	if c.Count > 1 {
		c.Message = fmt.Sprintf("its next %d due times that are not decided yet are skipped", c.Count)
	}
	c.Message += after(" by ", c.By)
	return c, true
}

func (x *ofJob) otherConfig() (c wire.Cause, is bool) {
	if !x.here.Differs {
		return c, false
	}
	return wire.Cause{Code: reason.OtherConfig, Replica: x.here.Replica, Message: fmt.Sprintf("configuration %d has the job otherwise than %s, which answers, and leaves it to the replicas that agree", x.Job.Config, x.here.Replica)}, true
}

// slotTaken: what a due time does when it comes depends on the policy of the job.
func (x *ofJob) slotTaken() (c wire.Cause, is bool) {
	slots := max(x.here.Slots, 1)
	if len(x.Open) == 0 || x.OpenN.N < slots || x.here.Policy == jobs.Allow {
		return c, false
	}
	first := x.Open[0]
	c = wire.Cause{Code: reason.SlotTaken, Count: x.OpenN.N, More: x.OpenN.More, Replica: first.Replica, Since: first.StartedAt}
	for i := range x.Open {
		c.Tasks = append(c.Tasks, whyTasks(&x.Open[i])...)
	}
	c.Message = "task " + first.ID + " has the job's slot: it is " + string(first.State)
	if slots > 1 {
		c.Max = slots
		c.Message = fmt.Sprintf("all %d slots of the job are taken; the first task is %s, which is %s", slots, first.ID, first.State)
	}
	if first.State == jobs.StateRunning {
		c.Message += " on " + first.Replica + " since " + clock(first.StartedAt)
	} else {
		c.Message += after(": ", first.Reason)
	}
	if n := x.OpenN.N - slots; n > 0 {
		c.Message += fmt.Sprintf("; %d more are open", n)
	}
	if becomes := map[jobs.Concurrency]string{jobs.Forbid: "is skipped", jobs.Queue: "waits, or is skipped where queue_limit runs wait", jobs.Replace: "cancels the oldest run"}[x.here.Policy]; becomes != "" && x.About.After(x.At) {
		c.Message += "; if no slot is free then, the due time " + becomes
	}
	return c, true
}

func (x *ofJob) lostMayRun() (c wire.Cause, is bool) {
	if !x.BusyUntil.After(x.At) || !x.BusyUntil.After(x.About) || x.here.Policy == jobs.Allow {
		return c, false
	}
	c = wire.Cause{Code: reason.LostMayRun, Until: x.BusyUntil, Message: "a lost attempt of the job may run until " + clock(x.BusyUntil)}
	for _, l := range x.Lost {
		c.Tasks = append(c.Tasks, wire.WhyTask{ID: l.ID, State: jobs.StateLost, Replica: l.Replica})
	}
	if len(x.Lost) > 0 {
		c.Message += ": task " + x.Lost[0].ID + ", which was lost with " + x.Lost[0].Replica + " at " + clock(x.Lost[0].At)
	}
	return c, true
}

// locksHeld are the locks of the job that somebody holds now.
func (x *ofJob) locksHeld() (c wire.Cause, is bool) {
	if x.here.LockError != "" && len(x.here.Locks) > 0 {
		return wire.Cause{Code: reason.LockServiceDown, Message: "the job needs locks, and the lock service does not answer " + x.here.Replica + ": " + x.here.LockError}, true
	}
	c.Code = reason.WaitsForLock
	var said []string
	for _, key := range x.here.Locks {
		holders := x.here.Holders[key]
		if len(holders) == 0 {
			continue
		}
		name := strings.TrimPrefix(key, syskeys.User)
		c.Locks = append(c.Locks, wire.WhyLock{Key: name, Holders: holders})
		text := name + ", held " + mode(holders[0]) + " by " + holder(holders[0])
		if !holders[0].Since.IsZero() {
			text += " since " + clock(holders[0].Since)
		}
		said = append(said, text)
	}
	if len(said) == 0 {
		return c, false
	}
	c.Message = "it needs lock " + strings.Join(said, ", and lock ") + "; while that goes on, its task waits"
	return c, true
}
