package store

import (
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// keysDue is, in the columns of a pool's row, whether a claim has to lock rows of keys: some are to be looked at, see poolKeys.lockDue, or
// tasks wait for kinds. It is as true as what was committed when the statement began; what has come since is for the next claim.
//
// Index: one probe of keys_pool for what is due, and one for looks that are too far ahead; primary key of keys for kinds.
const keysDue = `, (SELECT k.task_key FROM {keys} k{index}{keys}_pool{end} WHERE k.pool=? AND k.look_at>0 AND k.look_at<=COALESCE({now}, ?) LIMIT 1) IS NOT NULL
	OR (SELECT k.task_key FROM {keys} k{index}{keys}_pool{end} WHERE k.pool=? AND k.look_at>COALESCE({now}, ?)+? LIMIT 1) IS NOT NULL
	OR (SELECT k.task_key FROM {keys} k{by_key} WHERE k.pool=? AND k.task_key>? AND k.task_key<? AND k.look_at>0 LIMIT 1) IS NOT NULL AS keys_due`

// afterKinds is the first key after those of kinds, see ofKind.
const afterKinds = "\x02"

func keysDueArgs(pool string, now time.Time) []any {
	return []any{pool, micros(now), pool, micros(now), lookMost.Microseconds(), pool, ofKind, afterKinds}
}

// read locks the rows of keys that are to be looked at, if there are some, and then reads what limits the pool, as a whole, by key and by kind.
// What it says of the pool is in its room. It is called once, behind the lock of the pool's row.
func (k *poolKeys) read(t *tx, pool string, p *poolRow, now time.Time, looks bool) error {
	if looks && p.keysDue {
		if err := k.lockDue(t, pool, now); err != nil {
			return err
		}
	}
	running := 0
	if !k.is.None() || k.is.kinds != nil || !p.limits.None() {
		k.none = true
		err := each(k.facts(t, pool, p), func(f *keyFact) {
			switch f.What {
			case "now":
				k.tells(fromMicros(f.N))
			case "some":
				k.none = false
			case "whole":
				running = int(f.N)
			case "running":
				k.row(f.TaskKey).running = int(f.N)
			case "kind":
				k.row(ofKind + f.TaskKey).running = int(f.N)
			default:
				if r := k.row(f.TaskKey); !r.locked {
					r.bucket, r.lookAt = f.BucketFullAt, f.LookAt
				}
			}
		})
		if err == nil {
			err = k.tell(t)
		}
		if err != nil {
			return err
		}
		p.bound(running, k.now)
	}
	for kind := range k.is.kinds {
		k.know(k.row(ofKind + kind))
	}
	if p.room < 1 { // what is due stays so
		k.looked, k.beyond = nil, false
		return nil
	}
	if len(k.looked) > 0 {
		if err := k.tell(t); err != nil {
			return err
		}
		for _, key := range k.looked {
			k.know(k.row(key))
		}
	}
	return nil
}

// tells notes the time that a statement told; it is zero where the database is this process.
func (k *poolKeys) tells(now time.Time) { k.now, k.told = now, time.Now() }

// tell asks for the time, if no statement has told it.
func (k *poolKeys) tell(t *tx) error {
	if !k.now.IsZero() {
		return nil
	}
	now, err := t.Now()
	k.tells(now)
	return err
}

// know notes that the row of a key has been read, and makes its bucket one that is possible.
func (k *poolKeys) know(r *keyRow) {
	r.known, r.was = true, r.bucket
	if r.limits.Rate == (jobs.Rate{}) {
		return
	}
	possible := r.limits.Possible(r.bucket, k.now)
	if possible != r.bucket && (r.locked || r.lookAt == 0) {
		r.changed = true
	}
	r.bucket = possible
}

// lockDue locks the rows of keys that are to be looked at, and those of kinds that tasks wait for. Rows that another transaction has locked
// are left alone. Keys that share the pool are looked at in their turn. A look that is further ahead than any is written by a clock that was
// set back since.
//
// Index: keys_pool; primary keys of keys and key_waits.
func (k *poolKeys) lockDue(t *tx, pool string, now time.Time) error {
	order := "look_at"
	if k.fair != nil {
		order = "pass"
	}
	kinds, of := "", []any(nil)
	if k.is.kinds != nil {
		kinds, of = `
			UNION ALL SELECT task_key, 0 FROM {keys}{by_key} WHERE pool=? AND task_key>? AND task_key<? AND look_at>0`, []any{pool, ofKind, afterKinds}
	}
	due := 0
	k.locked = true
	err := each(t.rows(`SELECT x.task_key, x.due, COALESCE(k.look_at, 0) AS look_at, COALESCE(k.looks, 0) AS looks, COALESCE(k.bucket_full_at, 0) AS bucket_full_at,
			COALESCE(k.pass, 0) AS pass, (SELECT w.task_id FROM {key_waits} w{by_key} WHERE w.pool=? AND w.task_key=x.task_key LIMIT 1) IS NOT NULL AS waits
		FROM (SELECT task_key, 1 AS due FROM (SELECT task_key FROM {keys}{index}{keys}_pool{end}
				WHERE pool=? AND look_at>0 AND look_at<=COALESCE({now}, ?) ORDER BY `+order+` LIMIT ?) AS due
			UNION ALL SELECT task_key, 1 FROM (SELECT task_key FROM {keys}{index}{keys}_pool{end}
				WHERE pool=? AND look_at>COALESCE({now}, ?)+? ORDER BY look_at LIMIT ?) AS far`+kinds+`) AS x
		LEFT JOIN {keys} k{by_key} ON k.pool=? AND k.task_key=x.task_key{for_update}{skip_locked}`,
		slices.Concat([]any{pool, pool, micros(now), looksAtOnce, pool, micros(now), lookMost.Microseconds(), looksAtOnce}, of, []any{pool})...),
		func(m *struct {
			Key        keyModel `gorm:"embedded"`
			Due, Waits int
		}) {
			due += m.Due
			if m.Key.LookAt == 0 { // it was skipped
				return
			}
			r := k.row(m.Key.TaskKey)
			r.is(&m.Key)
			if r.waits = m.Waits > 0; m.Due > 0 {
				k.looked = append(k.looked, m.Key.TaskKey)
			}
		})
	slices.Sort(k.looked)
	k.looked, k.beyond = slices.Compact(k.looked), due >= looksAtOnce
	return err
}

// keyFact is one of several things about the keys of a pool that one statement reads.
type keyFact struct {
	What         string
	TaskKey      string
	N            int64
	BucketFullAt ledger.Bucket
	LookAt       int64
}

// facts reads the time, whether the pool has rows of keys, how many of its tasks run, also of kinds with limits, and the rows of kinds. Of keys it
// counts those of which more may not run: that the limit of the others lets start all for which there is room is enough.
//
// Index: tasks_claim, but for kinds, which are read from the rows; primary key of keys.
func (k *poolKeys) facts(t *tx, pool string, p *poolRow) found {
	const run = "{tasks}{index}{tasks}_claim{end} WHERE state=2 AND pool=?"
	text := "SELECT 'now' AS what, '' AS task_key, COALESCE({now}, 0) AS n, 0 AS bucket_full_at, 0 AS look_at" +
		" UNION ALL SELECT 'some', '', n, 0, 0 FROM (SELECT 1 AS n FROM {keys}{by_key} WHERE pool=? LIMIT 1) AS x"
	args := []any{pool}
	if p.limits.MaxRunning > 0 {
		text += " UNION ALL SELECT 'whole', '', COUNT(*), 0, 0 FROM " + run
		args = append(args, pool)
	}
	if k.is.MaxRunning > 0 {
		text += " UNION ALL SELECT 'running', task_key, COUNT(*), 0, 0 FROM " + run + " AND task_key>'' GROUP BY task_key HAVING COUNT(*)>?"
		args = append(args, pool, k.is.MaxRunning-p.room)
	}
	if k.countsKinds() {
		text += " UNION ALL SELECT 'kind', kind, COUNT(*), 0, 0 FROM " + run + " AND kind<>'' AND job='' GROUP BY kind"
		args = append(args, pool)
	}
	if k.is.kinds != nil {
		text += " UNION ALL SELECT 'row', task_key, 0, bucket_full_at, look_at FROM {keys}{by_key} WHERE pool=? AND task_key>? AND task_key<?"
		args = append(args, pool, ofKind, afterKinds)
	}
	return t.rows(text, args...)
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

// lockWritten locks the rows that starts of these tasks would write, and that others may write, too; see shut.
//
// Index: primary key of keys.
func (k *poolKeys) lockWritten(t *tx, pool string, tasks []openTask) error {
	var keys []string
	want := func(key string) {
		if k.writesLate(k.row(key)) {
			keys = append(keys, key)
		}
	}
	for i := range tasks {
		if kind, limited := k.kindOf(&tasks[i]); limited {
			want(kind)
		}
		if !k.ignores(&tasks[i]) {
			want(tasks[i].Key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	k.locked = true
	return each(t.rows("SELECT task_key, look_at, looks, bucket_full_at, pass FROM {keys}{by_key} WHERE pool=? AND {in name task_key} ORDER BY task_key{for_update}{skip_locked}",
		sqlkit.Keys(sqlkit.Distinct(keys)), pool),
		func(m *keyModel) {
			r := k.row(m.TaskKey)
			r.is(m)
			k.know(r)
		})
}

// is notes a row that is locked.
func (r *keyRow) is(m *keyModel) {
	r.locked, r.bucket, r.lookAt, r.looks, r.pass = true, m.BucketFullAt, m.LookAt, m.Looks, m.Pass
}

// keyedModel is a row of {tasks} with what is known of its key, and with the place at which it waits, if it was read by that.
type keyedModel struct {
	Row          taskModel `gorm:"embedded"`
	N            int64     // the time
	LookAt       int64
	BucketFullAt ledger.Bucket
	Pass         int64
	FirstID      *string
	OnKey        string
	OnPlace      int64
	OnRank       int
	OnRunAt      int64
}

// candidateColumns are those of a task t; keyedColumns are those, and what is read of the row k of its key.
var (
	candidateColumns = "t." + strings.ReplaceAll(taskFacts+openColumns, ", ", ", t.") + laterPayload
	keyedColumns     = candidateColumns + keyFacts
)

const keyFacts = ", COALESCE({now}, 0) AS n, COALESCE(k.look_at, 0) AS look_at, COALESCE(k.bucket_full_at, 0) AS bucket_full_at, COALESCE(k.pass, 0) AS pass"

// keyJoin finds the row of a task's key.
const keyJoin = " LEFT JOIN {keys} k{by_key} ON k.pool=t.pool AND k.task_key=t.task_key"

// firstOfKey is the first task of the key of task t that has not ended, with an order. One that ended while its pool got the order may have a
// place still; it is looked up by a subquery of its own, since MariaDB makes a join of EXISTS, and with some statistics reads all tasks for
// each key.
const firstOfKey = `(SELECT w.task_id FROM {key_waits} w{by_key} WHERE w.pool=t.pool AND w.task_key=t.task_key AND ` + notEnded + `
	ORDER BY w.place, w.rank_order, w.run_at, w.task_id LIMIT 1)`

const notEnded = "(SELECT COUNT(*) FROM {tasks} o{by_key} WHERE o.id=w.task_id)>0"

// candidates reads tasks t with what is known of their keys, into a slice of length 0; rest is what follows the tables.
//
// Index: what rest says; primary keys of keys, and with an order of key_waits and tasks.
func (k *poolKeys) candidates(t *tx, into []openTask, index, rest string, args ...any) ([]openTask, error) {
	if k.none && !k.ordered {
		return k.tasks(t, into, "SELECT "+candidateColumns+" FROM {tasks} t"+index+rest, args...)
	}
	first := "NULL"
	if k.ordered {
		first = firstOfKey
	}
	return k.tasks(t, into, "SELECT "+keyedColumns+", "+first+" AS first_id FROM {tasks} t"+index+keyJoin+rest, args...)
}

// tasks reads tasks, and notes what is known of their keys.
func (k *poolKeys) tasks(t *tx, into []openTask, text string, args ...any) ([]openTask, error) {
	var keys []*keyRow
	all, err := listInto(into, t.rows(text, args...), func(m *keyedModel) openTask {
		if k.now.IsZero() {
			k.tells(fromMicros(m.N))
		}
		is := m.Row.open()
		r := k.row(is.Key)
		if !r.known && !r.locked {
			r.bucket, r.lookAt, r.pass = m.BucketFullAt, m.LookAt, m.Pass
			keys = append(keys, r)
		}
		if r.known = true; k.ordered && is.Key != "" && m.FirstID != nil {
			r.first = *m.FirstID
		}
		if is.row == rowKeyed {
			is.on = m.OnKey
			is.place = &keyWaitModel{Pool: is.Pool, TaskKey: m.OnKey, Place: m.OnPlace, RankOrder: m.OnRank, RunAt: m.OnRunAt, TaskID: is.ID}
		}
		return is
	})
	if err == nil && len(all) > 0 {
		err = k.tell(t)
	}
	for _, r := range keys {
		k.know(r)
	}
	return all, err
}
