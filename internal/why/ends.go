package why

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// running has what is wrong with the attempt first, and last that it runs.
func running(f ledger.Facts) (all []wire.Cause) {
	t := f.Task
	is := wire.Cause{Code: reason.Running, Replica: t.Replica, Since: t.StartedAt, Attempt: t.Attempt, MaxAttempts: t.MaxAttempts, MayRunUntil: f.MayRunUntil}
	is.Message = fmt.Sprintf("attempt %d of %d runs on %s since %s", t.Attempt, max(t.Attempt, t.MaxAttempts), t.Replica, clock(t.StartedAt))
	if f.Owner != nil {
		is.SeenAt = f.Owner.SeenAt
		is.Message += "; that replica was last heard of " + ago(f.At.Sub(is.SeenAt))
	}
	if silent := is; f.Owner == nil || f.Owner.Dead || f.At.Sub(f.Owner.SeenAt) > cmp.Or(f.Owner.TTL, time.Minute) {
		silent.Code = reason.ReplicaSilent
		silent.Message = "the session of " + t.Replica + " has expired; the others reap the task"
		if f.Owner != nil && !f.Owner.Dead {
			silent.Message = t.Replica + ", which runs it, was last heard of " + ago(f.At.Sub(f.Owner.SeenAt)) + "; if that goes on, its session expires, and the others reap the task"
		}
		all = append(all, silent)
	}
	if f.Cancel != "" {
		by, _ := strings.CutPrefix(f.Cancel, "cancelled by ")
		if by == f.Cancel {
			by = ""
		}
		all = append(all, wire.Cause{Code: reason.CancelRequested, By: by, Replica: t.Replica, Message: "it is to stop: " + f.Cancel})
	}
	return append(all, is)
}

func ended(f ledger.Facts) wire.Cause {
	t := f.Task
	c := wire.Cause{
		Code: t.ReasonCode, Since: t.FinishedAt, Attempt: t.Attempt, MaxAttempts: t.MaxAttempts, Replica: t.Replica, ExitCode: t.ExitCode, Error: t.Error,
		MayRunUntil: f.MayRunUntil,
	}
	switch {
	case c.Code != "":
	case t.State == jobs.StateSucceeded:
		c.Code = reason.Succeeded
	case t.State == jobs.StateFailed && t.Error != "":
		c.Code = reason.Error
	default:
		c.Code = reason.Ended
	}
	where := "before an attempt started"
	if t.Attempt > 0 && !t.StartedAt.IsZero() {
		where = fmt.Sprintf("with attempt %d of %d on %s", t.Attempt, max(t.Attempt, t.MaxAttempts), t.Replica)
	}
	c.Message = fmt.Sprintf("it ended as %s at %s, %s%s", t.State, clock(t.FinishedAt), where, after(": ", first(t.Reason, t.Error)))
	if f.MayRunUntil.After(f.At) {
		c.Message += "; that attempt may run until " + clock(f.MayRunUntil)
	}
	return c
}

// ago is a distance that has passed.
func ago(d time.Duration) string { return max(0, d).Round(time.Millisecond).String() + " ago" }
