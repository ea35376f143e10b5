package memstore

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// TaskKey is a row of keys.
type TaskKey struct {
	Pool   string        `col:"pool"`
	Key    string        `col:"task_key"`
	Bucket ledger.Bucket `col:"bucket_full_at"`
	Pass   int64         `col:"pass"`
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

// rules are those of the definition.
func (r Pool) rules() ledger.KeyRules {
	return ledger.KeyRules{
		PerKey:  jobs.KeyLimits{MaxRunning: r.KeyMaxRunning, Rate: rateOf(r.KeyRate), Burst: r.KeyBurst},
		PerKind: r.definedKinds(), Order: jobs.Order(r.KeyOrder), Fair: r.definedFair(),
	}
}

// holds are the rules under the override.
func (r Pool) holds() ledger.KeyRules { return r.rules().Under(r.setKeys()) }

// setKeys is the override; nil: none.
func (r Pool) setKeys() *wire.PoolLimits {
	if len(r.SetKeyLimits) == 0 {
		return nil
	}
	var o wire.PoolLimits
	_ = json.Unmarshal(r.SetKeyLimits, &o) // as LimitPool encoded it
	return &o
}

// KeyLimits are those of the tasks with one key.
func (r Pool) KeyLimits() ledger.Limits { return ledger.Limits(r.holds().PerKey) }

// ByKey reports whether the pool has limits by key or kind, or an order by key.
func (r Pool) ByKey() bool {
	return !r.KeyLimits().None() || r.KeyOrder != "" || len(r.KeyFair) > 0 || len(r.kindLimits()) > 0
}

// ofKind begins the key of a kind in keys.
const ofKind = "\x01"

// limitsOf are those of a key.
func (r Pool) limitsOf(key string) ledger.Limits {
	if kind, is := strings.CutPrefix(key, ofKind); is {
		return ledger.Limits(r.kindLimits()[kind])
	}
	return r.KeyLimits()
}

// LimitsOfKind are those of the tasks of a kind.
func (r Pool) LimitsOfKind(kind string) ledger.Limits { return r.limitsOf(ofKind + kind) }

func (r Pool) kindLimits() (all map[string]jobs.KindLimits) {
	if r.KeyOrder == "" {
		return r.holds().PerKind
	}
	return nil
}

// ofItsKind is the key of the kind of a task, as a task that has it; false if the kind has no limits.
func (t *tx) ofItsKind(r Task) (kind Task, limited bool) {
	pool := t.pools.rows[r.Pool]
	if len(pool.KindLimits)+len(pool.SetKeyLimits) == 0 || r.Job != "" {
		return Task{}, false
	}
	_, limited = pool.kindLimits()[r.Kind]
	return Task{ID: r.ID, Pool: r.Pool, TaskKey: ofKind + r.Kind}, limited
}

// letsKind reports whether a task may start as far as its kind says, and when the rate of that lets it.
func (t *tx) letsKind(r Task) (lets bool, opens time.Duration) {
	kind, limited := t.ofItsKind(r)
	if !limited {
		return true, 0
	}
	l, running := t.pools.rows[r.Pool].limitsOf(kind.TaskKey), 0
	for _, other := range t.tasks.rows {
		if other.Pool == r.Pool && other.Kind == r.Kind && other.Job == "" && other.State == Running {
			running++
		}
	}
	if l.MaxRunning > 0 && running >= l.MaxRunning {
		return false, 0
	}
	opens = l.OpensIn(l.Possible(t.bucket(kind), t.now()), t.now())
	return opens == 0, opens
}

func (r Pool) definedKinds() (all map[string]jobs.KindLimits) {
	if len(r.KindLimits) > 0 {
		_ = json.Unmarshal(r.KindLimits, &all) // as it was encoded here
	}
	return all
}

// encodeKinds is the inverse.
func encodeKinds(kinds map[string]jobs.KindLimits) []byte {
	if len(kinds) == 0 {
		return nil
	}
	text, _ := json.Marshal(kinds) // it always encodes
	return text
}

// fair are the weights of keys that share the pool; nil: they do not.
func (r Pool) fair() map[string]int {
	if f := r.holds().Fair; f != nil {
		return f.Weights
	}
	return nil
}

func (r Pool) definedFair() *jobs.Fair {
	if len(r.KeyFair) == 0 {
		return nil
	}
	f := &jobs.Fair{}
	_ = json.Unmarshal(r.KeyFair, &f.Weights) // as it was encoded here
	return f
}

// encodeFair is the inverse.
func encodeFair(f *jobs.Fair) []byte {
	if f == nil {
		return nil
	}
	weights := f.Weights
	if weights == nil {
		weights = map[string]int{}
	}
	text, _ := json.Marshal(weights) // it always encodes
	return text
}

func (r Pool) sameKeys(d ledger.PoolDef) bool {
	return r.KeyMaxRunning == d.PerKey.MaxRunning && r.KeyRate == rateText(d.PerKey.Rate) && r.KeyBurst == d.PerKey.Burst && (r.KeyOrder != "") == (d.Order == jobs.OrderKey) &&
		bytes.Equal(r.KeyFair, encodeFair(d.Fair)) && bytes.Equal(r.KindLimits, encodeKinds(d.PerKind))
}

// defineKeys gives the row the limits and the order of a definition.
func (t *tx) defineKeys(row *Pool, limits jobs.KeyLimits, kinds map[string]jobs.KindLimits, order jobs.Order, fair *jobs.Fair) {
	before := *row
	row.KeyFair, row.KindLimits = encodeFair(fair), encodeKinds(kinds)
	row.KeyMaxRunning, row.KeyRate, row.KeyBurst = limits.MaxRunning, rateText(limits.Rate), limits.Burst
	is := ""
	if order == jobs.OrderKey {
		is = string(order)
	}
	row.KeyOrder = is
	t.convertKeys(before, *row)
	if is == before.KeyOrder {
		return
	}
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

// convertKeys has buckets of keys lack under other limits as many starts as before.
func (t *tx) convertKeys(before, after Pool) {
	for _, k := range t.taskKeys.rows {
		if k.Pool == after.Name {
			k.Bucket = before.limitsOf(k.Key).Converted(k.Bucket, t.now(), after.limitsOf(k.Key))
			put(t, &t.taskKeys, k)
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
	most := pool.KeyLimits().MaxRunning
	if pool.KeyOrder != "" {
		most = 1
	}
	if most == 0 {
		return math.MaxInt
	}
	running := 0
	for _, other := range t.tasks.rows {
		if other.Pool == r.Pool && other.TaskKey == r.TaskKey && other.State == Running {
			running++
		}
	}
	return max(0, most-running)
}

// lets reports whether a task may start as far as its kind and its key say, and when a rate lets it if that is all that it waits for.
func (t *tx) lets(r Task) (lets bool, opens time.Duration) {
	if lets, opens := t.letsKind(r); !lets {
		return false, opens
	}
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

func (t *tx) bucket(r Task) ledger.Bucket { return t.taskKey(r).Bucket }

// taskKey is the row of the key of a task.
func (t *tx) taskKey(r Task) TaskKey {
	k := t.taskKeys.rows[poolKey{r.Pool, r.TaskKey}]
	k.Pool, k.Key = r.Pool, r.TaskKey
	return k
}

// strideOfOne is how far a start moves the pass of a key with weight 1.
const strideOfOne = 1 << 20

// impossible reports whether the bucket of a task's key cannot be as it is: the clock was set back since it was written.
func (t *tx) impossible(r Task) bool {
	l := t.pools.rows[r.Pool].limitsOf(r.TaskKey)
	return r.TaskKey != "" && l.Rate != (jobs.Rate{}) && l.Possible(t.bucket(r), t.now()) != t.bucket(r)
}

func (t *tx) impossibleKind(r Task) bool {
	kind, limited := t.ofItsKind(r)
	return limited && t.impossible(kind)
}

// correctKeys writes the buckets of keys that cannot be as they are.
func (t *tx) correctKeys(pool string) {
	for _, k := range t.taskKeys.rows {
		if r := (Task{Pool: k.Pool, TaskKey: k.Key}); k.Pool == pool && t.impossible(r) {
			k.Bucket = t.pools.rows[pool].limitsOf(k.Key).Possible(k.Bucket, t.now())
			put(t, &t.taskKeys, k)
		}
	}
}

// waitForKey writes why a ready task does not start.
func (t *tx) waitForKey(r Task) {
	pool := t.pools.rows[r.Pool]
	r.ReasonCode = t.wouldWaitFor(r)
	switch first, of := t.first(r.Pool, r.TaskKey), pool.kindLimits()[r.Kind]; {
	case r.ReasonCode == reason.WaitsForKind && of.MaxRunning > 0:
		r.Reason = fmt.Sprintf("as many tasks of kind %s run as may at once: %d", r.Kind, of.MaxRunning)
	case r.ReasonCode == reason.WaitsForKind:
		r.Reason = fmt.Sprintf("the rate for tasks of kind %s, %s, lets no more start now", r.Kind, of.Rate)
	case pool.KeyOrder != "" && first != r.ID:
		r.Reason = fmt.Sprintf("behind task %s of the same key", first)
	case t.places(r) < 1:
		r.Reason = fmt.Sprintf("as many tasks with this key run as may at once: %d", pool.KeyLimits().MaxRunning)
	default:
		r.Reason = fmt.Sprintf("the rate for tasks with this key, %s, lets no more start now", pool.KeyLimits().Rate)
	}
	put(t, &t.tasks, r)
}

// wouldWaitFor is what a task waits for that may not start.
func (t *tx) wouldWaitFor(r Task) reason.Code {
	if lets, _ := t.letsKind(r); !lets {
		return reason.WaitsForKind
	}
	return reason.WaitsForKey
}

// waitsForKey reports whether a task waits for its kind or its key.
func (r Task) waitsForKey() bool {
	return r.ReasonCode == reason.WaitsForKey || r.ReasonCode == reason.WaitsForKind
}
