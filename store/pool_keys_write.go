package store

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// write writes the rows of keys that changed, and when those for which tasks wait are looked at again.
//
// Index: primary key of keys.
func (k *poolKeys) write(t *tx, pool string) error {
	if k == nil {
		return nil
	}
	rows := mapped(k.changed(), func(m keyModel) []any {
		return []any{pool, m.TaskKey, int64(m.BucketFullAt), m.LookAt, m.Looks, m.Pass}
	})
	return t.Upsert("{keys} (pool, task_key, bucket_full_at, look_at, looks, pass)", "pool, task_key", rows)
}

// changed are the rows that are to be written, by key.
func (k *poolKeys) changed() (rows []keyModel) {
	for _, key := range slices.Sorted(maps.Keys(k.rows)) {
		r := k.rows[key]
		_, looked := slices.BinarySearch(k.looked, key)
		if !r.known {
			continue
		}
		if at := k.lookAtKey(key, r, looked); r.changed || at != r.lookAt || r.spent && (at > 0 || !k.fullAgain(r)) {
			rows = append(rows, keyModel{TaskKey: key, BucketFullAt: r.bucket, LookAt: at, Looks: r.looks, Pass: r.pass})
		}
	}
	return rows
}

// fullAgain reports whether a bucket from which starts have taken is full by now. Who reads it next gets a later time from the database: that is asked
// under the lock of the pool's row. So the row need not be written, and where all limits are far there are no rows to be read.
func (k *poolKeys) fullAgain(r *keyRow) bool {
	return int64(r.was) <= k.now.UnixNano() && int64(r.bucket) <= k.now.Add(time.Since(k.told)).UnixNano()
}

// lookAtKey is when a key is to be looked at: where its rate alone is the limit, when that lets one more task start.
func (k *poolKeys) lookAtKey(key string, r *keyRow, looked bool) int64 {
	opens, free := r.limits.OpensIn(r.bucket, k.now), r.places() > 0 && !r.held
	switch {
	case looked && r.ends():
		r.looks = 0
		return 0
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

// ends reports whether a key is not looked at again: nothing waits for it, or this claim takes all that does. No such task changes meanwhile:
// who changes one locks the row of its key, see wakeKeys.
func (r *keyRow) ends() bool {
	return !r.behind && (!r.waits || r.read && r.waiting > 0 && r.leaving >= r.waiting)
}
