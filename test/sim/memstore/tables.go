package memstore

import (
	"reflect"
)

// tables are all rows.
type tables struct {
	config   int64 // number of the last configuration
	configs  table[string, configuration]
	sessions table[string, Session]
	pools    table[string, Pool]
	jobs     table[string, Job]
	triggers table[TriggerKey, Trigger]
	tasks    table[string, Task]
	done     table[string, Done]
	attempts table[attemptKey, attempt]
	outputs  table[attemptKey, output]
	results  table[string, Result]
	chunks   table[chunkKey, Chunk]
	keys     table[poolKey, idempotency]
	events   table[string, event]
	standing table[subject, standing]
	kinds    table[kindsKey, Kinds]
	waits    table[waitKey, LockWait]
	taskKeys table[poolKey, TaskKey]
	keyWaits table[string, KeyWait]
	unique   table[poolKey, uniqueTask]
	history  table[definitionKey, Definition]
	pause    table[int, Pause]
	expected table[Expectation, Expectation]
	orders   table[string, Order]
}

func newTables() tables {
	return tables{
		configs:  empty(func(r configuration) string { return r.Hash }),
		sessions: empty(func(r Session) string { return r.ID }),
		pools:    empty(func(r Pool) string { return r.Name }),
		jobs:     empty(func(r Job) string { return r.Name }),
		triggers: empty(func(r Trigger) TriggerKey { return TriggerKey{r.Job, r.At, r.Seq} }),
		tasks:    empty(func(r Task) string { return r.ID }),
		done:     empty(func(r Done) string { return r.ID }),
		attempts: empty(func(r attempt) attemptKey { return attemptKey{r.TaskID, r.Attempt} }),
		outputs:  empty(func(r output) attemptKey { return attemptKey{r.TaskID, r.Attempt} }),
		chunks:   empty(func(r Chunk) chunkKey { return chunkKey{r.TaskID, r.Token, r.First} }),
		results:  empty(func(r Result) string { return r.TaskID }),
		keys:     empty(func(r idempotency) poolKey { return poolKey{r.Pool, r.Key} }),
		events:   empty(func(r event) string { return r.ID }),
		standing: empty(func(r standing) subject { return subject{r.Kind, r.Name} }),
		kinds:    empty(func(r Kinds) kindsKey { return kindsKey{r.Pool, r.Config} }),
		taskKeys: empty(func(r TaskKey) poolKey { return poolKey{r.Pool, r.Key} }),
		keyWaits: empty(func(r KeyWait) string { return r.TaskID }),
		unique:   empty(func(r uniqueTask) poolKey { return poolKey{r.Pool, r.Values} }),
		history:  empty(func(r Definition) definitionKey { return definitionKey{r.Job, r.Hash} }),
		pause:    empty(func(r Pause) int { return r.ID }),
		expected: empty(func(r Expectation) Expectation { return r }),
		orders:   empty(func(r Order) string { return r.ID }),
		waits:    empty(func(r LockWait) waitKey { return waitKey{r.Key, r.Rank, r.RunAt, r.TaskID} }),
	}
}

// table is rows by primary key. A row is replaced, never changed.
type table[K comparable, R any] struct {
	rows map[K]R
	key  func(R) K
}

func empty[K comparable, R any](key func(R) K) table[K, R] { return table[K, R]{map[K]R{}, key} }

// put writes a row, new or not.
func put[K comparable, R any](t *tx, tab *table[K, R], row R) {
	k := tab.key(row)
	old, existed := tab.rows[k]
	tab.rows[k] = row
	c := change{after: row, undo: func() { delete(tab.rows, k) }}
	if existed {
		c.before, c.undo = old, func() { tab.rows[k] = old }
	}
	t.changes = append(t.changes, c)
}

// add writes a row unless there is one with its key.
func add[K comparable, R any](t *tx, tab *table[K, R], row R) bool {
	if _, exists := tab.rows[tab.key(row)]; exists {
		return false
	}
	put(t, tab, row)
	return true
}

func remove[K comparable, R any](t *tx, tab *table[K, R], k K) {
	if old, existed := tab.rows[k]; existed {
		delete(tab.rows, k)
		t.changes = append(t.changes, change{before: old, undo: func() { tab.rows[k] = old }})
	}
}

// Tables are the names of the tables that Dump and Restore know, and their rows' columns.
func Tables() map[string][]string {
	d := New()
	all := map[string][]string{}
	for name, tab := range d.byName() {
		all[name] = tab.columns()
	}
	return all
}

// Dump returns the rows of a table, with their columns in the order of Tables, and how many transactions
// have written before.
func (d *Database) Dump(name string) (rows [][]any, commits int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byName()[name].dump(), d.commits
}

// Commits is how many transactions have written.
func (d *Database) Commits() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.commits
}

// Restore makes the rows of a table these; scan reads the next row into pointers to its columns, and
// is false after the last.
func (d *Database) Restore(name string, scan func(dest ...any) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.commits++
	d.byName()[name].restore(scan)
}

func (d *tables) byName() map[string]rowset {
	return map[string]rowset{
		"sessions": &d.sessions, "pools": &d.pools, "jobs": &d.jobs, "triggers": &d.triggers, "tasks": &d.tasks, "done": &d.done,
		"attempts": &d.attempts, "outputs": &d.outputs, "idempotency": &d.keys, "events": &d.events, "standings": &d.standing, "kinds": &d.kinds,
		"lock_waits": &d.waits, "keys": &d.taskKeys, "key_waits": &d.keyWaits, "unique_tasks": &d.unique, "results": &d.results, "chunks": &d.chunks, "definitions": &d.history, "pause": &d.pause, "expectations": &d.expected, "orders": &d.orders,
		"configurations": &d.configs,
	}
}

type rowset interface {
	columns() []string
	dump() [][]any
	restore(scan func(dest ...any) bool)
}

func (tab *table[K, R]) columns() (names []string) {
	for field := range reflect.TypeFor[R]().Fields() {
		names = append(names, field.Tag.Get("col"))
	}
	return names
}

func (tab *table[K, R]) dump() (all [][]any) {
	for _, row := range tab.rows {
		v := reflect.ValueOf(row)
		values := make([]any, v.NumField())
		for i := range values {
			values[i] = v.Field(i).Interface()
			if b, ok := values[i].([]byte); ok && b == nil {
				values[i] = []byte{} // no column of bytes is NULL
			}
		}
		all = append(all, values)
	}
	return all
}

func (tab *table[K, R]) restore(scan func(dest ...any) bool) {
	clear(tab.rows)
	for {
		var row R
		v := reflect.ValueOf(&row).Elem()
		dest := make([]any, v.NumField())
		for i := range dest {
			dest[i] = v.Field(i).Addr().Interface()
		}
		if !scan(dest...) {
			return
		}
		tab.rows[tab.key(row)] = row
	}
}
