package store

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

const (
	// looksAtOnce is how many keys a claim looks at, besides those of the candidates that it finds anyway.
	looksAtOnce = 64
)

// lookAgain is when a key is looked at that was full. The end of one of its tasks has it looked at at once; but a transaction that was
// recording one when the first task began to wait may not have seen that. So the first looks come soon.
var lookAgain = []time.Duration{20 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second, lookMost / 2}

// lookElsewhere is when a key is looked at again whose tasks this replica cannot run: other keys have their turn meanwhile.
const lookElsewhere = 200 * time.Millisecond

// lookMost is how far ahead look_at is at most, and some: of a key with a later one the clock was set back since.
const lookMost = time.Minute

// poolKeys is what a claim knows of the keys of a pool that has limits or an order by them. The pool's row is locked: no other claim changes
// it. Others set look_at to the time of an end, where tasks wait for the key, and keep the row locked until their transaction has ended the key's
// tasks. A claim locks these rows, too, before it counts running tasks. So the end of a task is either counted, or comes after this claim
// and has the key looked at again.
//
// nil is for a pool without.
type poolKeys struct {
	limits  ledger.Limits
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
	bucket  ledger.Bucket
	lookAt  int64
	looks   int
	pass    int64
	changed bool
	places  int    // tasks that its max_running lets become running
	first   string // with an order: the one task that may; "": none waits or runs yet
	rest    bool   // more tasks may wait for it than were read
	read    bool   // some of those that wait for it were
	held    bool   // by that one, which has started, or waits for its time or its locks
	behind  bool   // a task of this claim waits for it from now on
}

// keysOf are the keys of a pool's row.
func (m *poolModel) keys() *poolKeys {
	is := m.perKey()
	if !is.some() {
		return nil
	}
	k := &poolKeys{limits: is.Limits, ordered: is.order == string(jobs.OrderKey), rows: map[string]*keyRow{}}
	if k.ordered { // also of those that were claimed before the pool had an order
		k.limits.MaxRunning = 1
	}
	if is.fair {
		k.fair = &fairness{weights: m.KeyFair.is, pass: m.KeyPass}
	}
	return k
}

// read reads the keys of candidates, and those that are to be looked at now.
func (k *poolKeys) read(t *tx, pool string, now time.Time, candidates []openTask) error {
	wanted := []string{""} // a list has one element at least
	for _, r := range candidates {
		wanted = append(wanted, r.Key)
	}
	wanted = sqlkit.Distinct(wanted)
	var locked []string
	err := each(k.facts(t, pool, now, wanted), func(f *keyFact) {
		switch f.What {
		case "now":
			k.now = fromMicros(f.N)
		case "running":
			k.row(f.TaskKey).places = -int(f.N)
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
		k.row(key)
	}
	for key, r := range k.rows {
		if r.places += k.limits.MaxRunning; k.limits.MaxRunning == 0 || key == "" {
			r.places = math.MaxInt
		}
		if k.limits.Rate != (jobs.Rate{}) && key != "" {
			possible := k.limits.Possible(r.bucket, k.now)
			r.bucket, r.changed = possible, possible != r.bucket
		}
	}
	if k.ordered {
		return k.readFirst(t, pool)
	}
	return nil
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
	return t.rows(`SELECT 'now' AS what, '' AS task_key, COALESCE({now}, 0) AS n, 0 AS bucket_full_at, 0 AS pass
		UNION ALL SELECT 'look', task_key, 0, 0, 0 FROM (SELECT task_key FROM {keys}{index}{keys}_pool{end}
			WHERE pool=? AND look_at>0 AND look_at<=COALESCE({now}, ?) ORDER BY `+order+` LIMIT ?) AS due
		UNION ALL SELECT 'look', task_key, 0, 0, 0 FROM (SELECT task_key FROM {keys}{index}{keys}_pool{end}
			WHERE pool=? AND look_at>COALESCE({now}, ?)+? ORDER BY look_at LIMIT ?) AS far
		UNION ALL SELECT 'key', task_key, look_at, bucket_full_at, pass FROM {keys}{by_key} WHERE pool=? AND {in name task_key}
		UNION ALL SELECT 'running', task_key, COUNT(*), 0, 0 FROM {tasks}{index}{tasks}_claim{end} WHERE state=2 AND pool=? AND task_key<>'' AND ?>0 GROUP BY task_key`,
		sqlkit.Keys(wanted), pool, micros(now), looksAtOnce, pool, micros(now), lookMost.Microseconds(), looksAtOnce, pool, pool, k.limits.MaxRunning)
}

// lock locks rows of keys, and counts their tasks again.
//
// Index: primary key of keys; tasks_claim.
func (k *poolKeys) lock(t *tx, pool string, keys []string) error {
	err := each(t.rows("SELECT task_key, look_at, looks, bucket_full_at, pass FROM {keys}{by_key} WHERE pool=? AND {in name task_key} ORDER BY task_key{for_update}", sqlkit.Keys(keys), pool),
		func(m *keyModel) {
			r := k.row(m.TaskKey)
			r.bucket, r.lookAt, r.looks, r.pass = m.BucketFullAt, m.LookAt, m.Looks, m.Pass
		})
	if err != nil || k.limits.MaxRunning == 0 || !t.DB.Dialect.LocksRows() {
		return err
	}
	for _, r := range k.rows {
		r.places = 0
	}
	return each(t.rows("SELECT task_key, COUNT(*) AS n FROM {tasks}{index}{tasks}_claim{end} WHERE state=2 AND pool=? AND task_key<>'' GROUP BY task_key", pool),
		func(f *keyFact) { k.row(f.TaskKey).places = -int(f.N) })
}

// room is how many tasks of a key may still become running.
func (k *poolKeys) room(r *keyRow) int {
	if r == k.rows[""] { // no limits are about tasks without a key
		return math.MaxInt
	}
	return max(0, min(r.places, k.limits.Starts(r.bucket, k.now)))
}

// ignores reports whether a task starts whatever the others of its key do: it has none, or is a job's. Tasks without a key share a pool as
// those of one key do.
func (k *poolKeys) ignores(r *openTask) bool {
	return k == nil || r.Job != "" || r.Key == "" && k.fair == nil
}

func (k *poolKeys) row(key string) *keyRow {
	r := k.rows[key]
	if r == nil {
		r = &keyRow{}
		k.rows[key] = r
	}
	return r
}

// readFirst reads which task of each key is the first that has not ended. One that ended while its pool got the order may have a place still.
//
// Index: primary keys of sequences and key_waits.
func (k *poolKeys) readFirst(t *tx, pool string) error {
	keys := slices.Sorted(maps.Keys(k.rows))
	if len(keys) == 0 {
		return nil
	}
	return each(t.rows(`SELECT task_key, (SELECT w.task_id FROM {key_waits} w WHERE w.pool=s.pool AND w.task_key=s.task_key
			AND EXISTS (SELECT 1 FROM {tasks} t WHERE t.id=w.task_id) ORDER BY w.place, w.rank_order, w.run_at, w.task_id LIMIT 1) AS id
		FROM {sequences} s WHERE s.pool=? AND {in name task_key}`, sqlkit.Keys(keys), pool),
		func(m *struct {
			TaskKey string
			ID      *string
		}) {
			if m.ID != nil {
				k.rows[m.TaskKey].first = *m.ID
			}
		})
}

// waiting reads the first tasks that wait for the keys that are looked at, as many as may start of each, and as many of all as there is
// room for; a scope leaves some out. With an order it is the first task of each key alone.
//
// Index: primary keys of key_waits and tasks.
func (k *poolKeys) waiting(t *tx, pool string, scope ledger.Scope, room int) ([]openTask, error) {
	open := those(k.looked, func(key string) bool { return k.room(k.rows[key]) > 0 })
	if len(open) == 0 {
		return nil, nil
	}
	if k.ordered {
		first, err := k.waitingFirst(t, pool, scope, those(open, func(key string) bool { return key != "" }))
		if open = those(open, func(key string) bool { return key == "" }); err != nil || len(open) == 0 {
			return first, err
		}
		keyless, err := k.waitingShares(t, pool, scope, room, open)
		return append(first, keyless...), err
	}
	return k.waitingShares(t, pool, scope, room, open)
}

// waitingShares reads as many of the tasks that wait for each of the keys as its share of the room is.
func (k *poolKeys) waitingShares(t *tx, pool string, scope ledger.Scope, room int, open []string) ([]openTask, error) {
	most := func(key string) int { return min(k.share(key, room, open), k.room(k.rows[key])) }
	ids, err := t.firstOf(pool, open, scope, most)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	tasks, err := t.keyedTasks(pool, ids)
	read := map[string]int{}
	for _, r := range tasks {
		read[r.Key]++
		row := k.rows[r.Key]
		row.read, row.rest = true, read[r.Key] == most(r.Key)
	}
	return tasks, err
}

func (k *poolKeys) waitingFirst(t *tx, pool string, scope ledger.Scope, open []string) ([]openTask, error) {
	var ids []string
	for _, key := range open {
		r := k.rows[key]
		if r.held = true; r.first != "" {
			ids = append(ids, r.first)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	first, err := t.keyedTasks(pool, ids)
	for _, r := range first {
		k.rows[r.Key].held, k.rows[r.Key].read = false, true
	}
	return those(first, func(r openTask) bool { return scope.Kinds == nil || slices.Contains(scope.Kinds, r.Kind) }), err
}

// keyedTasks reads tasks that wait for their keys, in the order of claims.
func (t *tx) keyedTasks(pool string, ids []string) ([]openTask, error) {
	return t.openTasks(taskColumns, " WHERE {in name id} AND state+0=4 AND pool=? ORDER BY rank_order, run_at, id", sqlkit.Keys(sqlkit.Distinct(ids)), pool)
}

// firstOf reads the first tasks that wait for each of the keys, in one statement: the list of each ends where its limit says.
func (t *tx) firstOf(pool string, keys []string, scope ledger.Scope, most func(key string) int) ([]string, error) {
	kinds, of := "", []any(nil)
	if scope.Kinds != nil {
		if len(scope.Kinds) == 0 {
			return nil, nil
		}
		list, args := sqlkit.List(scope.Kinds)
		kinds, of = " AND kind IN "+list, args
	}
	one := "SELECT task_id FROM (SELECT task_id FROM {key_waits} WHERE pool=? AND task_key=?" + kinds + " ORDER BY place, rank_order, run_at, task_id LIMIT ?) AS w"
	text, args := "", []any(nil)
	for i := range padded(len(keys)) {
		if i > 0 {
			text += " UNION ALL "
		}
		text += one
		key, limit := keys[min(i, len(keys)-1)], 0
		if i < len(keys) {
			limit = most(key)
		}
		args = slices.Concat(args, []any{pool, key}, of, []any{limit})
	}
	return column[string](t.rows(text, args...))
}

// padded is how many parts a statement for n keys has: few texts are worth preparing.
func padded(n int) int {
	parts := 1
	for parts < n {
		parts *= 4
	}
	return parts
}

// lets reports whether a task may start as far as its key says.
func (k *poolKeys) lets(r *openTask) bool {
	if k.ignores(r) {
		return true
	}
	row := k.rows[r.Key]
	return row != nil && k.room(row) > 0 && (!k.ordered || r.Key == "" || row.first == "" || row.first == r.ID)
}

// start takes a start from the key of a task.
func (k *poolKeys) start(r *openTask) {
	if k.ignores(r) {
		return
	}
	row := k.rows[r.Key]
	k.fair.start(r.Key, row)
	if row.places--; k.ordered && r.Key != "" {
		if row.first == "" {
			k.new = append(k.new, r.ID)
		}
		row.first, row.held = r.ID, true
	}
	if k.limits.Rate != (jobs.Rate{}) && r.Key != "" {
		row.bucket, row.changed = k.limits.Started(row.bucket, k.now, 1), true
	}
}

// wait has a task wait for its key.
func (k *poolKeys) wait(r *openTask) {
	row := k.rows[r.Key]
	row.behind = true
	if row.first == "" {
		row.first = r.ID
	}
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
		if at := k.lookAtKey(r, looked); r.changed || at != r.lookAt {
			rows = append(rows, []any{pool, key, int64(r.bucket), at, r.looks, r.pass})
		}
	}
	return t.Upsert("{keys} (pool, task_key, bucket_full_at, look_at, looks, pass)", "pool, task_key", rows)
}

// lookAtKey is when a key is to be looked at: where its rate alone is the limit, when that lets one more task start.
func (k *poolKeys) lookAtKey(r *keyRow, looked bool) int64 {
	opens, free := k.limits.OpensIn(r.bucket, k.now), r.places > 0 && !r.held
	switch {
	case !looked && (!r.behind || r.lookAt > 0):
		return r.lookAt
	case free && opens > 0:
		r.looks = 0
		return micros(k.now.Add(min(opens, lookMost/2))) + 1 // not before that: times are cut to microseconds
	case looked && free && k.fair != nil && !r.read: // it has tasks for other replicas alone, or for none, and would stay in front
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
