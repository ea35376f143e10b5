package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/paging"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Task returns a task and its earlier attempts, first one first; jobs.ErrNotFound if there is none. The errors of
// many attempts are cut, to 1 KiB each at least.
func (s *Store) Task(ctx context.Context, id string) (jobs.Task, []jobs.Attempt, error) {
	var task jobs.Task
	var attempts []jobs.Attempt
	err := s.view(ctx, "task", func(t *tx) (err error) {
		if task, err = t.taskByID(id); err != nil {
			return err
		}
		attempts, err = t.attempts(id, min(limits.Error, max(1<<10, paging.Bytes/(1+task.Attempt+task.Lost))))
		return err
	})
	if err != nil {
		return jobs.Task{}, nil, err
	}
	return task, attempts, nil
}

// TaskRow is Task for replicas, without the attempts: it waits for no reader. It implements ledger.Tasks.
func (s replica) TaskRow(ctx context.Context, id string) (jobs.Task, error) {
	return get(ctx, s.read, "task", func(t *tx) (jobs.Task, error) { return t.taskByID(id) })
}

func (t *tx) taskByID(id string) (jobs.Task, error) {
	rows, err := t.tasksByID([]string{id})
	task, found := rows[id]
	if err == nil && !found {
		err = fmt.Errorf("task %.64q: %w", id, jobs.ErrNotFound)
	}
	return task, err
}

// Tasks lists tasks, latest id first, and returns the cursor of the next page, "" after the last. A payload
// above limits.ListedPayload is left out and not read, and PayloadSize says how large it is; [Store.Task] has it.
// A page of long errors ends after 1 MiB, before the limit. A page that selects by TaskDetails looks at 2,000 tasks at most.
func (s *Store) Tasks(ctx context.Context, f wire.TaskFilter) (tasks []jobs.Task, next string, err error) {
	limit, err := paging.Limit(f.Limit)
	if err != nil {
		return nil, "", err
	}
	after, err := readCursor(f.Cursor, "task", 1)
	if err != nil {
		return nil, "", err
	}
	err = s.view(ctx, "tasks", func(t *tx) error {
		next = ""
		var ids []string
		if f.Any() {
			var last string
			if ids, last, err = t.detailedIDs(f, after, limit); err != nil {
				return err
			}
			if last != "" {
				next = paging.Cursor("task", last)
			}
		} else {
			if ids, err = t.taskIDs(f, after, limit+1); err != nil {
				return err
			}
			if len(ids) > limit {
				ids = ids[:limit]
				next = paging.Cursor("task", ids[limit-1])
			}
		}
		rows, last, err := t.listed(ids)
		if err != nil {
			return err
		}
		tasks = make([]jobs.Task, 0, len(rows))
		left := paging.Bytes
		for i, id := range ids {
			row, ok := rows[id] // it may have been swept since its id was read
			if left -= sizeOfTask(row); i > 0 && (left < 0 || id < last) {
				next = paging.Cursor("task", ids[i-1])
				break
			}
			if ok && (f.State == "" || f.State == row.State) { // it may have moved on
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
func (t *tx) taskIDs(f wire.TaskFilter, after []string, n int) ([]string, error) {
	var ids []string
	if f.Fingerprint != "" && f.Pool == "" {
		return nil, fmt.Errorf("fingerprint: %w: it is of tasks of one pool; name the pool, too", jobs.ErrInvalid)
	}
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
	if f.Fingerprint == "" && (f.State == "" || !f.State.Ended()) {
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

func (t *tx) openIDs(f wire.TaskFilter, after []string, n int) ([]string, error) {
	q := table[taskModel](t).Scopes(ofTasks(f, after))
	switch f.State {
	case jobs.StateRunning: // index tasks_claim: few tasks run, so that all of them are read
		q = q.Where("state = 2")
	case jobs.StatePending:
		// + 0 keeps the planner from an index that begins with state: it would sort the whole backlog.
		q = q.Where("state + 0 <> 2").Order("id DESC").Limit(n)
	default: // index tasks_job, tasks_pool or the primary key
		q = q.Order("id DESC").Limit(n)
	}
	return idsOf(q)
}

// endedIDs takes the first of each state and merges them, since an index by pool or job has the
// states one after the other.
func (t *tx) endedIDs(f wire.TaskFilter, states []jobs.State, after []string, n int) ([]string, error) {
	first := func(from string) *gorm.DB {
		return table[doneModel](t).Table(from).Select("id").Scopes(ofTasks(f, after)).Order("id DESC").Limit(n)
	}
	index := "{done} {walk}{done}_list{walked}"
	switch {
	case f.Fingerprint != "": // it has all states in one order
		all := first("{done} {walk}{done}_dead{walked}").Where("fingerprint = ? AND fingerprint > ''", f.Fingerprint)
		return idsOf(all.Where("state IN ?", states))
	case f.Job != "":
		index = "{done} {walk}{done}_job{walked}"
	case f.Pool != "":
		index = "{done} {walk}{done}_pool{walked}"
	case len(states) > 1: // primary key
		return idsOf(first("{done}"))
	}
	var parts []string
	var args []any
	for i, state := range states {
		parts = append(parts, fmt.Sprint("SELECT id FROM (?) AS s", i))
		args = append(args, first(index).Where("state = ?", string(state)))
	}
	return column[string](rowsOf(t.gorm().Raw(strings.Join(parts, " UNION ALL "), args...)))
}

func idsOf(q *gorm.DB) ([]string, error) { return column[string](rowsOf(q.Select("id"))) }

// ofTasks are the rows of a filter, but for its state, behind a cursor.
func ofTasks(f wire.TaskFilter, after []string) func(*gorm.DB) *gorm.DB {
	return func(q *gorm.DB) *gorm.DB {
		q = q.Where(&taskFields{Job: f.Job, Pool: f.Pool}) // of these, those that are not empty
		if f.Job != "" {
			q = q.Where("job > ''") // SQLite's index by job has no other rows
		}
		if after != nil {
			q = q.Where("id < ?", after[0])
		}
		return q
	}
}

// tasksByID reads open tasks first: one that ends in between is found among the ended.
func (t *tx) tasksByID(ids []string) (map[string]jobs.Task, error) {
	all := map[string]jobs.Task{}
	for _, from := range []string{"SELECT " + taskColumns + ", progress FROM {tasks}", "SELECT " + doneColumns + " FROM {done}"} {
		for part := range slices.Chunk(ids, sqlkit.MaxRows) {
			err := each(t.rows(from+" WHERE {in name id}", sqlkit.Keys(part)), func(m *taskFields) { all[m.ID] = m.task() })
			if err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// listed is tasksByID for a page, without large payloads. It stops behind the row that fills a page, and then last
// is its id: those below were not read.
func (t *tx) listed(ids []string) (all map[string]jobs.Task, last string, err error) {
	all = map[string]jobs.Task{}
	if len(ids) == 0 {
		return all, "", nil
	}
	for _, from := range []struct {
		rows    *gorm.DB
		columns string
	}{
		{table[taskModel](t), taskFacts + ", progress"},
		{table[doneModel](t), doneFacts},
	} {
		var short []string // those whose payload is not known to be large
		left := paging.Bytes
		page := rowsOf(from.rows.Session(&gorm.Session{}).Select(from.columns+", payload_size").Where("id IN ?", ids).Order("id DESC"))
		err := each(page, func(m *taskFields) {
			task := m.task()
			all[task.ID] = task
			if task.PayloadSize == 0 {
				short = append(short, task.ID)
			}
			if left -= sizeOfTask(task); left < 0 {
				last = max(last, task.ID)
				_ = page.Close() // the rest is not read
			}
		})
		if err == nil {
			err = addPayloads(all, from.rows.Session(&gorm.Session{}), short)
		}
		if err != nil {
			return nil, "", err
		}
	}
	return all, last, nil
}

// addPayloads reads payloads of rows that do not have their size: it is short, or was written before rows had it. It is a statement of its own, since InnoDB
// reads a large payload for each row of a statement that names the column.
//
// Index: primary key.
func addPayloads(all map[string]jobs.Task, rows *gorm.DB, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	q := rows.Select("id, CASE WHEN LENGTH(payload) <= ? THEN payload ELSE '' END AS payload, LENGTH(payload) AS payload_size", limits.ListedPayload)
	return each(rowsOf(q.Where("id IN ?", ids)), func(m *taskFields) {
		task, read := all[m.ID], m.task()
		task.Payload, task.PayloadSize = read.Payload, read.PayloadSize
		all[m.ID] = task
	})
}

// storedSize is the size of a payload that lists leave out, else 0.
func storedSize(payload []byte) int {
	if len(payload) <= limits.ListedPayload {
		return 0
	}
	return len(payload)
}

// sizeOfTask is about how many bytes a task takes.
func sizeOfTask(t jobs.Task) int {
	n := 512 + inJSON(t.Payload) + inJSON(t.Error) + inJSON(t.Reason) + inJSON(t.By) + inJSON(t.ProgressText)
	for _, tag := range t.Tags {
		n += inJSON(tag)
	}
	return n
}

// inJSON is about how many bytes a text takes in JSON, where some letters take six.
func inJSON[T ~string | ~[]byte](text T) int {
	n := len(text)
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\n', c == '\t', c == '\r', c == '"', c == '\\':
			n++
		case c < ' ', c == '<', c == '>', c == '&':
			n += 5
		}
	}
	return n
}

// attempts returns at most that many bytes of each error.
func (t *tx) attempts(id string, bytes int) ([]jobs.Attempt, error) {
	return list(t.rows(`SELECT attempt, state, reason, reason_code, token, replica, started_at, finished_at, exit_code, SUBSTR(error, 1, ?) AS error
		FROM {attempts} WHERE task_id = ? ORDER BY attempt`, bytes, id), (*attemptModel).attempt)
}
