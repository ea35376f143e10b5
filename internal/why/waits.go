package why

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// The limits by key that a cause names.
const (
	byMaxRunning = "max_running"
	byRate       = "rate"
	byOrder      = "order"
	byTurn       = "fair"
)

// waitsForKind goes by what the limits are now, as waitsForKey.
func (p *pending) waitsForKind() (c wire.Cause, is bool) {
	k := p.Kind
	if k == nil {
		return c, false
	}
	c.Code = reason.WaitsForKind
	switch opens := k.OpensIn(k.Bucket, p.At); {
	case k.MaxRunning > 0 && k.Running.N >= k.MaxRunning:
		c.Limit, c.Max, c.Count, c.More, c.Tasks = byMaxRunning, k.MaxRunning, k.Running.N, k.Running.More, listed(k.Running)
		c.Message = fmt.Sprintf("%d of %d tasks of kind %s run, as many as per_kind allows: %s", c.Count, c.Max, p.Task.Kind, idsOf(k.Running))
	case k.Rate != (jobs.Rate{}) && opens > 0:
		c.Limit, c.Rate, c.Until = byRate, k.Rate, p.At.Add(opens)
		c.Message = fmt.Sprintf("the rate for tasks of kind %s, %s, lets no more start now; the next one may start at %s", p.Task.Kind, c.Rate, clock(c.Until))
	default:
		return c, false
	}
	return c, true
}

// waitsForKey goes by what the limits are now, not by what the row of the task says: that is as a claim has found it last.
func (p *pending) waitsForKey() (c wire.Cause, is bool) {
	if p.Key == nil || p.Pool == nil {
		return c, false
	}
	t, key, per := p.Task, p.Key, p.Pool.PerKey
	c = wire.Cause{Code: reason.WaitsForKey, Key: t.Key, Count: key.Before.N, More: key.Before.More}
	limits := ledger.Limits{MaxRunning: per.MaxRunning, Rate: per.Rate, Burst: per.Burst}
	keyed := t.Key != "" // no limit is about tasks without one
	var opens time.Duration
	if keyed && per.Rate != (jobs.Rate{}) {
		opens = limits.OpensIn(key.Bucket, p.At)
	}
	switch {
	case keyed && p.Pool.Order == jobs.OrderKey && key.First != nil && !p.Moving: // which is the first is known only when all have places
		f := key.First
		c.Limit = byOrder
		c.Tasks = []wire.WhyTask{{ID: f.ID, State: f.State, Replica: f.Replica, StartedAt: f.StartedAt, RunAt: f.RunAt, ReasonCode: f.ReasonCode, Reason: f.Reason}}
		c.Message = fmt.Sprintf("tasks with key %s run in their order: %s before it; the first is %s, which is %s%s", t.Key, tasks(key.Before, "task"), f.ID, f.State, p.state(f))
	case keyed && per.MaxRunning > 0 && key.Running.N >= per.MaxRunning:
		c.Limit, c.Max, c.Count, c.More, c.Tasks = byMaxRunning, per.MaxRunning, key.Running.N, key.Running.More, listed(key.Running)
		c.Message = fmt.Sprintf("%d of %d tasks with key %s run, as many as per_key allows: %s", c.Count, c.Max, t.Key, idsOf(key.Running))
	case opens > 0:
		c.Limit, c.Rate, c.Until = byRate, per.Rate, p.At.Add(opens)
		c.Message = fmt.Sprintf("the rate for tasks with key %s, %s, lets no more start now; the next one may start at %s", t.Key, c.Rate, clock(c.Until))
	case key.Turn && p.Pool.Fair != nil:
		c.Limit = byTurn
		c.Message = "the keys of pool " + t.Pool + " share it, and it is the turn of others; " + tasks(key.Before, "task") + " with its key " + beVerb(key.Before) + " before it"
	default:
		return c, false
	}
	return c, true
}

func beVerb(n ledger.Count) string {
	if n.N == 1 && !n.More {
		return "is"
	}
	return "are"
}

// state is more of the state of another task.
func (p *pending) state(t *jobs.Task) string {
	switch {
	case t.State == jobs.StateRunning:
		return " on " + t.Replica + " since " + clock(t.StartedAt)
	case t.RunAt.After(p.At):
		return " and due at " + clock(t.RunAt) + after(": ", t.Reason)
	}
	return after(": ", t.Reason)
}

// lockService: what the replica that answers knows, or what a replica has written into the row of the task.
func (p *pending) lockService() (c wire.Cause, is bool) {
	c.Code = reason.LockServiceDown
	switch {
	case p.here.LockWaits != "":
		c.Message = "nothing starts while the lock service is down, as when_down: wait has it; replica " + p.here.Replica + " says: " + p.here.LockWaits
	case p.Waiting != ledger.WaitsForLocks:
		return c, false
	case p.here.LockError != "":
		c.Message = "it needs locks, and the lock service does not answer replica " + p.here.Replica + ": " + p.here.LockError
	case strings.Contains(p.Task.Reason, "the lock service does not answer") && !p.held():
		c.Message = "it needs locks, and the lock service did not answer a replica: it " + p.Task.Reason
	default:
		return c, false
	}
	return c, true
}

// held reports whether the lock service names a holder of one of the locks.
func (p *pending) held() bool {
	for _, l := range p.Locks {
		if len(p.here.Holders[l.Key]) > 0 {
			return true
		}
	}
	return false
}

func (p *pending) waitsForLocks() (c wire.Cause, is bool) {
	if p.Waiting != ledger.WaitsForLocks {
		return c, false
	}
	c = wire.Cause{Code: reason.WaitsForLock}
	var said []string
	for _, l := range p.Locks {
		view := wire.WhyLock{Key: strings.TrimPrefix(l.Key, syskeys.User), Before: l.Before.N, More: l.Before.More, First: l.First, Waits: l.Queued}
		holders := p.here.Holders[l.Key]
		view.Holders = holders[:min(len(holders), ledger.WhyTasks)]
		c.Locks = append(c.Locks, view)
		text := ""
		if len(holders) > 0 {
			text = "held " + mode(holders[0]) + " by " + holder(holders[0])
			if !holders[0].Since.IsZero() {
				text += " since " + clock(holders[0].Since)
			}
			if n := len(holders) - 1; n > 0 {
				text += fmt.Sprintf(" and %d more", n)
			}
		}
		if l.Before.N > 0 {
			if text != "" {
				text += ", "
			}
			text += tasks(l.Before, "task") + " that wait" + verb(l.Before) + " for it " + beVerb(l.Before) + " before this one, the first is " + l.First
		}
		if text != "" {
			said = append(said, view.Key+" ("+text+")")
		}
	}
	switch {
	case len(said) > 0:
		c.Message = "it waits for lock " + strings.Join(said, ", and for lock ")
	case p.Task.Reason != "":
		c.Message = "it " + p.Task.Reason
	default:
		c.Message = "it waits for its locks"
	}
	return c, true
}

func mode(l wire.Lock) string {
	switch l.Mode {
	case "limited":
		return fmt.Sprintf("as one of %d", l.Limit)
	case "shared":
		return "shared"
	}
	return "exclusively"
}

func holder(l wire.Lock) string {
	if l.Meta != "" && l.Owner != "" && !strings.HasSuffix(l.Meta, l.Owner) {
		return l.Meta + " (" + l.Owner + ")"
	}
	return cmp.Or(l.Meta, l.Owner, "session "+l.Session)
}
