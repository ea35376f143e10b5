package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Enqueue adds tasks to pools, all or none, in one transaction; the answer has their order.
//
// If the idempotency key of a task was used before in its pool, with the same kind and payload, the task is not added: the answer
// has the task that exists. With another kind or payload it is jobs.ErrConflict. Payloads are the same if their compact JSON is,
// byte for byte: the order of fields counts, and how numbers and characters are written.
//
// A task that is unique, see jobs.Unique, is not added either where the uniqueness of another one with its values holds: the answer has that
// one, with the changes of jobs.ConflictReplaces; with jobs.ConflictRejects it is jobs.ErrConflict. Its own idempotency key, which is judged first, then
// stands for the task that exists. In one list, the first task with its values comes first.
//
// A pool that no replica has loaded is jobs.ErrNotFound, see AddPools. A new task that no live replica can run, nor
// the configuration that governs or did last, is a *jobs.KindError, unless it has Force. A bad field is jobs.ErrInvalid, with all
// that NewTask.Encode finds wrong with the first bad task; fields come before pools.
//
// An idle replica of this process that runs on this Store takes the tasks at once, one elsewhere within 4 ms to half a second: it
// polls faster while tasks come, sees them in the log of a SQLite file, or is told by a replica, or by a scheduler.Waker.
func (s *Store) Enqueue(ctx context.Context, tasks ...jobs.NewTask) ([]jobs.Enqueued, error) {
	batch, err := newBatch(tasks)
	if err != nil || len(tasks) == 0 {
		return nil, err
	}
	var all []jobs.Enqueued
	add := func(t *tx) (err error) {
		if err := t.enqueue(batch); err != nil {
			return err
		}
		all, err = t.enqueued(batch)
		return err
	}
	err = s.settle(ctx, "enqueue", add, func(t *tx) (bool, error) {
		return t.batchKept(batch)
	})
	if err != nil {
		return nil, err
	}
	var pools []string
	for i, e := range all {
		if is := batch[i].replaced; (!e.Existed || is != nil && is.row == rowReady) && !slices.Contains(pools, e.Pool) {
			pools = append(pools, e.Pool)
		}
	}
	s.listening.tell(pools...)
	return all, nil
}

// enqueue writes the new tasks of the batch, and fills in what comes from the database. It may be called
// again for the same batch.
func (t *tx) enqueue(batch []*newTask) error {
	for _, p := range batch {
		p.begin()
	}
	governing, now, err := t.fillPools(batch)
	if err != nil {
		return err
	}
	if err := t.takeKeys(batch, now); err != nil {
		return err
	}
	if err := t.refuse(batch, governing, now); err != nil {
		return err
	}
	if err := t.takeUnique(batch, now); err != nil {
		return err
	}
	var rows []*newTask
	for _, p := range batch {
		p.task.CreatedAt = now
		if p.runAt.IsZero() {
			p.task.RunAt = now
		}
		if !p.existed {
			rows = append(rows, p)
		}
	}
	if err := t.takePlaces(now, rows); err != nil {
		return err
	}
	if err := t.insertPending(now, rows); err != nil {
		return err
	}
	return t.keepPlaces(rows)
}

// fillPools gives the tasks their pools' policies, and returns the kinds that govern and the database's time, which the same
// statement reads. It locks nothing: a pool that is retired in the same moment keeps the task until a configuration has it again.
func (t *tx) fillPools(batch []*newTask) (governing map[string]kinds, now time.Time, err error) {
	names := map[string][]*newTask{}
	for _, p := range batch {
		names[p.task.Pool] = append(names[p.task.Pool], p)
	}
	sorted := slices.Sorted(maps.Keys(names))
	governing = map[string]kinds{}
	var at *int64
	var namespace *string
	whose := `NULL`
	if t.callers {
		whose = `(SELECT value FROM {meta} WHERE name = 'namespace')`
	}
	err = each(t.rows(`SELECT name, hash, max_attempts, on_lost, lost_limit, kinds, key_order, {now} AS now_at, `+whose+` AS namespace FROM {pools} WHERE hash <> '' AND {in name name}`, sqlkit.Keys(sorted)), // primary key
		func(m *struct {
			Pool      poolModel `gorm:"embedded"`
			NowAt     *int64
			Namespace *string
		}) {
			at, namespace = m.NowAt, m.Namespace
			governing[m.Pool.Name] = m.Pool.Kinds.is.governs(m.Pool.Hash)
			for _, p := range names[m.Pool.Name] {
				p.task.MaxAttempts, p.task.OnLost = cmp.Or(p.task.OwnAttempts, m.Pool.MaxAttempts), jobs.OnLost(m.Pool.OnLost)
				p.task.LostLimit = m.Pool.LostLimit
				p.ordered = m.Pool.KeyOrder != ""
			}
			delete(names, m.Pool.Name)
		})
	if err != nil {
		return nil, now, err
	}
	if t.callers {
		if namespace == nil { // none of the pools exists
			id, err := t.ownNamespace()
			if err != nil {
				return nil, now, err
			}
			namespace = &id
		}
		if err := t.ours(*namespace); err != nil {
			return nil, now, err
		}
	}
	for _, name := range sorted {
		if _, unknown := names[name]; unknown {
			return nil, now, t.unknownPool(name)
		}
	}
	if at != nil {
		return governing, fromMicros(*at), nil
	}
	now, err = t.Now()
	return governing, now, err
}

// unknownPool names the pools that exist: the name is wrong, no replica has loaded the pool yet, or the configuration that governs does not
// have it. A live replica with an older one may have it all the same.
func (t *tx) unknownPool(name string) error {
	known, err := column[string](t.rows(`SELECT name FROM {pools} WHERE hash <> '' ORDER BY name LIMIT 10`))
	switch {
	case err != nil:
		return err
	case len(known) == 0:
		return fmt.Errorf("pool %q: %w: no replica has loaded any pools yet; start one first, or declare the pool with Store.AddPools", name, jobs.ErrNotFound)
	}
	why, governor := "no replica has loaded a configuration with it", ""
	retired, err := t.One(`SELECT name FROM {pools} WHERE name = ?`, []any{name}, new(string)) // primary key
	if retired && err == nil {
		why = "the configuration that was loaded last does not have it"
		retired, err = t.One(`SELECT replica FROM {sessions} WHERE dead = 0 AND pool = '' ORDER BY config DESC LIMIT 1`, nil, &governor)
	}
	if err != nil {
		return err
	}
	if retired && governor != "" {
		why = fmt.Sprintf("the configuration that governs, that of replica %q, does not have it, whatever other replicas have loaded", governor)
	}
	return fmt.Errorf("pool %q: %w: %s; known are %s", name, jobs.ErrNotFound, why, strings.Join(known, ", "))
}

// takeKeys adds the idempotency keys, in order, and marks the tasks with a key that belongs to another task.
// Adding a key waits for other transactions that are adding it. The locking read then sees what they committed,
// whatever the isolation level is. It shares the row with the others that waited.
func (t *tx) takeKeys(batch []*newTask, now time.Time) error {
	keyed := slices.DeleteFunc(slices.Clone(batch), func(p *newTask) bool { return p.key == "" || p.first != nil })
	slices.SortFunc(keyed, func(a, b *newTask) int {
		return cmp.Or(cmp.Compare(a.task.Pool, b.task.Pool), cmp.Compare(a.key, b.key))
	})
	var rows [][]any
	byKey := map[[2]string]*newTask{}
	for _, p := range keyed {
		rows = append(rows, []any{p.task.Pool, p.key, p.own, p.body, micros(now)})
		byKey[[2]string{p.task.Pool, p.key}] = p
	}
	if _, err := t.InsertNew(`{idempotency} (pool, idem_key, task_id, body, created_at)`, rows); err != nil {
		return err
	}
	for part := range slices.Chunk(keyed, sqlkit.MaxRows) {
		var conflict error
		// Without the index, a user's transaction would lock a small table as a whole.
		err := each(t.rows(`SELECT pool, idem_key, task_id, body FROM {idempotency}{by_key} WHERE {in name pool, name idem_key}{share}`,
			sqlkit.Rows(part, func(p *newTask) []any { return []any{p.task.Pool, p.key} })),
			func(m *struct{ Pool, IdemKey, TaskID, Body string }) {
				p := byKey[[2]string{m.Pool, m.IdemKey}]
				if m.Body != p.body {
					conflict = cmp.Or(conflict, fmt.Errorf("idempotency key %q of pool %q was used before with another kind or payload, by task %s: %w", m.IdemKey, m.Pool, m.TaskID, jobs.ErrConflict))
				}
				p.task.ID, p.existed = m.TaskID, m.TaskID != p.own
			})
		if err := cmp.Or(err, conflict); err != nil {
			return err
		}
	}
	for _, p := range batch {
		if p.first != nil {
			p.task.ID, p.existed = p.first.task.ID, true
		}
	}
	return nil
}

// refuse refuses what cannot be enqueued, and leaves no idempotency key of it: a caller's transaction may go on without the tasks.
func (t *tx) refuse(batch []*newTask, governing map[string]kinds, now time.Time) error {
	err := refuseExpired(batch, now)
	if err == nil {
		err = t.refuseUnrunnable(batch, governing)
	}
	if errors.Is(err, jobs.ErrInvalid) {
		err = cmp.Or(t.dropKeys(batch), err)
	}
	return err
}

// dropKeys deletes the keys that takeKeys added: a caller's transaction may go on without the tasks.
func (t *tx) dropKeys(batch []*newTask) error {
	for _, p := range batch {
		if p.key == "" || p.existed {
			continue
		}
		if _, err := t.Exec(`DELETE FROM {idempotency} WHERE pool = ? AND idem_key = ?`, p.task.Pool, p.key); err != nil { // primary key
			return err
		}
	}
	return nil
}

// enqueued is the answer: new tasks as they were written, others as they are now.
func (t *tx) enqueued(batch []*newTask) ([]jobs.Enqueued, error) {
	var old []string
	for _, p := range batch {
		if p.existed {
			old = append(old, p.task.ID)
		}
	}
	rows, err := t.tasksByID(old)
	if err != nil {
		return nil, err
	}
	all := make([]jobs.Enqueued, len(batch))
	for i, p := range batch {
		task := p.task
		if row, ok := rows[task.ID]; ok {
			task = row
		}
		task.IdempotencyKey = task.IdempotencyKeyIn("")
		all[i] = jobs.Enqueued{Task: task, Existed: p.existed}
	}
	return all, nil
}
