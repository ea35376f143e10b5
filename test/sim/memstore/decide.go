package memstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Decide implements ledger.Triggers.
func (s *Store) Decide(ctx context.Context, d ledger.Decide) (out ledger.Decided, err error) {
	err = s.deciding(ctx, "decide", d.Session, d.Now, func(t *tx, now time.Time) error {
		w := &decision{Decide: d, t: t, now: now, admission: &admission{Admission: d.Admission, t: t, now: now, taken: map[string]int{}}}
		if err := w.write(); err != nil {
			return err
		}
		out = w.out
		return nil
	})
	if err != nil {
		return ledger.Decided{}, err
	}
	return out, nil
}

type decision struct {
	ledger.Decide
	t         *tx
	now       time.Time
	admission *admission
	out       ledger.Decided
}

var errDecided = errors.New("decided before")

func (w *decision) write() error {
	w.out.Now, w.out.Paused = w.now, w.t.paused
	if w.out.Paused.Is() {
		if !w.ByHand {
			w.Jobs = nil
		}
		w.admission.Pools = nil
	}
	w.out.Decisions = w.Decide.Decide(w.now, w.states())
	for i := range w.out.Decisions {
		dec := &w.out.Decisions[i]
		w.number(dec)
		dec.Triggers = slices.DeleteFunc(slices.Clone(dec.Triggers), func(o ledger.Opening) bool {
			_, exists := w.t.triggers.rows[keyOf(o.Trigger)]
			return o.Trigger.Job != "" && exists
		})
	}
	var missed []happening
	for _, dec := range w.out.Decisions {
		ended, err := w.end(dec)
		if err != nil {
			return err
		}
		missed = append(missed, ended...)
	}
	for _, dec := range w.out.Decisions {
		happened, err := w.open(dec)
		if err != nil {
			return err
		}
		missed = append(missed, happened...)
	}
	if err := w.t.started(w.now, w.Admission, w.out.Started); err != nil {
		return err
	}
	for i := range w.out.Decisions {
		if err := w.writeOrders(&w.out.Decisions[i]); err != nil {
			return err
		}
	}
	return w.t.happened(w.now, missed)
}

func (w *decision) states() (states []ledger.JobState) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(w.Jobs))) {
		r := w.t.jobs.rows[name]
		if r.Hash == "" || w.Overdue && (r.Next == 0 || r.Next > micros(w.now)) {
			continue
		}
		state := ledger.JobState{
			Name: name, Hash: r.Hash, Cursor: fromMicros(r.Cursor), Fence: r.Fence, Suspension: r.Suspension(), SkipNext: r.SkipNext, SkipBy: r.SkipBy, BusyUntil: fromMicros(r.BusyUntil),
		}
		if r.BusyUntil > micros(w.now) {
			state.Lost = w.t.lostOf(name, w.now)
		}
		for _, task := range w.t.tasks.rows {
			if task.Job == name {
				t := task.task()
				is := jobs.Task{
					ID: t.ID, ScheduledAt: t.ScheduledAt, Seq: t.Seq, State: t.State, Pool: t.Pool, Attempt: t.Attempt, Replica: t.Replica,
					RunAt: t.RunAt, StartedAt: t.StartedAt, CreatedAt: t.CreatedAt, RetryOf: t.RetryOf, ReasonCode: t.ReasonCode,
				}
				switch {
				case task.State == Queued:
					state.Queued = append(state.Queued, is)
					continue
				case task.Cancel != "":
					state.Stopping = append(state.Stopping, t.ID)
				}
				state.Open = append(state.Open, is)
				if w.t.backfilled(task) {
					state.Backfilled = true
				}
			}
		}
		byID := func(a, b jobs.Task) int { return cmp.Compare(a.ID, b.ID) }
		slices.SortFunc(state.Open, byID)
		slices.SortFunc(state.Queued, byID)
		slices.Sort(state.Stopping)
		state.Orders = w.readOrders(name)
		states = append(states, state)
	}
	return states
}

// lostOf are the tasks of a job whose attempts were lost and may be running, the one that was lost last first.
func (t *tx) lostOf(job string, now time.Time) (lost []ledger.LostTask) {
	for _, r := range t.done.rows {
		if r.Job == job && (r.State == string(jobs.StateLost) || r.State == string(jobs.StateCancelled)) && r.MayRunUntil > micros(now) {
			lost = append(lost, ledger.LostTask{
				ID: r.ID, ScheduledAt: fromMicros(r.TriggerAt), Replica: r.Replica, At: fromMicros(r.FinishedAt), Until: fromMicros(r.MayRunUntil),
			})
		}
	}
	slices.SortFunc(lost, func(a, b ledger.LostTask) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.ID, a.ID)) })
	return lost
}

func keyOf(g jobs.Trigger) TriggerKey { return TriggerKey{g.Job, micros(g.At), g.Seq} }

// number gives the triggers that no schedule asked for their seq.
func (w *decision) number(dec *ledger.Decision) {
	last := map[TriggerKey]int{} // by keys without seq
	for i := range dec.Triggers {
		g := &dec.Triggers[i].Trigger
		if g.Job == "" {
			continue
		}
		g.Seq = 0
		if g.Cause == jobs.CauseSchedule || g.Cause == jobs.CauseCatchUp {
			continue
		}
		k := keyOf(*g)
		if _, seen := last[k]; !seen {
			for other := range w.t.triggers.rows {
				if other.Job == k.Job && other.At == k.At {
					last[k] = max(last[k], other.Seq)
				}
			}
		}
		last[k]++
		g.Seq = last[k]
	}
}

// end ends the pending tasks that a decision ends, and leaves word for the owners of the running ones.
func (w *decision) end(dec ledger.Decision) (ends []happening, err error) {
	for _, e := range dec.Ends {
		row, open := w.t.tasks.rows[e.Task]
		switch {
		case !open || row.Job != dec.Job:
			return nil, fmt.Errorf("a decision about job %q ends task %s, which is none of its", dec.Job, e.Task)
		case row.State == Running && row.Cancel == "":
			row.Cancel = e.Reason
			put(w.t, &w.t.tasks, row)
		case row.State != Running:
			if _, end := w.t.withdraw(w.now, row, e.Reason, e.Code); end != nil {
				ends = append(ends, *end)
			}
		}
	}
	return ends, nil
}

// open writes one decision.
func (w *decision) open(dec ledger.Decision) (missed []happening, err error) {
	job := w.t.jobs.rows[dec.Job]
	if job.Hash == "" || !slices.Contains(w.Jobs, dec.Job) {
		return nil, fmt.Errorf("a decision about job %q, whose row is not locked", dec.Job)
	}
	before := job
	if !dec.Cursor.IsZero() && micros(dec.Cursor) >= job.Cursor {
		job.Cursor, job.Due, job.Next, job.Waiting = micros(dec.Cursor), micros(dec.Due), micros(dec.NextAt), micros(dec.Waiting)
	}
	job.SkipNext = max(0, job.SkipNext-dec.Skipped)
	if dec.Free {
		job.BusyUntil = 0
		for _, lost := range w.t.lostOf(dec.Job, w.now) {
			row := w.t.done.rows[lost.ID]
			row.MayRunUntil = 0
			put(w.t, &w.t.done, row)
		}
	}
	for _, id := range dec.Starts {
		row, waits := w.t.tasks.rows[id]
		if !waits || row.State != Queued || row.Job != dec.Job {
			return nil, fmt.Errorf("a slot of job %q for task %s, which waits for none", dec.Job, id)
		}
		row.State, row.Reason, row.ReasonCode = Ready, "", ""
		put(w.t, &w.t.tasks, row)
		w.out.Opened = append(w.out.Opened, row.task())
	}
	for i := range dec.Triggers {
		o := &dec.Triggers[i]
		if o.Trigger.Job != "" && o.Trigger.Job != dec.Job {
			return nil, fmt.Errorf("a trigger of job %q in a decision about %q", o.Trigger.Job, dec.Job)
		}
		if o.Task != nil {
			if o.Task.ID == "" {
				return nil, fmt.Errorf("a task of job %q without an id", dec.Job)
			}
			if err := w.openTask(&job, o); err != nil {
				return nil, err
			}
		}
		if o.Trigger.Job == "" {
			continue
		}
		if err := w.openTrigger(o); err != nil {
			return nil, err
		}
		if g := o.Trigger; g.Outcome == jobs.Missed {
			missed = append(missed, happening{
				job: g.Job, at: micros(g.At), seq: g.Seq, until: micros(g.Until), count: g.Count, replica: g.Replica,
				event: jobs.EventMissed, reason: g.Reason, code: g.ReasonCode,
			})
		}
	}
	if job != before {
		put(w.t, &w.t.jobs, job)
	}
	return missed, nil
}

func (w *decision) openTask(job *Job, o *ledger.Opening) error {
	task := *o.Task
	if o.Trigger.Job != "" {
		task.ScheduledAt, task.Seq = o.Trigger.At, o.Trigger.Seq
	}
	row := Task{
		ID: task.ID, Pool: cmp.Or(task.Pool, naming.DefaultPool), Kind: task.Kind, Job: job.Name, TriggerAt: micros(task.ScheduledAt),
		TriggerSeq: task.Seq, Rank: -task.Priority, RunAt: cmp.Or(micros(task.RunAt), micros(w.now)), MaxAttempts: max(task.MaxAttempts, 1), LostLimit: cmp.Or(task.LostLimit, limits.Losses),
		OnLost: string(cmp.Or(task.OnLost, jobs.LostFails)), Payload: task.Payload, Tags: encodeTags(task.Tags), RetryOf: task.RetryOf,
		Reason: task.Reason, ReasonCode: task.ReasonCode, CreatedAt: micros(w.now), By: task.By,
	}
	var started ledger.Started
	runs := false
	if o.Queued {
		row.State = Queued
	} else if row.RunAt > micros(w.now) {
		row.State = Waits
	} else if w.admission.correct(row.Pool); !w.admission.behind(row) {
		row, started, runs, _ = w.admission.admit(row, job)
	}
	if !add(w.t, &w.t.tasks, row) {
		return fmt.Errorf("task %s exists", row.ID)
	}
	opened := row.task()
	o.Task, o.Trigger.TaskID = &opened, row.ID
	if runs {
		w.out.Started = append(w.out.Started, started)
	} else {
		w.out.Opened = append(w.out.Opened, opened)
	}
	return nil
}

func (w *decision) openTrigger(o *ledger.Opening) error {
	g := &o.Trigger
	g.Replica, g.Count, g.DecidedAt = cmp.Or(g.Replica, w.Replica), max(g.Count, 1), w.now
	g.Definition, g.Config = ledger.DefinitionID("", w.t.jobs.rows[g.Job].Hash), w.t.sessions.rows[w.Session].Config
	if o.Task != nil {
		g.StartedAt = o.Task.StartedAt
	}
	row := triggerOf(*g)
	row.Overdue = w.Overdue
	if !add(w.t, &w.t.triggers, row) {
		return errDecided
	}
	if o.Task != nil {
		for _, e := range o.Expectations() {
			put(w.t, &w.t.expected, Expectation{micros(e.By), g.Job, micros(g.At), g.Seq, string(e.What)})
		}
	}
	return nil
}
