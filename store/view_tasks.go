package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

// Task returns a task and its earlier attempts, first one first; jobs.ErrNotFound if there is none.
func (s *Store) Task(ctx context.Context, id string) (jobs.Task, []jobs.Attempt, error) {
	var task jobs.Task
	var attempts []jobs.Attempt
	err := s.read(ctx, "task", func(t *tx) error {
		rows, err := t.tasksByID([]string{id})
		if err != nil {
			return err
		}
		var found bool
		if task, found = rows[id]; !found {
			return fmt.Errorf("task %.64q: %w", id, jobs.ErrNotFound)
		}
		attempts, err = t.attempts(id)
		return err
	})
	if err != nil {
		return jobs.Task{}, nil, err
	}
	return task, attempts, nil
}

// Tasks lists tasks, latest id first, and returns the cursor of the next page, "" after the last.
func (s *Store) Tasks(ctx context.Context, f ledger.TaskFilter) (tasks []jobs.Task, next string, err error) {
	limit, err := pageLimit(f.Limit)
	if err != nil {
		return nil, "", err
	}
	after, err := readCursor(f.Cursor, "task", 1)
	if err != nil {
		return nil, "", err
	}
	err = s.read(ctx, "tasks", func(t *tx) error {
		ids, err := t.taskIDs(f, after, limit+1)
		if err != nil {
			return err
		}
		if len(ids) > limit {
			ids = ids[:limit]
			next = cursor("task", ids[limit-1])
		}
		rows, err := t.tasksByID(ids)
		if err != nil {
			return err
		}
		tasks = make([]jobs.Task, 0, len(ids))
		for _, id := range ids {
			// A task may have moved on since its id was read, or be swept.
			if row, ok := rows[id]; ok && (f.State == "" || f.State == row.State) {
				tasks = append(tasks, row)
			}
		}
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return tasks, next, nil
}

// taskIDs returns at least the first n ids of the filter, if there are so many. Open tasks are read first: one that ends in
// between is found a second time, and never missed.
func (t *tx) taskIDs(f ledger.TaskFilter, after []string, n int) ([]string, error) {
	var ids []string
	ended := []jobs.State{jobs.StateSucceeded, jobs.StateFailed, jobs.StateLost, jobs.StateCancelled}
	switch {
	case f.State == "":
	case f.State.Ended():
		if !slices.Contains(ended, f.State) {
			return nil, fmt.Errorf("state: %w: no state %q", jobs.ErrInvalid, f.State)
		}
		ended = []jobs.State{f.State}
	default:
		ended = nil
	}
	if f.State == "" || !f.State.Ended() {
		var err error
		if ids, err = t.openIDs(f, after, n); err != nil {
			return nil, err
		}
	}
	if len(ended) > 0 {
		more, err := t.endedIDs(f, ended, after, n)
		if err != nil {
			return nil, err
		}
		ids = append(ids, more...)
	}
	slices.SortFunc(ids, func(a, b string) int { return strings.Compare(b, a) })
	return slices.Compact(ids), nil
}

func (t *tx) openIDs(f ledger.TaskFilter, after []string, n int) ([]string, error) {
	w := taskWhere(f, after)
	end := ` ORDER BY id DESC LIMIT ?`
	switch f.State {
	case jobs.StateRunning: // index tasks_claim: few tasks run, so that all of them are read
		w.and(`state = 2`)
		return t.ids(`SELECT id FROM {tasks}`+w.text(), w.args)
	case jobs.StatePending:
		// + 0 keeps the planner from an index that begins with state: it would sort the whole backlog.
		w.and(`state + 0 < 2`)
	}
	// index tasks_job, tasks_pool or the primary key
	return t.ids(`SELECT id FROM {tasks}`+w.text()+end, append(w.args, n))
}

// endedIDs takes the first of each state and merges them, since an index by pool or job has the
// states one after the other.
func (t *tx) endedIDs(f ledger.TaskFilter, states []jobs.State, after []string, n int) ([]string, error) {
	w := taskWhere(f, after)
	if f.Pool == "" && f.Job == "" && len(states) > 1 { // primary key
		return t.ids(`SELECT id FROM {done}`+w.text()+` ORDER BY id DESC LIMIT ?`, append(w.args, n))
	}
	index := `{done}_list`
	switch {
	case f.Job != "":
		index = `{done}_job`
	case f.Pool != "":
		index = `{done}_pool`
	}
	var parts []string
	var args []any
	for i, state := range states {
		w := taskWhere(f, after)
		w.and(`state = ?`, string(state))
		parts = append(parts, fmt.Sprintf(`SELECT id FROM (SELECT id FROM {done}{walk}%s{walked}%s ORDER BY id DESC LIMIT ?) AS s%d`, index, w.text(), i))
		args = append(append(args, w.args...), n)
	}
	return t.ids(strings.Join(parts, ` UNION ALL `), args)
}

func (t *tx) ids(text string, args []any) ([]string, error) {
	var ids []string
	err := t.query(text, args, func(scan func(...any) error) error {
		var id string
		err := scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}

func taskWhere(f ledger.TaskFilter, after []string) *where {
	w := &where{}
	if f.Job != "" {
		w.and(`job = ?`, f.Job)
	}
	if f.Pool != "" {
		w.and(`pool = ?`, f.Pool)
	}
	if after != nil {
		w.and(`id < ?`, after[0])
	}
	return w
}

// tasksByID reads open tasks first: one that ends in between is found among the ended.
func (t *tx) tasksByID(ids []string) (map[string]jobs.Task, error) {
	rows := map[string]jobs.Task{}
	for _, from := range []string{`SELECT ` + taskColumns + ` FROM {tasks}`, `SELECT ` + doneColumns + ` FROM {done}`} {
		for part := range slices.Chunk(ids, rowsPerStatement) {
			err := t.query(from+` WHERE id IN (`+marks(len(part))+`)`, texts(part), func(scan func(...any) error) error {
				task, err := scanTask(scan)
				rows[task.ID] = task
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return rows, nil
}

func (t *tx) attempts(id string) ([]jobs.Attempt, error) {
	var all []jobs.Attempt
	err := t.query(`SELECT attempt, state, reason, token, replica, started_at, finished_at, exit_code, error
		FROM {attempts} WHERE task_id = ? ORDER BY attempt`, []any{id}, func(scan func(...any) error) error {
		var a jobs.Attempt
		var state string
		var started, finished int64
		var failure []byte
		err := scan(&a.Attempt, &state, &a.Reason, &a.Token, &a.Replica, &started, &finished, &a.ExitCode, &failure)
		a.State, a.Error = jobs.State(state), string(failure)
		a.StartedAt, a.FinishedAt = fromMicros(started), fromMicros(finished)
		all = append(all, a)
		return err
	})
	return all, err
}
