package why

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// apart is the length of time from which on a delay, or a difference of clocks, is worth a cause.
const apart = time.Second

// HereOfJob is what the replica that answers knows of a job beside the store. The zero value is of a process without a replica.
type HereOfJob struct {
	Here
	Known    bool                          // its configuration has the job
	Differs  bool                          // and otherwise than the one that governs
	Then     *jobs.Schedule                // of the definition that governed at the due time; nil: it is not known, or the job had none
	Delays   bool                          // due times of Then may have started later than they were: by jitter or calendars, which are not known
	Schedule *jobs.Schedule                // of its own; nil: the job has none
	Starts   func(due time.Time) time.Time // of a job with jitter: when a due time of Schedule starts; nil: when it fires
	Zone     *time.Location                // of the job; nil: UTC
	Policy   jobs.Concurrency
	Slots    int          // how many runs may be open at once, without jobs.Allow; 0: 1
	InFile   bool         // the definition suspends the job: the one of the facts if it is known, else that of this replica
	Locks    []string     // that the job's next task needs, as the lock service has them
	Task     []wire.Cause // why the task of the row is in its state, if that has not ended
}

// ExplainJob returns at least one cause. A time between the due times of one row is a due time if the definition that governed says so. Of a due time that was decided, what became of it is first, then what held it up. Of one that was not, what
// may stop it is first, and last that it is due.
func ExplainJob(f ledger.JobFacts, h HereOfJob) wire.WhyJob {
	if h.Zone == nil {
		h.Zone = time.UTC
	}
	w := wire.WhyJob{Job: f.Job.Name, At: f.About, ReadAt: f.At, ByHand: f.ByHand, Definition: f.Definition}
	if !f.About.IsZero() {
		w.Local = f.About.In(h.Zone).Format(time.RFC3339)
	}
	x := ofJob{JobFacts: f, here: h}
	x.passOver()
	switch {
	case x.Row != nil:
		w.Trigger, w.Causes = x.row(), x.decided()
		w.Summary = x.subject() + " " + w.Causes[0].Message
	default:
		w.Causes = x.undecided(&w)
		w.Summary = x.summary(w.Causes)
	}
	w.Causes = append(w.Causes, x.ordered()...)
	return w
}

// ordered says of runs at the time that users have ordered by whom and when.
func (x *ofJob) ordered() (all []wire.Cause) {
	for _, g := range x.ByHand {
		i := slices.IndexFunc(x.Orders, func(o ledger.Order) bool { return o.ID == g.Order })
		if i < 0 {
			continue
		}
		o := x.Orders[i]
		c := wire.Cause{Code: reason.Ordered, By: o.By, Since: o.CreatedAt}
		who := "ordered" + after(" by ", o.By) + " at " + clock(o.CreatedAt) + " (order " + o.ID + ")"
		c.Message = "a run for it was " + who
		if o.Kind == wire.OrderBackfill {
			c.Code, c.Message = reason.Backfill, "a run for it was made by a backfill, "+who
		}
		switch {
		case g.Outcome == "":
			c.Message += ": it is open as task " + g.TaskID
		case g.Outcome == jobs.Ran:
			c.Message += ": it " + string(g.Result) + " as task " + g.TaskID
		default:
			c.Message += ": it was " + string(g.Outcome) + after(", ", g.Reason)
		}
		all = append(all, c)
	}
	return all
}

// ofJob is a due time of a job.
type ofJob struct {
	ledger.JobFacts
	here  HereOfJob
	among *ledger.DecidedRow // the row for several due times that the time lies between; nil: it does not
}

// subject names the due time in a sentence.
func (x *ofJob) subject() string { return x.Job.Name + " of " + clock(x.About) }

func (x *ofJob) row() *wire.WhyTrigger {
	r := x.Row
	v := &wire.WhyTrigger{Trigger: r.Trigger, Overdue: r.Overdue}
	if !x.here.Delays {
		v.Late = x.late().Round(time.Microsecond).String()
	}
	if r.ClockOffset != 0 {
		v.ClockOffset = r.ClockOffset.String()
	}
	if r.Took != 0 {
		v.Took = r.Took.String()
	}
	if r.LockTook != 0 {
		v.LockTook = r.LockTook.String()
	}
	if x.Task != nil {
		v.Attempts = x.Task.Attempt
	}
	return v
}

// late is how long after its start the due time was decided; 0 if it is not known when that was.
func (x *ofJob) late() time.Duration {
	if x.here.Delays {
		return 0
	}
	return x.Row.DecidedAt.Sub(x.starts())
}

// starts is when the due time is acted on: when it fires or, with jitter, later.
func (x *ofJob) starts() time.Time {
	if x.here.Starts == nil || x.here.Then != nil {
		return x.fires()
	}
	return x.here.Starts(x.About)
}

// fires is when the due time fires: at itself, or at the end of the closure that it runs for. One that is left out is decided at itself.
func (x *ofJob) fires() time.Time {
	leftOut := x.Row != nil && x.Row.ReasonCode == reason.Calendar
	if leftOut || x.here.Schedule == nil || x.here.Then != nil {
		return x.About
	}
	return x.here.Schedule.Fires(x.About)
}

func (x *ofJob) decided() (all []wire.Cause) {
	if x.Row.Outcome == "" && len(x.here.Task) > 0 {
		all = append(all, x.here.Task...)
		all[0].Message = x.open() + ": " + all[0].Message
	} else {
		all = append(all, x.became())
	}
	for _, look := range []func() (wire.Cause, bool){x.suspender, x.ranResumed, x.wasPaused, x.outage, x.decidedLate, x.otherDecider, x.clockApart, x.storeSlow, x.startedLate} {
		if c, is := look(); is {
			all = append(all, c)
		}
	}
	return all
}

// open says which task an open row has.
func (x *ofJob) open() string {
	if x.Task != nil && x.Task.State == jobs.StateRunning {
		return "runs as task " + x.Row.TaskID
	}
	return "waits as task " + x.Row.TaskID
}

// became is what the row says, in the words of its reason.
func (x *ofJob) became() wire.Cause {
	r := x.Row
	c := wire.Cause{Code: r.ReasonCode, Since: r.DecidedAt, By: r.By}
	task := ""
	if r.TaskID != "" {
		task = " as task " + r.TaskID
		c.Tasks = whyTasks(x.Task)
	}
	if x.Task != nil {
		c.Replica, c.Attempt, c.MaxAttempts, c.ExitCode, c.Error = x.Task.Replica, x.Task.Attempt, x.Task.MaxAttempts, x.Task.ExitCode, x.Task.Error
	}
	switch r.Outcome {
	case jobs.Ran:
		c.Code = cmp.Or(c.Code, map[jobs.State]reason.Code{jobs.StateSucceeded: reason.Succeeded}[r.Result], reason.Ended)
		c.Message = fmt.Sprintf("ran%s, which started at %s and %s at %s%s", task, clock(r.StartedAt), endedIn(r.Result), clock(r.FinishedAt), after(": ", r.Reason))
		if task == "" {
			c.Message = fmt.Sprintf("ran from %s to %s: %s%s", clock(r.StartedAt), clock(r.FinishedAt), r.Result, after(": ", r.Reason))
		}
	case jobs.Lost:
		c.Code = cmp.Or(c.Code, reason.Ended)
		c.Message = "was lost" + task + " at " + clock(r.FinishedAt) + after(": ", r.Reason)
	case "": // open, and its task is not known any more
		c.Code, c.Message = cmp.Or(c.Code, reason.Undecided), "is open"+task
		if x.Task != nil && x.Task.State.Ended() {
			c.Code, c.Message = cmp.Or(x.Task.ReasonCode, reason.Ended), "is about to end"+task+", which has ended as "+string(x.Task.State)
		}
	default:
		c.Code = cmp.Or(c.Code, reason.Ended)
		c.Message = "was " + string(r.Outcome) + task + after(": ", r.Reason)
		if n := x.Named; n != nil {
			c.Tasks = whyTasks(n)
			if n.State.Ended() {
				c.Message += "; that task " + endedAs(n) + " at " + clock(n.FinishedAt)
			}
		}
	}
	if r.Count > 1 {
		c.Count = r.Count
		c.Message += fmt.Sprintf("; its row is for %d due times, from %s to %s", r.Count, clock(r.At), clock(r.Until))
	}
	return c
}

// endedAs is how a task ended, as a verb.
func endedAs(t *jobs.Task) string {
	return endedIn(t.State)
}

func endedIn(s jobs.State) string {
	if s == jobs.StateLost || s == jobs.StateCancelled {
		return "was " + string(s)
	}
	return string(s)
}

func whyTasks(t *jobs.Task) []wire.WhyTask {
	if t == nil {
		return nil
	}
	return []wire.WhyTask{{ID: t.ID, State: t.State, Replica: t.Replica, StartedAt: t.StartedAt, RunAt: t.RunAt, ReasonCode: t.ReasonCode, Reason: t.Reason}}
}

// suspender is who suspended the job, where that is the reason.
func (x *ofJob) suspender() (c wire.Cause, is bool) {
	if x.Row.ReasonCode != reason.Suspended {
		return c, false
	}
	if c, is = x.suspendedBy(x.Suspension); is {
		return c, true
	}
	// That runs failed is in no audit. Where nothing was decided otherwise since, it is the suspension of now.
	if o := x.Job.Override; o == nil || !*o || x.Job.SuspendedReason == "" || x.JobFacts.After != nil && x.JobFacts.After.ReasonCode != reason.Suspended {
		return c, false
	}
	return wire.Cause{Code: reason.Suspended, By: x.Job.SuspendedBy, Override: true, Message: "the job is suspended now, by " + x.Job.SuspendedBy + ": " + x.Job.SuspendedReason}, true
}

func (x *ofJob) suspendedBy(e wire.AuditEntry) (c wire.Cause, is bool) {
	if e.At.IsZero() {
		return c, false
	}
	by := caller(e)
	return wire.Cause{Code: reason.Suspended, By: by, Since: e.At, Override: true, Message: "it was suspended by " + cmp.Or(by, "the API") + " at " + clock(e.At)}, true
}

// ranResumed: what a definition suspends runs where an override says so. Who has set it then is not known.
func (x *ofJob) ranResumed() (c wire.Cause, is bool) {
	if !x.here.InFile || x.Definition == nil || x.Row.TaskID == "" {
		return c, false
	}
	return wire.Cause{Code: reason.Resumed, Override: true, Message: "the definition that governed suspends the job, and it had been resumed by the API or the command line, which comes before that"}, true
}

// wasPaused: everything was paused, and so nothing was decided.
func (x *ofJob) wasPaused() (c wire.Cause, is bool) {
	q := x.Quiet
	if q == nil || q.Paused.At.IsZero() || x.late() <= apart {
		return c, false
	}
	c = wire.Cause{Code: reason.WasPaused, By: caller(q.Paused), Since: q.Paused.At, Until: q.Resumed.At}
	c.Message = "everything was paused by " + cmp.Or(c.By, "the API") + " at " + clock(c.Since)
	if c.Until.IsZero() {
		return c, true
	}
	c.Message += ", and resumed by " + cmp.Or(caller(q.Resumed), "the API") + " at " + clock(c.Until)
	return c, true
}

// heldFromStart reports whether everything was paused already when it was to start: then no replica is missed.
func (x *ofJob) heldFromStart() bool {
	at := x.Quiet.Paused.At
	return !at.IsZero() && !at.After(x.starts().Add(apart))
}

// caller is who asked for something; without access control its address.
func caller(e wire.AuditEntry) string {
	if e.Who == "" && e.Remote != "" {
		return "api:" + e.Remote
	}
	return e.Who
}

// outage: nothing at all was decided, and no replica is known to have lived.
func (x *ofJob) outage() (c wire.Cause, is bool) {
	q := x.Quiet
	if q == nil || q.Other != nil || x.heldFromStart() || x.late() < 10*apart {
		return c, false
	}
	c = wire.Cause{Code: reason.Outage, Since: q.From, Until: q.Until}
	c.Message = "no replica decided anything until " + clock(q.Until)
	if !q.From.IsZero() {
		c.Message = "no replica decided anything from " + clock(q.From) + " to " + clock(q.Until)
	}
	switch {
	case len(q.Live) > 0:
		var names []string
		for _, p := range q.Live {
			names = append(names, p.Replica)
			c.Replicas = append(c.Replicas, wire.WhyReplica{ID: p.Replica, State: p.View().State})
		}
		c.Message += "; live then, and perhaps without the store or its clock: " + some(names)
	case q.Decider != nil:
		c.Replica = q.Decider.Replica
		c.Message += ", and none is known to have been live; " + q.Decider.Replica + ", which decided it, joined at " + clock(q.Decider.JoinedAt)
	default:
		c.Message += ": none was live, or none reached the store"
	}
	return c, true
}

func (x *ofJob) decidedLate() (c wire.Cause, is bool) {
	if x.late() <= apart {
		return c, false
	}
	c = wire.Cause{Code: reason.DecidedLate, Replica: x.Row.Replica, Since: x.Row.DecidedAt}
	c.Message = fmt.Sprintf("%s decided it %s after it was due, at %s", cmp.Or(x.Row.Replica, "a replica"), x.late().Round(time.Millisecond), clock(x.Row.DecidedAt))
	if q := x.Quiet; q != nil && q.Other != nil {
		c.Message += fmt.Sprintf("; meanwhile, at %s, %s decided the one of job %s of %s", clock(q.Other.DecidedAt), cmp.Or(q.Other.Replica, "a replica"), q.Other.Job, clock(q.Other.At))
	}
	return c, true
}

func (x *ofJob) otherDecider() (c wire.Cause, is bool) {
	if _, out := x.outage(); out || !x.Row.Overdue { // after an outage who decides first is no matter
		return c, false
	}
	return wire.Cause{Code: reason.OtherDecider, Replica: x.Row.Replica, Message: x.Row.Replica + " decided it as overdue: the owner of its stripe had not"}, true
}

func (x *ofJob) clockApart() (c wire.Cause, is bool) {
	off := x.Row.ClockOffset
	if off.Abs() <= apart {
		return c, false
	}
	return wire.Cause{Code: reason.ClockApart, Replica: x.Row.Replica, Message: fmt.Sprintf("the clock of %s was %s %s of the database's; due times go by the database's", x.Row.Replica, off.Abs().Round(time.Millisecond), aheadOrBehind(off))}, true
}

func aheadOrBehind(off time.Duration) string {
	if off < 0 {
		return "behind that"
	}
	return "ahead"
}

func (x *ofJob) storeSlow() (c wire.Cause, is bool) {
	if x.Row.Took <= apart {
		return c, false
	}
	return wire.Cause{Code: reason.StoreSlow, Replica: x.Row.Replica, Message: fmt.Sprintf("the store took %s for the decision, with what it waited for", x.Row.Took.Round(time.Millisecond))}, true
}

func (x *ofJob) startedLate() (c wire.Cause, is bool) {
	r := x.Row
	wait := r.StartedAt.Sub(r.DecidedAt)
	if r.StartedAt.IsZero() || wait <= apart {
		return c, false
	}
	what := "a slot of the job, a worker, a limit of its pool or a lock"
	if x.here.Policy == jobs.Allow {
		what = "a worker, a limit of its pool or a lock"
	}
	return wire.Cause{Code: reason.StartedLate, Since: r.StartedAt, Message: fmt.Sprintf("its first attempt started %s after it was decided: it waited for %s", wait.Round(time.Millisecond), what)}, true
}
