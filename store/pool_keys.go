package store

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// looksAtOnce is how many keys a claim looks at, besides those of the candidates that it finds anyway.
const looksAtOnce = 64

// keyLook is how many ready tasks a claim reads at least in a pool with limits by key or kind: tasks whose key is full may be in front of
// one that has room, and a worker asks for one task at a time.
const keyLook = 16

// lookAgain is when a key is looked at that was full. The end of one of its tasks has it looked at at once; but a transaction that was
// recording one when the first task began to wait may not have seen that. So the first looks come soon.
var lookAgain = []time.Duration{20 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second, lookMost / 2}

// lookElsewhere is when a key is looked at again whose tasks this replica cannot run: other keys have their turn meanwhile.
const lookElsewhere = 200 * time.Millisecond

// lookMost is how far ahead look_at is at most, and some: of a key with a later one the clock was set back since.
const lookMost = time.Minute

// poolKeys is what a claim knows of the keys of a pool that has limits or an order by them. A kind with limits is a key too, see ofKind: its
// tasks have to get past both, and wait for one of them at a time. The pool's row is locked: no other claim changes
// it. Others set look_at to the time of an end, where tasks wait for the key, and keep the row locked until their transaction has ended the
// key's tasks. A claim locks these rows, too, before it counts running tasks. So the end of a task is either counted, or comes after this claim
// and has the key looked at again.
//
// nil is for a pool without.
type poolKeys struct {
	is      perKey
	ordered bool
	fair    *fairness
	now     time.Time // the database's, under the lock of the pool's row
	rows    map[string]*keyRow
	looked  []string // keys whose time has come, sorted
	beyond  bool     // there may be more of them
	new     []string // with an order: tasks that start and have no place yet, as they were enqueued before the pool had one
}

// keyRow is a row of {keys}, or what a key without one would have, and what of the key this transaction may use.
type keyRow struct {
	known   bool // its row was read; of the others only how many of their tasks run
	limits  ledger.Limits
	bucket  ledger.Bucket
	lookAt  int64
	looks   int
	pass    int64
	changed bool
	running int
	first   string // with an order: the one task that may; "": none waits or runs yet
	held    bool   // by that one, which has started, or waits for its time or its locks
	read    bool   // some of the tasks that wait for it were read
	rest    bool   // and more may wait
	behind  bool   // a task of this claim waits for it from now on
}

// keys are what a claim goes by that has read the row.
func (m *poolModel) keys() *poolKeys {
	is := m.perKey()
	if !is.some() {
		return nil
	}
	k := &poolKeys{is: is, ordered: is.order == string(jobs.OrderKey), rows: map[string]*keyRow{}}
	if k.ordered { // also of those that were claimed before the pool had an order
		k.is.MaxRunning = 1
	}
	if is.fair {
		k.fair = &fairness{weights: m.KeyFair.is, pass: m.KeyPass}
	}
	return k
}

// read reads the keys of candidates, and those that are to be looked at now.
func (k *poolKeys) read(t *tx, pool string, now time.Time, candidates []openTask) error {
	wanted := []string{""} // a list has one element at least
	for i := range candidates {
		wanted = append(wanted, candidates[i].Key)
	}
	for kind := range k.is.kinds {
		wanted = append(wanted, ofKind+kind)
	}
	wanted = sqlkit.Distinct(wanted)
	var locked []string
	err := each(k.facts(t, pool, now, wanted), func(f *keyFact) {
		switch f.What {
		case "now":
			k.now = fromMicros(f.N)
		case "running":
			k.row(f.TaskKey).running = int(f.N)
		case "kind":
			k.row(ofKind + f.TaskKey).running = int(f.N)
		case "look":
			k.looked = append(k.looked, f.TaskKey)
			locked = append(locked, f.TaskKey)
		default:
			r := k.row(f.TaskKey)
			if r.bucket, r.lookAt, r.pass = f.BucketFullAt, f.N, f.Pass; r.lookAt > 0 {
				locked = append(locked, f.TaskKey)
			}
		}
	})
	if err == nil && k.now.IsZero() {
		k.now, err = t.Now()
	}
	if err == nil && len(locked) > 0 {
		err = k.lock(t, pool, sqlkit.Distinct(locked))
	}
	if err != nil {
		return err
	}
	k.beyond = len(k.looked) >= looksAtOnce
	slices.Sort(k.looked)
	k.looked = slices.Compact(k.looked)
	for _, key := range wanted {
		k.row(key).known = true
	}
	for _, r := range k.rows {
		if r.known {
			k.correct(r)
		}
	}
	if k.ordered {
		return k.readFirst(t, pool)
	}
	return nil
}

// readToo reads the keys of tasks that wait for their kinds, which are not known until they are read. An end that has locked some of these
// keys, and comes to others of this claim, makes one of the two begin again.
func (k *poolKeys) readToo(t *tx, pool string, tasks []openTask) error {
	var keys []string
	for i := range tasks {
		if !k.row(tasks[i].Key).known {
			keys = append(keys, tasks[i].Key)
		}
	}
	if keys = sqlkit.Distinct(keys); len(keys) == 0 {
		return nil
	}
	if err := k.lock(t, pool, keys); err != nil {
		return err
	}
	for _, key := range keys {
		k.correct(k.row(key))
	}
	return nil
}

// correct makes the bucket of a key one that is possible.
func (k *poolKeys) correct(r *keyRow) {
	if r.limits.Rate != (jobs.Rate{}) {
		possible := r.limits.Possible(r.bucket, k.now)
		r.bucket, r.changed = possible, possible != r.bucket
	}
}

// keyFact is one of several things about the keys of a pool that one statement reads.
type keyFact struct {
	What         string
	TaskKey      string
	N            int64
	BucketFullAt ledger.Bucket
	Pass         int64
}

// facts reads what a claim has to know of keys: the time, those to look at, those of its candidates, and how many tasks run of each. Keys
// that share the pool are looked at in their turn. A look that is further ahead than any is written by a clock that was set back since.
//
// Index: keys_pool; primary key of keys; tasks_claim.
func (k *poolKeys) facts(t *tx, pool string, now time.Time, wanted []string) found {
	order := "look_at"
	if k.fair != nil {
		order = "pass"
	}
	kinds, of := "", []any(nil)
	if k.countsKinds() {
		kinds, of = `
		UNION ALL SELECT 'kind', kind, COUNT(*), 0, 0 FROM {tasks}{index}{tasks}_claim{end} WHERE state=2 AND pool=? AND kind<>'' AND job='' GROUP BY kind`, []any{pool}
	}
	return t.rows(`SELECT 'now' AS what, '' AS task_key, COALESCE({now}, 0) AS n, 0 AS bucket_full_at, 0 AS pass
		UNION ALL SELECT 'look', task_key, 0, 0, 0 FROM (SELECT task_key FROM {keys}{index}{keys}_pool{end}
			WHERE pool=? AND look_at>0 AND look_at<=COALESCE({now}, ?) ORDER BY `+order+` LIMIT ?) AS due
		UNION ALL SELECT 'look', task_key, 0, 0, 0 FROM (SELECT task_key FROM {keys}{index}{keys}_pool{end}
			WHERE pool=? AND look_at>COALESCE({now}, ?)+? ORDER BY look_at LIMIT ?) AS far
		UNION ALL SELECT 'key', task_key, look_at, bucket_full_at, pass FROM {keys}{by_key} WHERE pool=? AND {in name task_key}
		UNION ALL SELECT 'running', task_key, COUNT(*), 0, 0 FROM {tasks}{index}{tasks}_claim{end} WHERE state=2 AND pool=? AND task_key<>'' AND ?>0 GROUP BY task_key`+kinds,
		append([]any{sqlkit.Keys(wanted), pool, micros(now), looksAtOnce, pool, micros(now), lookMost.Microseconds(), looksAtOnce, pool, pool, k.is.MaxRunning}, of...)...)
}

// lock locks rows of keys, and counts their tasks again.
//
// Index: primary key of keys; tasks_claim.
func (k *poolKeys) lock(t *tx, pool string, keys []string) error {
	for _, key := range keys {
		k.row(key).known = true
	}
	err := each(t.rows("SELECT task_key, look_at, looks, bucket_full_at, pass FROM {keys}{by_key} WHERE pool=? AND {in name task_key} ORDER BY task_key{for_update}", sqlkit.Keys(keys), pool),
		func(m *keyModel) {
			r := k.row(m.TaskKey)
			r.bucket, r.lookAt, r.looks, r.pass = m.BucketFullAt, m.LookAt, m.Looks, m.Pass
		})
	if err != nil || k.is.MaxRunning == 0 && !k.countsKinds() || !t.DB.Dialect.LocksRows() {
		return err
	}
	for _, r := range k.rows {
		r.running = 0
	}
	kinds, of := "", []any{pool}
	if k.countsKinds() {
		kinds, of = " UNION ALL SELECT 'kind', kind, COUNT(*) FROM {tasks}{index}{tasks}_claim{end} WHERE state=2 AND pool=? AND kind<>'' AND job='' GROUP BY kind", []any{pool, pool}
	}
	return each(t.rows("SELECT 'running' AS what, task_key, COUNT(*) AS n FROM {tasks}{index}{tasks}_claim{end} WHERE state=2 AND pool=? AND task_key<>'' GROUP BY task_key"+kinds, of...),
		func(f *keyFact) {
			if f.What == "kind" {
				f.TaskKey = ofKind + f.TaskKey
			}
			k.row(f.TaskKey).running = int(f.N)
		})
}

// countsKinds reports whether the running tasks of kinds are counted: their rows are read for that.
func (k *poolKeys) countsKinds() bool {
	for _, l := range k.is.kinds {
		if l.MaxRunning > 0 {
			return true
		}
	}
	return false
}

// room is how many tasks of a key may still become running.
func (k *poolKeys) room(r *keyRow) int {
	return max(0, min(r.places(), r.limits.Starts(r.bucket, k.now)))
}

// places is how many tasks its max_running lets become running; at most 0: none.
func (r *keyRow) places() int {
	if r.limits.MaxRunning == 0 {
		return math.MaxInt
	}
	return r.limits.MaxRunning - r.running
}

// kindOf is the key of a task's kind, if that has limits.
func (k *poolKeys) kindOf(r *openTask) (key string, limited bool) {
	if k == nil || r.Job != "" || k.is.kinds == nil {
		return "", false
	}
	_, limited = k.is.kinds[r.Kind]
	return ofKind + r.Kind, limited
}

// ignores reports whether a task starts whatever the others of its key do: it has none, or is a job's. Tasks without a key share a pool as
// those of one key do.
func (k *poolKeys) ignores(r *openTask) bool {
	return k == nil || r.Job != "" || r.Key == "" && k.fair == nil
}

func (k *poolKeys) row(key string) *keyRow {
	r := k.rows[key]
	if r == nil {
		r = &keyRow{limits: k.is.of(key)}
		k.rows[key] = r
	}
	return r
}

// lets reports whether a task may start as far as its kind and its key say.
func (k *poolKeys) lets(r *openTask) bool {
	return k.letsKind(r) && k.letsKey(r)
}

func (k *poolKeys) letsKind(r *openTask) bool {
	kind, limited := k.kindOf(r)
	if !limited {
		return true
	}
	row := k.rows[kind]
	return row != nil && k.room(row) > 0
}

func (k *poolKeys) letsKey(r *openTask) bool {
	if k.ignores(r) {
		return true
	}
	row := k.rows[r.Key]
	return row != nil && k.room(row) > 0 && (!k.ordered || r.Key == "" || row.first == "" || row.first == r.ID)
}

// start takes a start from the kind and the key of a task.
func (k *poolKeys) start(r *openTask) {
	if kind, limited := k.kindOf(r); limited {
		row := k.rows[kind]
		if row.running++; row.limits.Rate != (jobs.Rate{}) {
			row.bucket, row.changed = row.limits.Started(row.bucket, k.now, 1), true
		}
	}
	if k.ignores(r) {
		return
	}
	row := k.rows[r.Key]
	k.fair.start(r.Key, row)
	if row.running++; k.ordered && r.Key != "" {
		if row.first == "" {
			k.new = append(k.new, r.ID)
		}
		row.first, row.held = r.ID, true
	}
	if row.limits.Rate != (jobs.Rate{}) {
		row.bucket, row.changed = row.limits.Started(row.bucket, k.now, 1), true
	}
}

// wait has a task wait for its kind, if that does not let it start, else for its key. It reports whether it does so already.
func (k *poolKeys) wait(r *openTask) (already bool) {
	on := r.Key
	if !k.letsKind(r) {
		on, _ = k.kindOf(r)
	}
	if r.row == rowKeyed && r.on == on {
		return true
	}
	r.on = on
	row := k.rows[on]
	row.behind = true
	if row.first == "" {
		row.first = r.ID
	}
	return false
}

// write writes the rows of keys that changed, and when those for which tasks wait are looked at again.
//
// Index: primary keys of keys and key_waits.
func (k *poolKeys) write(t *tx, pool string) error {
	if k == nil {
		return nil
	}
	var rows [][]any
	for _, key := range slices.Sorted(maps.Keys(k.rows)) {
		r := k.rows[key]
		_, looked := slices.BinarySearch(k.looked, key)
		if !r.known {
			continue
		}
		if at := k.lookAtKey(key, r, looked); r.changed || at != r.lookAt {
			rows = append(rows, []any{pool, key, int64(r.bucket), at, r.looks, r.pass})
		}
	}
	return t.Upsert("{keys} (pool, task_key, bucket_full_at, look_at, looks, pass)", "pool, task_key", rows)
}

// lookAtKey is when a key is to be looked at: where its rate alone is the limit, when that lets one more task start.
func (k *poolKeys) lookAtKey(key string, r *keyRow, looked bool) int64 {
	opens, free := r.limits.OpensIn(r.bucket, k.now), r.places() > 0 && !r.held
	switch {
	case !looked && (!r.behind || r.lookAt > 0):
		return r.lookAt
	case free && opens > 0:
		r.looks = 0
		return micros(k.now.Add(min(opens, lookMost/2))) + 1 // not before that: times are cut to microseconds
	case looked && free && !r.read && (k.fair != nil || strings.HasPrefix(key, ofKind)): // it has tasks for other replicas alone, or for none, and would stay in front
		r.looks = 0
		return micros(k.now.Add(lookElsewhere))
	case looked && free, free && k.fair != nil:
		r.looks = 0
		return micros(k.now) // there was no room for more, in the pool or in this replica, or the rest is for other replicas
	case looked:
		r.looks = min(r.looks+1, 100)
	default:
		r.looks = 0
	}
	return micros(k.now.Add(lookAgain[min(r.looks, len(lookAgain)-1)]))
}

// forgetLooked ends the looks at keys for which no task waits any more.
//
// Index: primary keys of keys and key_waits.
func (k *poolKeys) forgetLooked(t *tx, pool string) error {
	if k == nil || len(k.looked) == 0 {
		return nil
	}
	_, err := t.Exec(`UPDATE {keys} SET look_at=0 WHERE pool=? AND {in name task_key}
		AND NOT EXISTS (SELECT 1 FROM {key_waits} w WHERE w.pool={keys}.pool AND w.task_key={keys}.task_key)`, sqlkit.Keys(k.looked), pool)
	return err
}
