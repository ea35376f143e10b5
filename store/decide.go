package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// Decide decides due times of jobs in one transaction. It implements ledger.Triggers.
//
//  1. It locks the rows of d.Jobs that no other transaction has locked. It waits only if others have all of them.
//  2. It calls d.Decide.
//  3. It ends tasks, or asks their owners to stop them.
//  4. It writes ledger rows, tasks, cursors and orders, and gives slots to tasks that wait for one.
//
// Tasks must have ids, the same ones in each call of d.Decide: by them a COMMIT is settled when its answer was lost.
//
// The lock on a job's row guarantees "forbid". The ledger's key (job, at, seq) shows what was decided before: such a row keeps
// its decision, opens no second task and is left out of the answer. A cursor never moves back.
//
// Errors: ledger.ErrSessionDead, what d.Now returned, jobs.ErrUnavailable.
func (s replica) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	w := &decision{Decide: d, began: time.Now()}
	err := s.settle(ctx, "decide", w.write, w.committed)
	if errors.Is(err, errDecided) {
		w.look = true
		err = s.settle(ctx, "decide", w.write, w.committed)
	}
	if err != nil {
		return ledger.Decided{}, err
	}
	return w.out, nil
}

// errDecided: the ledger has a row already that this decision wanted to write.
var errDecided = errors.New("decided before")

// decision is one Decide call; each call of write starts it again.
type decision struct {
	ledger.Decide
	look bool // for rows that exist, before writing: some do

	began     time.Time // the call
	now       time.Time
	config    int64         // of the decider
	behind    time.Duration // the database's clock, behind this process's
	admission *admission
	rows      []*jobRow
	triggers  []jobs.Trigger
	tasks     []openTask
	ended     []ledger.LostTask // known to have ended
	moves     []move            // pending tasks that end
	expected  [][]any           // rows of expectations
	out       ledger.Decided
}

func (w *decision) write(t *tx) error {
	w.triggers, w.tasks, w.ended, w.moves, w.expected, w.out = nil, nil, nil, nil, nil, ledger.Decided{}
	if err := w.lock(t); err != nil {
		return err
	}
	states, err := w.states(t)
	if err != nil {
		return err
	}
	w.out.Now = w.now
	w.out.Decisions = w.Decide.Decide(w.now, states)
	if err := w.number(t); err != nil {
		return err
	}
	if w.look {
		if err := w.leaveOut(t); err != nil {
			return err
		}
	}
	if err := w.endTasks(t); err != nil {
		return err
	}
	if err := w.admission.readFree(t, w.pools()); err != nil {
		return err
	}
	if err := w.open(t); err != nil {
		return err
	}
	if err := w.writeOrders(t); err != nil {
		return err
	}
	if err := w.insertTriggers(t); err != nil {
		return err
	}
	if _, err := t.Insert("{expectations} (due_by, job, at, seq, what)", w.expected); err != nil {
		return err
	}
	if err := t.insertOpened(w.tasks); err != nil {
		return err
	}
	if err := w.grantSlots(t); err != nil {
		return err
	}
	if err := w.admission.spend(t); err != nil {
		return err
	}
	if err := t.giveUp(w.ended); err != nil {
		return err
	}
	if err := t.happened(w.now, slices.Concat(missed(w.triggers), ends(w.moves), w.StartEvents(w.out.Started))); err != nil {
		return err
	}
	return t.saveJobs(w.rows)
}

// lock checks session and clock, then locks the free rows of the stripes, if they are the guard, and of the jobs.
func (w *decision) lock(t *tx) (err error) {
	is, err := t.begin(w.Session, w.Now)
	if err != nil {
		return err
	}
	w.now, w.config, w.behind, w.out.Paused = is.now, is.config, is.behind, is.paused
	may := w.Admission
	if w.out.Paused.Is() { // what is opened by hand is pending
		may.Pools = nil
	}
	w.admission = newAdmission(may, w.now)
	if w.out.Paused.Is() && !w.ByHand {
		return nil
	}
	names, dueBy := w.Jobs, time.Time{}
	if w.Guard && t.DB.Dialect.LocksRows() { // else BEGIN is the guard
		if names, w.out.Busy, err = t.lockFreeStripes(names); err != nil {
			return err
		}
	}
	if w.Overdue {
		dueBy = w.now
	}
	rows, busy, err := t.lockFreeJobs(names, dueBy)
	w.rows, w.out.Busy = rows, append(w.out.Busy, busy...)
	w.rows = slices.DeleteFunc(w.rows, func(r *jobRow) bool { return r.Hash == "" })
	return err
}

// states adds the open tasks. They are read after the lock: no other transaction opens one in between.
//
// Index: tasks_job.
func (w *decision) states(t *tx) ([]ledger.JobState, error) {
	if len(w.rows) > 0 {
		err := each(t.rows("SELECT job, id, trigger_at, trigger_seq, state, pool, attempt, replica, run_at, started_at, created_at, retry_of, reason_code, cancel FROM {tasks} WHERE job>'' AND {in name job} ORDER BY job, id",
			sqlkit.Rows(w.rows, func(r *jobRow) []any { return []any{r.Name} })),
			func(m *taskModel) {
				r, _ := findJob(w.rows, m.Task.Job)
				f := &m.Task
				task := jobs.Task{
					ID: f.ID, ScheduledAt: fromMicros(f.TriggerAt), Seq: f.TriggerSeq, State: taskState(f.State), Pool: f.Pool, Attempt: f.Attempt, Replica: string(f.Replica),
					RunAt: fromMicros(f.RunAt), StartedAt: fromMicros(f.StartedAt), CreatedAt: fromMicros(f.CreatedAt), RetryOf: f.RetryOf, ReasonCode: f.ReasonCode,
				}
				if rowState(f.State) == rowQueued {
					r.Queued = append(r.Queued, task)
					return
				}
				r.Open = append(r.Open, task)
				if m.Cancel != "" {
					r.Stopping = append(r.Stopping, f.ID)
				}
			})
		if err != nil {
			return nil, err
		}
	}
	if err := w.findLost(t); err != nil {
		return nil, err
	}
	if err := w.backfilled(t); err != nil {
		return nil, err
	}
	if err := w.readOrders(t); err != nil {
		return nil, err
	}
	return mapped(w.rows, func(r *jobRow) ledger.JobState { return r.JobState }), nil
}

// pools are those of the tasks that are opened.
func (w *decision) pools() (pools []string) {
	for _, o := range w.openings() {
		if o.Task != nil {
			pools = append(pools, cmp.Or(o.Task.Pool, naming.DefaultPool))
		}
	}
	return pools
}

// open turns the openings into rows, hands out tokens and moves the cursors forward.
func (w *decision) open(t *tx) error {
	for _, dec := range w.out.Decisions {
		job, ok := findJob(w.rows, dec.Job)
		if !ok {
			return fmt.Errorf("a decision about job %q, whose row is not locked", dec.Job)
		}
		if !dec.Cursor.IsZero() && !dec.Cursor.Before(job.Cursor) {
			job.Cursor, job.due, job.next, job.waiting, job.changed = dec.Cursor, dec.Due, dec.NextAt, dec.Waiting, true
		}
		if dec.Skipped > 0 {
			job.SkipNext, job.changed = max(0, job.SkipNext-dec.Skipped), true
		}
		if dec.Free {
			job.BusyUntil, job.changed = time.Time{}, true
			w.ended = append(w.ended, job.Lost...)
		}
		for i := range dec.Triggers {
			o := &dec.Triggers[i]
			if o.Trigger.Job != "" && o.Trigger.Job != dec.Job {
				return fmt.Errorf("a trigger of job %q in a decision about %q", o.Trigger.Job, dec.Job)
			}
			if o.Task != nil {
				if o.Task.ID == "" {
					return fmt.Errorf("a task of job %q without an id", dec.Job)
				}
				if err := w.openTask(t, job, o); err != nil {
					return err
				}
			}
			if o.Trigger.Job != "" {
				if err := w.openTrigger(t, job, o); err != nil {
					return err
				}
			}
		}
	}
	slices.SortFunc(w.tasks, lockOrder)
	slices.SortFunc(w.triggers, func(a, b jobs.Trigger) int { return compareKeys(keyOf(a), keyOf(b)) })
	return nil
}

// openTask adds a task, running if it may be.
func (w *decision) openTask(t *tx, job *jobRow, o *ledger.Opening) error {
	task := *o.Task // the value of d.Decide stays as it is
	if o.Trigger.Job != "" {
		task.ScheduledAt, task.Seq = o.Trigger.At, o.Trigger.Seq
	}
	task.Job = job.Name
	task.Pool = cmp.Or(task.Pool, naming.DefaultPool)
	task.OnLost = cmp.Or(task.OnLost, jobs.LostFails)
	task.MaxAttempts = max(task.MaxAttempts, 1)
	task.LostLimit = cmp.Or(task.LostLimit, limits.Losses)
	task.CreatedAt = w.now
	if task.RunAt.IsZero() {
		task.RunAt = w.now
	}
	task.State = jobs.StatePending
	task.IdempotencyKey, task.PayloadSize = task.IdempotencyKeyIn(""), len(task.Payload)
	state := pendingRow(task.RunAt, w.now)
	if o.Queued {
		state = rowQueued
	}
	row, runs, err := w.admission.admitNew(t, openTask{Task: task, row: state}, job)
	switch {
	case err != nil:
		return err
	case runs:
		w.out.Started = append(w.out.Started, ledger.Started{Task: &row.Task, Until: row.mayRunUntil})
	default:
		w.out.Opened = append(w.out.Opened, row.Task)
	}
	o.Task, o.Trigger.TaskID = &row.Task, row.ID
	w.tasks = append(w.tasks, row)
	return nil
}

func (w *decision) openTrigger(t *tx, job *jobRow, o *ledger.Opening) (err error) {
	g := &o.Trigger
	if g.Definition, err = t.definitionID(job.Hash); err != nil {
		return err
	}
	g.Config = w.config
	g.Replica = cmp.Or(g.Replica, w.Replica)
	g.Count = max(g.Count, 1)
	g.DecidedAt = w.now
	if o.Task != nil {
		g.StartedAt = o.Task.StartedAt
	}
	w.triggers = append(w.triggers, *g)
	w.expect(o)
	return nil
}

// insertTriggers finds out from the rows affected whether all of them are new.
func (w *decision) insertTriggers(t *tx) error {
	n, err := t.insertTriggers(w.triggers, measured{w.Overdue, w.behind, time.Since(w.began)})
	if err == nil && n < int64(len(w.triggers)) {
		return errDecided
	}
	return err
}

// measured is what a deciding transaction knows of itself, for those who ask why a due time was late.
type measured struct {
	overdue bool          // it looked for what the owners of stripes had left
	behind  time.Duration // the database's clock, behind that of the decider
	took    time.Duration // from the call until the rows are written
}

// insertTriggers adds rows to the ledger but for those whose due time has one, and returns how many
// it added.
func (t *tx) insertTriggers(triggers []jobs.Trigger, by measured) (added int64, err error) {
	overdue := 0
	if by.overdue {
		overdue = 1
	}
	rows := sqlkit.Rows(triggers, func(g jobs.Trigger) []any {
		room := 512
		if g.ReasonCode == reason.Forced {
			room = forcedBytes
		}
		return []any{
			g.Job, micros(g.At), g.Seq, micros(g.Until), g.Count, string(g.Cause), clip.Text(g.By, 255), string(g.Outcome),
			clip.Text(g.Reason, room), string(g.ReasonCode), string(g.Result), g.TaskID, g.Replica, micros(g.DecidedAt), micros(g.StartedAt), micros(g.FinishedAt),
			g.Definition, g.Config, overdue, by.behind.Microseconds(), by.took.Microseconds(), g.Order,
		}
	})
	return t.InsertNew(`{triggers} (job, at, seq, until_at, due_count, cause, by_whom, outcome,
		reason, reason_code, result, task_id, replica, decided_at, started_at, finished_at, definition, config, overdue, clock_offset, took, order_id)`, rows)
}

// missed are the due times that were not decided in time.
func missed(triggers []jobs.Trigger) []ledger.Event {
	var all []ledger.Event
	for _, g := range triggers {
		if g.Outcome == jobs.Missed {
			all = append(all, ledger.Event{Seq: g.Seq, Notification: jobs.Notification{
				Event: jobs.EventMissed, Job: g.Job, ScheduledAt: g.At, Until: g.Until, Count: g.Count,
				Replica: g.Replica, Reason: g.Reason, ReasonCode: g.ReasonCode,
			}})
		}
	}
	return all
}

// committed waits for the jobs' rows and reads one row of the transaction with the lost answer. If that wrote
// cursors only, writing them again changes nothing.
//
// Index: primary keys.
func (w *decision) committed(t *tx) (found bool, err error) {
	if _, err := t.lockJobs(mapped(w.rows, (*jobRow).name)); err != nil {
		return false, err
	}
	if len(w.triggers) > 0 {
		g := w.triggers[0]
		return t.One("SELECT task_id FROM {triggers} WHERE job=? AND at=? AND seq=? AND task_id=? AND decided_at=? AND replica=?{for_update}",
			[]any{g.Job, micros(g.At), g.Seq, g.TaskID, micros(g.DecidedAt), g.Replica}, new(string))
	}
	if len(w.tasks) == 0 {
		return false, nil
	}
	return t.kept(w.tasks[0].ID)
}
