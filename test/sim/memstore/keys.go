package memstore

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// TaskKey is a row of keys.
type TaskKey struct {
	Pool   string        `col:"pool"`
	Key    string        `col:"task_key"`
	Bucket ledger.Bucket `col:"bucket_full_at"`
}

// KeyWait is a row of key_waits: the place of a task in a pool with an order. Other tasks wait for their keys without a row.
type KeyWait struct {
	Pool   string `col:"pool"`
	Key    string `col:"task_key"`
	Place  int64  `col:"place"`
	Rank   int    `col:"rank_order"`
	RunAt  int64  `col:"run_at"`
	TaskID string `col:"task_id"`
	Kind   string `col:"kind"`
}

// KeyLimits are those of the tasks with one key.
func (r Pool) KeyLimits() ledger.Limits {
	return ledger.Limits{MaxRunning: r.KeyMaxRunning, Rate: rateOf(r.KeyRate), Burst: r.KeyBurst}
}

// ByKey reports whether the pool has limits or an order by key.
func (r Pool) ByKey() bool { return !r.KeyLimits().None() || r.KeyOrder != "" }

func (r Pool) sameKeys(d ledger.PoolDef) bool {
	return r.KeyMaxRunning == d.PerKey.MaxRunning && r.KeyRate == rateText(d.PerKey.Rate) && r.KeyBurst == d.PerKey.Burst && (r.KeyOrder != "") == (d.Order == jobs.OrderKey)
}

// defineKeys gives the row the limits and the order of a definition.
func (t *tx) defineKeys(row *Pool, limits jobs.KeyLimits, order jobs.Order) {
	before := row.KeyLimits()
	row.KeyMaxRunning, row.KeyRate, row.KeyBurst = limits.MaxRunning, rateText(limits.Rate), limits.Burst
	for _, k := range t.taskKeys.rows {
		if k.Pool == row.Name {
			k.Bucket = before.Converted(k.Bucket, t.now(), row.KeyLimits())
			put(t, &t.taskKeys, k)
		}
	}
	is := ""
	if order == jobs.OrderKey {
		is = string(order)
	}
	if is == row.KeyOrder {
		return
	}
	row.KeyOrder = is
	for id, w := range t.keyWaits.rows {
		if w.Pool == row.Name {
			remove(t, &t.keyWaits, id)
		}
	}
	if is != "" {
		for _, r := range t.tasks.rows {
			if r.Pool == row.Name && r.TaskKey != "" {
				put(t, &t.keyWaits, KeyWait{Pool: r.Pool, Key: r.TaskKey, Place: r.CreatedAt, TaskID: r.ID, Kind: r.Kind})
			}
		}
	}
}

// place gives a new task its place, if its pool has an order.
func (t *tx) place(r Task) {
	if r.TaskKey == "" || t.pools.rows[r.Pool].KeyOrder == "" {
		return
	}
	place := micros(t.now())
	for _, w := range t.keyWaits.rows {
		if w.Pool == r.Pool && w.Key == r.TaskKey {
			place = max(place, w.Place+1)
		}
	}
	put(t, &t.keyWaits, KeyWait{Pool: r.Pool, Key: r.TaskKey, Place: place, TaskID: r.ID, Kind: r.Kind})
}

// first is the task of a key that has not ended and was enqueued first.
func (t *tx) first(pool, key string) string {
	var all []KeyWait
	for _, w := range t.keyWaits.rows {
		if w.Pool == pool && w.Key == key {
			all = append(all, w)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return slices.MinFunc(all, func(a, b KeyWait) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.TaskID, b.TaskID))
	}).TaskID
}

// places is how many more tasks with the key of a task its max_running lets start, and the order: 0 behind another task.
func (t *tx) places(r Task) int {
	pool := t.pools.rows[r.Pool]
	if pool.KeyOrder != "" && r.ID != t.first(r.Pool, r.TaskKey) {
		return 0
	}
	if pool.KeyMaxRunning == 0 {
		return math.MaxInt
	}
	running := 0
	for _, other := range t.tasks.rows {
		if other.Pool == r.Pool && other.TaskKey == r.TaskKey && other.State == Running {
			running++
		}
	}
	return max(0, pool.KeyMaxRunning-running)
}

// lets reports whether a task may start as far as its key says, and when its rate lets it if that is all that it waits for.
func (t *tx) lets(r Task) (lets bool, opens time.Duration) {
	pool := t.pools.rows[r.Pool]
	if r.TaskKey == "" || !pool.ByKey() {
		return true, 0
	}
	if t.places(r) < 1 {
		return false, 0
	}
	opens = pool.KeyLimits().OpensIn(pool.KeyLimits().Possible(t.bucket(r), t.now()), t.now())
	return opens == 0, opens
}

func (t *tx) bucket(r Task) ledger.Bucket { return t.taskKeys.rows[poolKey{r.Pool, r.TaskKey}].Bucket }

// startKey takes a start from the key of a task.
func (t *tx) startKey(r Task) {
	if l := t.pools.rows[r.Pool].KeyLimits(); r.TaskKey != "" && l.Rate != (jobs.Rate{}) {
		put(t, &t.taskKeys, TaskKey{r.Pool, r.TaskKey, l.Started(l.Possible(t.bucket(r), t.now()), t.now(), 1)})
	}
}

// waitForKey writes why a ready task does not start.
func (t *tx) waitForKey(r Task) {
	pool := t.pools.rows[r.Pool]
	switch first := t.first(r.Pool, r.TaskKey); {
	case pool.KeyOrder != "" && first != r.ID:
		r.Reason = fmt.Sprintf("behind task %s of the same key", first)
	case t.places(r) < 1:
		r.Reason = fmt.Sprintf("as many tasks with this key run as may at once: %d", pool.KeyMaxRunning)
	default:
		r.Reason = fmt.Sprintf("the rate for tasks with this key, %s, lets no more start now", rateOf(pool.KeyRate))
	}
	r.ReasonCode = reason.WaitsForKey
	put(t, &t.tasks, r)
}
