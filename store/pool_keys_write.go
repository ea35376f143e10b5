package store

import (
	"maps"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// write writes the rows of keys that changed, and when those for which tasks wait are looked at again.
//
// Index: primary key of keys.
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
	case looked && r.ends():
		if r.looks = 0; r.waits {
			k.drained = append(k.drained, key)
		}
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

// ends reports whether a key is not looked at again: nothing waits for it, or what does is taken by this claim, all of it.
func (r *keyRow) ends() bool {
	return !r.behind && (!r.waits || r.read && r.waiting > 0 && r.leaving >= r.waiting)
}

// lookOn has keys looked at again, if some of the tasks that were to be taken were changed meanwhile, and may wait on. Their rows are locked.
//
// Index: primary key of keys.
func (k *poolKeys) lookOn(t *tx, pool string) error {
	_, err := t.Exec("UPDATE {keys}{by_key} SET look_at=? WHERE pool=? AND {in name task_key}", sqlkit.Keys(k.drained), micros(k.now), pool)
	return err
}
