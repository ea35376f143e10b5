package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/paging"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// The bounds of a batch.
const (
	bulkShown = 10 // of a dry run
	bulkError = 200
)

// ChangeTasks does one batch of an action: with the tasks that match, the latest id first, b.Limit of them at most, in one transaction. A
// cancellation or purge that others get in the way of, as claims of tasks that are to be cancelled, goes on in several. It
// looks at 2,000 tasks at most, so a batch may match fewer, or none, before the last; Next goes on behind them. What no longer matches when the transaction
// begins is left out. What is done is done once: a batch that is sent again, since its answer was lost, skips the tasks that were retried,
// and does not find those that were cancelled or deleted.
//
// A retry makes a new task of each, as [Store.Retry] does; tasks of jobs are skipped. A purge deletes what [jobs.Retention] deletes of a
// task; one whose lost attempt may still run is skipped.
//
// Errors: [*jobs.FieldError] for what b.Check refuses; jobs.ErrInvalid for a cursor that is none; jobs.ErrUnavailable, after which the
// batch may have been done, or a part of it.
func (s *Store) ChangeTasks(ctx context.Context, action wire.BulkAction, b wire.Bulk) (wire.BulkResult, error) {
	if err := b.Check(action); err != nil {
		return wire.BulkResult{}, err
	}
	w := &bulk{action: action, Bulk: b}
	var err error
	if w.Limit, err = paging.Limit(b.Limit); err != nil {
		return wire.BulkResult{}, err
	}
	if w.after, err = readCursor(b.Cursor, "bulk", 1); err != nil {
		return wire.BulkResult{}, err
	}
	op := string(action) + " tasks"
	if err := s.view(ctx, op, w.pick); err != nil {
		return wire.BulkResult{}, err
	}
	if len(w.picked) == 0 {
		return w.out, nil
	}
	if b.DryRun {
		err = s.view(ctx, op, w.judge)
	} else {
		err = s.changeParts(ctx, op, w)
	}
	if err != nil {
		return wire.BulkResult{}, err
	}
	if action == wire.BulkRetry && !b.DryRun {
		s.listening.tell(sqlkit.Distinct(mapped(w.rows, func(r openTask) string { return r.Pool }))...)
	}
	return w.out, nil
}

// bulk is one batch. pick reads which tasks match; judge and write begin with them, and may run again.
type bulk struct {
	wire.Bulk
	action wire.BulkAction
	after  []string
	picked []string          // ids
	fresh  map[string]string // of a retry: the ids of the new tasks, by those of the old ones
	next   string

	now  time.Time
	rows []openTask // that are to be changed, sorted by id
	out  wire.BulkResult
}

// pick reads the ids of the tasks that match.
//
// Index: as those of lists; primary keys.
func (w *bulk) pick(t *tx) (err error) {
	w.picked, w.next, w.out = nil, "", wire.BulkResult{Tasks: []wire.BulkTask{}}
	if w.IDs != nil {
		rows, err := w.read(t, sqlkit.Distinct(w.IDs))
		w.picked = mapped(those(rows, w.matches), openTask.id)
		return err
	}
	var last string
	w.picked, last, err = walk(w.after, w.Limit, func(after []string, n int) ([]string, error) { return w.ids(t, after, n) }, func(ids []string) (func(id string) bool, error) {
		rows, err := w.read(t, ids)
		return func(id string) bool {
			i, found := slices.BinarySearchFunc(rows, id, func(r openTask, id string) int { return strings.Compare(r.ID, id) })
			return found && w.matches(rows[i]) // else it has moved on, or is not meant
		}, err
	})
	if last != "" {
		w.next = paging.Cursor("bulk", last)
		w.out.Next = w.next
	}
	return err
}

// ids are the next n of the tables that the action is about, the latest first.
func (w *bulk) ids(t *tx, after []string, n int) (ids []string, err error) {
	f := wire.TaskFilter{Pool: w.Pool, Job: w.Job, State: w.State, Fingerprint: w.Fingerprint}
	if w.action == wire.BulkCancel {
		ids, err = t.openIDs(f, after, n)
	} else {
		ids, err = t.endedIDs(f, w.Wanted(w.action), after, n)
	}
	slices.SortFunc(ids, func(a, b string) int { return strings.Compare(b, a) })
	return ids[:min(n, len(ids))], err
}

// read reads rows of the table that the action is about, sorted by id, without their payloads.
//
// Index: primary keys.
func (w *bulk) read(t *tx, ids []string) (rows []openTask, err error) {
	for part := range slices.Chunk(ids, sqlkit.MaxRows) {
		if w.action == wire.BulkCancel {
			open, err := t.openTasks(taskFacts, " WHERE {in name id} ORDER BY id", sqlkit.Keys(part))
			if err != nil {
				return nil, err
			}
			rows = append(rows, open...)
			continue
		}
		err := each(t.rows("SELECT "+doneFacts+", late, may_run_until FROM {done} WHERE {in name id} ORDER BY id", sqlkit.Keys(part)), func(m *doneModel) {
			rows = append(rows, openTask{Task: m.Task.task(), late: m.Late != 0, mayRunUntil: fromMicros(m.MayRunUntil)})
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(rows, lockOrder)
	return rows, nil
}

func (w *bulk) matches(r openTask) bool { return w.Matches(w.action, r.Task) }

// judge reads the tasks again, and sorts out those that are not to be changed.
func (w *bulk) judge(t *tx) error {
	w.out, w.rows = wire.BulkResult{Tasks: []wire.BulkTask{}, Next: w.next}, nil
	rows, err := w.read(t, w.picked)
	if err != nil {
		return err
	}
	if w.now, err = t.Now(); err != nil {
		return err
	}
	runnable := map[[2]string]string{}
	for _, r := range slices.Backward(rows) {
		if !w.matches(r) {
			continue
		}
		why, err := w.skips(t, r, runnable)
		if err != nil {
			return err
		}
		w.out.Matched++
		if why != "" {
			w.out.Skip(r.ID, why)
			continue
		}
		w.rows = append(w.rows, r)
		w.out.Done++
		if task := (wire.BulkTask{ID: r.ID, Kind: r.Kind, State: r.State}); !w.DryRun {
			w.out.Tasks = append(w.out.Tasks, task)
		} else if len(w.out.Tasks) < bulkShown {
			task.Error = clip.Text(r.Error, bulkError)
			w.out.Tasks = append(w.out.Tasks, task)
		}
	}
	slices.Reverse(w.rows)
	return nil
}

// skips is why a task that matches is not changed; "": it is. runnable has the answers for the pools and kinds of the batch.
func (w *bulk) skips(t *tx, r openTask, runnable map[[2]string]string) (string, error) {
	if why := wire.BulkReason(w.action, r.Task); why != "" {
		return why, nil
	}
	switch w.action {
	case wire.BulkCancel:
		if r.cancel != "" {
			return "was asked to stop before", nil
		}
	case wire.BulkPurge:
		if r.State == jobs.StateLost && r.mayRunUntil.After(w.now) {
			return "may still run, although it was lost", nil
		}
	case wire.BulkRetry:
		if w.Force {
			return "", nil
		}
		is := [2]string{r.Pool, r.Kind}
		if _, asked := runnable[is]; !asked {
			why, err := unrunnable(t.refuseRetry(r.Task))
			if err != nil {
				return "", err
			}
			runnable[is] = why
		}
		return runnable[is], nil
	}
	return "", nil
}

func (w *bulk) write(t *tx) error {
	err := w.judge(t)
	before := w.fresh
	w.fresh = map[string]string{}
	for _, r := range w.rows {
		w.fresh[r.ID] = cmp.Or(before[r.ID], newID())
	}
	if err != nil || len(w.rows) == 0 {
		return err
	}
	switch w.action {
	case wire.BulkCancel:
		err = w.cancel(t)
	case wire.BulkPurge:
		err = w.purge(t)
	default:
		return w.retry(t) // in the order of the old ones, which parts would not have
	}
	if errors.Is(err, sqlkit.ErrMoved) && len(w.picked) > 1 {
		err = errSplit
	}
	return err
}

// committed reports whether what write did was committed, by what became of one task. Doing the same again would find nothing left to do, and
// say so.
func (w *bulk) committed(t *tx) (bool, error) {
	if len(w.rows) == 0 {
		return true, nil // nothing was written
	}
	r := w.rows[0]
	var n int
	switch {
	case w.action == wire.BulkRetry:
		return t.kept(w.fresh[r.ID])
	case w.action == wire.BulkPurge:
		left, err := t.One(`SELECT 1 FROM {done} WHERE id=?{for_update}`, []any{r.ID}, &n)
		return !left && err == nil, err
	case r.row == rowRunning:
		return t.One(`SELECT 1 FROM {tasks} WHERE id=? AND token=? AND cancel=?{for_update}`, []any{r.ID, r.Token, cancelledBy(w.By)}, &n)
	}
	return t.One(`SELECT 1 FROM {done} WHERE id=? AND state='cancelled' AND reason=?{for_update}`, []any{r.ID, cancelledBy(w.By)}, &n)
}

// retry makes a new task of each, in the order of the old ones.
func (w *bulk) retry(t *tx) error {
	n, err := t.markRetried(sqlkit.Rows(w.rows, func(r openTask) []any { return []any{w.fresh[r.ID], r.ID, ""} }))
	if err == nil && n != int64(len(w.rows)) {
		err = sqlkit.ErrMoved
	}
	if err != nil {
		return err
	}
	for i := range w.out.Tasks {
		w.out.Tasks[i].As = w.fresh[w.out.Tasks[i].ID]
	}
	return t.retryTasks(w.now, w.By, w.rows, w.fresh)
}

// cancel ends what is pending, and asks the owners of what runs.
func (w *bulk) cancel(t *tx) error {
	why := cancelledBy(w.By)
	moves := mapped(those(w.rows, func(r openTask) bool { return r.row != rowRunning }), func(r openTask) move { return cancelled(r, why) })
	if err := t.endPending(w.now, moves); err != nil {
		return err
	}
	return w.ask(t, those(w.rows, func(r openTask) bool { return r.row == rowRunning }), why)
}

// ask asks the owners of running tasks to stop them. In a busy pool some have always ended since they were read: they are skipped.
//
// Index: primary key.
func (w *bulk) ask(t *tx, rows []openTask, why string) error {
	if len(rows) == 0 {
		return nil
	}
	if _, err := t.Exec("UPDATE {tasks}{by_key} SET cancel=? WHERE state+0=2 AND cancel='' AND {in name id, int token}",
		sqlkit.Rows(rows, func(r openTask) []any { return []any{r.ID, r.Token} }), why); err != nil {
		return err
	}
	asked, err := column[string](t.rows("SELECT id FROM {tasks}{by_key} WHERE state+0=2 AND cancel<>'' AND {in name id, int token} ORDER BY id",
		sqlkit.Rows(rows, func(r openTask) []any { return []any{r.ID, r.Token} })))
	if err != nil {
		return err
	}
	for _, r := range rows {
		if _, is := slices.BinarySearch(asked, r.ID); is {
			continue
		}
		w.out.Done--
		w.out.Tasks = slices.DeleteFunc(w.out.Tasks, func(other wire.BulkTask) bool { return other.ID == r.ID })
		w.out.Skip(r.ID, "has ended meanwhile")
	}
	return nil
}

// purge deletes the tasks with all that belongs to them.
//
// Index: primary keys, idempotency_task and unique_tasks_task.
func (w *bulk) purge(t *tx) error {
	ids := sqlkit.Keys(mapped(w.rows, openTask.id))
	for i, statement := range deleteEnded {
		n, err := t.Exec(t.byList(statement), ids)
		if err == nil && i == 0 && n != int64(len(w.rows)) { // another call, or the retention, has deleted some
			err = sqlkit.ErrMoved
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unrunnable is what a refusal to retry says, if it is one.
func unrunnable(err error) (string, error) {
	switch {
	case err == nil:
		return "", nil
	case errors.Is(err, jobs.ErrNotFound), errors.Is(err, jobs.ErrNoHandler):
		return fmt.Sprintf("%.300s", err), nil
	}
	return "", err
}
