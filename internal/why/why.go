// Package why explains why a task is in its state: it makes causes, which are codes with sentences, of what the store, a replica and the lock
// service know. It reads nothing itself.
package why

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// Here is what the replica that answers knows beside the store. The zero Here is of a process without a replica.
type Here struct {
	Replica   string
	Workers   int                    // of the task's pool, in one replica; 0: not known
	RunsOn    map[string]string      // labels that the task's job and pool require
	LockWaits string                 // why nothing starts here until the lock service answers; empty: it does, or is not needed
	LockError string                 // why the lock service did not tell the holders; empty: it told them
	Holders   map[string][]wire.Lock // of the locks that the task waits for, by the key as the lock service has it
}

// Explain returns at least one cause. Those of a pending task are in this order: what somebody has to remove before any task of its kind
// runs; its own time; what holds up its pool, its key and its locks; the limits of the pool; and what ends by itself while others run.
func Explain(f ledger.Facts, h Here) wire.Why {
	t := f.Task
	w := wire.Why{TaskID: t.ID, Pool: t.Pool, Kind: t.Kind, Key: t.Key, Job: t.Job, State: t.State, At: f.At}
	switch {
	case t.State == jobs.StateRunning:
		w.Causes = running(f)
	case t.State.Ended():
		w.Causes = []wire.Cause{ended(f)}
	default:
		p := pending{Facts: f, here: h}
		if t.Attempt == 0 {
			w.ExpiresAt = t.ExpiresAt
		}
		w.Causes = p.causes()
		w.Start = p.start(w.Causes)
	}
	return w
}

// pending is a pending task.
type pending struct {
	ledger.Facts
	here Here
}

func (p *pending) causes() (all []wire.Cause) {
	for _, look := range []func() (wire.Cause, bool){
		p.noPool, p.noReplica, p.noWorker, p.notDue, p.allPaused, p.paused, p.orderChanged, p.waitsForSlot, p.lockService, p.waitsForKind, p.waitsForKey, p.waitsForLocks,
		p.maxRunning, p.rate, p.handedBack, p.workersBusy, p.behindOthers,
	} {
		if c, is := look(); is {
			all = append(all, c)
		}
	}
	if len(all) == 0 && p.ByWorkers {
		return []wire.Cause{{Code: reason.Ready, Message: "nothing holds it up: the next claim of a worker over HTTP takes it in pool " + p.Task.Pool}}
	}
	if len(all) == 0 {
		all = []wire.Cause{{Code: reason.Ready, Message: "nothing holds it up: the next claim of pool " + p.Task.Pool + " takes it"}}
	}
	return all
}

// notDue: a task whose time has come, and that no replica has made ready yet, is due.
func (p *pending) notDue() (c wire.Cause, is bool) {
	t := p.Task
	if !t.RunAt.After(p.At) || t.RunAt.Equal(t.CreatedAt) {
		return c, false
	}
	c = wire.Cause{Code: reason.NotDue, Until: t.RunAt, Message: "it is due at " + clock(t.RunAt)}
	switch last := p.Last; {
	case t.ReasonCode == reason.Snoozed:
		c.Code, c.Message = reason.Snoozed, "its handler has put it off until "+clock(t.RunAt)+after(": ", t.Reason)
	case last != nil && t.Attempt > 0 && last.Attempt == t.Attempt:
		c.Code, c.Attempt, c.MaxAttempts, c.Replica, c.ExitCode, c.Error, c.Since = reason.Backoff, last.Attempt, t.MaxAttempts, last.Replica, last.ExitCode, last.Error, last.FinishedAt
		c.Message = fmt.Sprintf("attempt %d of %d %s at %s%s; the next one may start at %s",
			t.Attempt, max(t.Attempt, t.MaxAttempts), was(last.State), clock(last.FinishedAt), after(": ", first(last.Reason, last.Error)), clock(t.RunAt))
	}
	return c, true
}

// handedBack is what a replica said of a task that it has handed back.
func (p *pending) handedBack() (c wire.Cause, is bool) {
	t := p.Task
	if p.Waiting != ledger.WaitsForClaim || t.ReasonCode != reason.NoRoom && t.ReasonCode != reason.ClaimLost {
		return c, false
	}
	return wire.Cause{Code: t.ReasonCode, Message: "a replica has handed it back: " + t.Reason}, true
}

func (p *pending) behindOthers() (c wire.Cause, is bool) {
	if p.Waiting != ledger.WaitsForClaim || p.Ahead.N == 0 {
		return c, false
	}
	return wire.Cause{
		Code: reason.BehindOthers, Count: p.Ahead.N, More: p.Ahead.More,
		Message: fmt.Sprintf("%s of pool %s come%s before it, by priority and due time", tasks(p.Ahead, "ready task"), p.Task.Pool, verb(p.Ahead)),
	}, true
}

func was(s jobs.State) string {
	if s == jobs.StateLost {
		return "was lost"
	}
	return string(s)
}

// tasks counts them: "1 ready task", "more than 10,000 ready tasks".
func tasks(n ledger.Count, what string) string {
	if n.N == 0 {
		return "no " + what
	}
	text := amount(n) + " " + what
	if n.N != 1 || n.More {
		text += "s"
	}
	return text
}

// amount is a number with commas, and "more than" where there are more.
func amount(n ledger.Count) string {
	text := fmt.Sprint(n.N)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	if n.More {
		text = "more than " + text
	}
	return text
}

func verb(n ledger.Count) string {
	if n.N == 1 && !n.More {
		return "s"
	}
	return ""
}

// clock is a time in a sentence.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.999 UTC") }

// after is text behind what separates it; "" if there is none.
func after(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + strings.TrimSpace(text)
}

// first is the first text that is not empty, its first line.
func first(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			line, _, _ := strings.Cut(text, "\n")
			return line
		}
	}
	return ""
}

// some joins the first five texts, and counts the others.
func some(texts []string) string { return someOf(texts, len(texts)) }

// someOf is some of a list that has only the first of a number of texts.
func someOf(texts []string, total int) string {
	const most = 5
	shown := texts[:min(most, len(texts))]
	if more := total - len(shown); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(shown, ", "), more)
	}
	return strings.Join(shown, ", ")
}

// listed are the running tasks of a tally.
func listed(t ledger.Tally) []wire.WhyTask {
	all := make([]wire.WhyTask, len(t.Tasks))
	for i, r := range t.Tasks {
		all[i] = wire.WhyTask{ID: r.TaskID, State: jobs.StateRunning, Replica: r.Replica, StartedAt: r.Since}
	}
	return all
}

// idsOf are the ids of tasks, for a sentence.
func idsOf(t ledger.Tally) string {
	ids := make([]string, len(t.Tasks))
	for i, r := range t.Tasks {
		ids[i] = r.TaskID
	}
	return someOf(ids, t.N)
}
