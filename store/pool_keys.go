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

// looksAtOnce is how many keys a claim looks at, besides those of the candidates that it finds anyway.
const looksAtOnce = 64

// lookAgain is when a key is looked at that was full. The end of one of its tasks has it looked at at once; but a transaction that was
// recording one when the first task began to wait may not have seen that. So the first looks come soon.
var lookAgain = []time.Duration{20 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second, lookMost / 2}

// lookElsewhere is when a key is looked at again whose tasks this replica cannot run: other keys have their turn meanwhile.
const lookElsewhere = 200 * time.Millisecond

// lookMost is how far ahead look_at is at most, and some: of a key with a later one the clock was set back since.
const lookMost = time.Minute

// poolKeys is what a claim knows of the keys of a pool that has limits or an order by them. The pool's row is locked: no other claim changes
// it. Others set look_at to the time of an end, where tasks wait for the key, and keep the row locked until their transaction has ended the
// key's tasks. A claim locks these rows, too, before it counts running tasks. So the end of a task is either counted, or comes after this claim
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
