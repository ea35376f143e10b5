package triggers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
)

// RunJob runs a job by hand; see Scheduler.RunJobWith.
func (t *Triggers) RunJob(ctx context.Context, name string, run jobs.NewRun) (jobs.Trigger, jobs.Task, error) {
	p := t.plan.Load()
	j, known := p.Jobs[name]
	if !known {
		return jobs.Trigger{}, jobs.Task{}, fmt.Errorf("job %q: %w", name, jobs.ErrNotFound)
	}
	payload, err := payloadOf(j, run)
	if err != nil {
		return jobs.Trigger{}, jobs.Task{}, fmt.Errorf("run job %q: %w", name, err)
	}
	var slot taken
	forced := ""
	decided, err := t.openOne(ctx, p, j, run.Force, func(s *slots, note string) (o ledger.Opening) {
		forced = note
		trigger := jobs.Trigger{Job: name, At: s.now.Truncate(time.Millisecond), Seq: 1, Cause: jobs.CauseManual, By: run.By}
		if forced != "" {
			trigger.Reason, trigger.ReasonCode = forced, reason.Forced
		}
		if o, slot = s.ask(trigger); slot.why != "" {
			trigger.Count, trigger.Outcome, trigger.Reason, trigger.ReasonCode, trigger.Replica = 1, jobs.Skipped, slot.why, slot.code, t.replica
			return ledger.Opening{Trigger: trigger}
		}
		o.Task.Payload = payload
		return o
	})
	if err != nil {
		return jobs.Trigger{}, jobs.Task{}, fmt.Errorf("run job %q: %w", name, err)
	}
	if len(decided.Decisions) == 0 || len(decided.Decisions[0].Triggers) == 0 {
		return jobs.Trigger{}, jobs.Task{}, fmt.Errorf("run job %q: %w: another run has its row in the ledger; ask again", name, jobs.ErrConflict)
	}
	trigger := decided.Decisions[0].Triggers[0].Trigger
	if trigger.Outcome == jobs.Skipped {
		return trigger, jobs.Task{}, fmt.Errorf("job %q: %w", name, slot.refusal(name, "scheduler jobs run "+name, run.Force))
	}
	task := opened(decided)
	t.sayForced(task, forced)
	return trigger, task, nil
}

// payloadOf is what a run by hand gets: its own payload, or the job's, if the job accepts it.
func payloadOf(j *plan.Job, run jobs.NewRun) (json.RawMessage, error) {
	payload, err := run.Encode()
	if err != nil {
		return nil, err
	}
	if payload == nil {
		payload = j.Payload
	}
	return payload, j.Accepts(payload)
}

// sayForced logs that a task of a job was started although a lost attempt may run.
func (t *Triggers) sayForced(task jobs.Task, note string) {
	if note != "" {
		t.log.Warn("a run was forced although a lost attempt of the job may still run", "job", task.Job, "task", task.ID, "by", task.By, "reason", note)
	}
}

// Retry makes a new task of an ended one; see Scheduler.Retry.
func (t *Triggers) Retry(ctx context.Context, id, by, force string) (jobs.Task, error) {
	old, err := t.store.TaskRow(ctx, id)
	if err != nil {
		return jobs.Task{}, fmt.Errorf("retry task %s: %w", id, err)
	}
	if !old.State.Ended() {
		return jobs.Task{}, fmt.Errorf("retry task %s: %w: it is %s", id, jobs.ErrConflict, old.State)
	}
	if old.Job == "" {
		task, err := t.store.Retry(ctx, id, by, force != "")
		if err == nil {
			t.work.Wake(task.Pool)
		}
		return task, err
	}
	p := t.plan.Load()
	j, known := p.Jobs[old.Job]
	if !known {
		return jobs.Task{}, fmt.Errorf("retry task %s: job %q: %w", id, old.Job, jobs.ErrNotFound)
	}
	var slot taken
	forced := ""
	decided, err := t.openOne(ctx, p, j, force, func(s *slots, note string) (o ledger.Opening) {
		forced = note
		o, slot = s.ask(jobs.Trigger{At: old.ScheduledAt, Seq: old.Seq, By: by}) // of no job: it has no row of its own
		if slot.why != "" {
			return ledger.Opening{}
		}
		o.Task.Payload, o.Task.RetryOf = old.Payload, cmp.Or(old.RetryOf, old.ID)
		switch {
		case forced != "":
			o.Task.Reason, o.Task.ReasonCode = forced, reason.Forced
		case !o.Queued: // else it has what it waits for
			o.Task.Reason, o.Task.ReasonCode = "retry of "+id, reason.Retry
			if by != "" {
				o.Task.Reason += " by " + by
			}
		}
		return o
	})
	switch {
	case err != nil:
		return jobs.Task{}, fmt.Errorf("retry task %s: %w", id, err)
	case slot.why != "":
		return jobs.Task{}, fmt.Errorf("retry task %s: %w", id, slot.refusal(j.Name, "scheduler tasks retry "+id, force))
	}
	task := opened(decided)
	t.sayForced(task, forced)
	return task, nil
}

// openOne decides one job of p outside of its schedule and starts the task if it became running. An Opening
// without a row and a task opens nothing; note says which lost attempts force has set aside, if any. jobs.ErrConflict: a newer configuration governs
// the job.
func (t *Triggers) openOne(ctx context.Context, p *plan.Plan, j *plan.Job, force string, open func(s *slots, note string) ledger.Opening) (ledger.Decided, error) {
	ses := t.member.Session()
	if ses == nil {
		return ledger.Decided{}, notNow("this replica has not joined the store; Run joins it, and Health says whether it has")
	}
	if !ses.Trusted() {
		return ledger.Decided{}, fmt.Errorf("%w: this replica's session could not be renewed", jobs.ErrUnavailable)
	}
	// A drain waits until what becomes running here has started, or is handed back.
	release, ok := t.work.Hold()
	if !ok {
		return ledger.Decided{}, notNow("this replica is stopping and starts nothing more; ask another one")
	}
	defer release()
	if t.locks.Blocks() {
		return ledger.Decided{}, notNow("the lock service is away, and lock.when_down is wait: nothing starts until it is back")
	}
	if !t.member.Loaded() {
		return ledger.Decided{}, notNow("this replica has not started yet: it loads its definitions, or waits for the first answer of its lock service; Health says when it has")
	}
	if err := ctx.Err(); err != nil {
		return ledger.Decided{}, err
	}
	may, start := t.work.Reserve(p, []string{j.Name})
	ids := taskIDs{}
	request := t.request([]string{j.Name}, may)
	request.ByHand = true
	governs := false
	request.Decide = func(now time.Time, states []ledger.JobState) []ledger.Decision {
		if governs = len(states) > 0 && states[0].Hash == j.Hash; !governs {
			return nil
		}
		d, dec := t.rules(p, now, ids.get), ledger.Decision{Job: j.Name}
		state, note := d.override(j, states[0], force)
		slots := d.slotsOf(j, state, 1, &dec)
		o := open(slots, note)
		if slots.changed() {
			slots.close(state.Cursor)
		}
		switch {
		case o.Task != nil || o.Trigger.Job != "":
			dec.Triggers, dec.Free = []ledger.Opening{o}, note != "" && o.Task != nil
		case !slots.changed():
			return nil
		}
		return []ledger.Decision{dec}
	}
	// The end of the caller's context does not cancel it: what was opened must be started or handed back.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	decided, err := t.write(ctx, request, start)
	for _, dec := range decided.Decisions {
		if !dec.Waiting.IsZero() {
			t.upcoming.set(j.Name, dec.NextAt, true)
		}
	}
	switch {
	case errors.Is(err, ledger.ErrClock), errors.Is(err, ledger.ErrSessionDead): // both pass
		err = fmt.Errorf("%w: %w", jobs.ErrUnavailable, err)
	case err == nil && !governs && t.replacing.Load():
		err = notNow("the configuration is being replaced; ask again")
	case err == nil && !governs:
		err = fmt.Errorf("%w: a newer configuration governs job %q; ask a replica that was started with it: scheduler replicas list", jobs.ErrConflict, j.Name)
	}
	return decided, err
}

// notNow refuses a call before anything was sent. It is jobs.ErrUnavailable, though the store may answer.
type notNow string

func (e notNow) Error() string { return string(e) }

func (e notNow) Is(target error) bool { return target == jobs.ErrUnavailable }

// opened is the task that a decision about one run has opened.
func opened(d ledger.Decided) jobs.Task {
	for _, dec := range d.Decisions {
		for _, o := range dec.Triggers {
			if o.Task != nil {
				return *o.Task
			}
		}
	}
	return jobs.Task{}
}
