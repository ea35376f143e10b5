package store

import (
	"maps"
	"slices"
	"strings"
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
