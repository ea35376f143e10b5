package store

import (
	"cmp"
	"slices"
)

// fairness shares the starts of a pool between the keys that have tasks, by stride scheduling (Waldspurger and Weihl, 1995): a start moves
// the pass of its key ahead by a stride, which is the shorter the larger the key's weight is, and the key with the smallest pass is next.
// A key that had no tasks for a while joins a stride behind the pass of the pool: it neither makes up for that time, nor waits for what it
// had before, and keys that come anew all the time do not come before those that wait. One whose tasks could not start, since it was full or
// its row was locked, makes up for one stride of the slowest key that it competes with at most.
//
// Passes count only while the pool has more tasks than there is room for. Tasks without a key share as one key does. Tasks of jobs come
// first. nil is for a pool without.
type fairness struct {
	weights map[string]int // 1 where there is none
	pass    int64          // of the last start
	changed bool
	counts  bool // there are more tasks than there is room for
}

// fairLook is how many ready tasks a claim reads at least in a pool that keys share.
const fairLook = 200

// strideOfOne is the stride of a key with weight 1; a weight of 1,000 has one that is a thousandth of it.
const strideOfOne = 1 << 20

func (f *fairness) stride(key string) int64 { return strideOfOne / int64(cmp.Or(f.weights[key], 1)) }

// start moves the pass of a key ahead, and that of the pool.
func (f *fairness) start(key string, r *keyRow) {
	if f == nil || !f.counts {
		return
	}
	f.pass, f.changed = max(f.pass, r.pass), true
	r.pass, r.changed = r.pass+f.stride(key), true
}

// join gives a key its pass for which no task waited.
func (f *fairness) join(key string, r *keyRow) {
	if at := f.pass + f.stride(key); r.lookAt == 0 && r.pass < at {
		r.pass, r.changed = at, true
	}
}

// keepUp gives keys that have tasks, and could not start them for a while, a pass that is near enough to that of the pool. A row that another
// transaction has locked is not written: nothing starts of its key.
func (k *poolKeys) keepUp(keys []string) {
	slowest := int64(0)
	for _, key := range keys {
		slowest = max(slowest, k.fair.stride(key))
	}
	for _, key := range keys {
		if r := k.row(key); r.pass < k.fair.pass-slowest {
			r.pass = k.fair.pass - slowest // start writes it
		}
	}
}

// share is how many of the tasks that wait for a key are read, for that much room: what its weight gives it, and one.
func (k *poolKeys) share(key string, room int, open []string) int {
	if k.fair == nil {
		return (room + len(open) - 1) / len(open)
	}
	sum := 0
	for _, other := range open {
		sum += cmp.Or(k.fair.weights[other], 1)
	}
	return room*cmp.Or(k.fair.weights[key], 1)/sum + 1
}

// inTurn puts candidates, which are in the order of claims, into the order in which their keys are to start them.
func (k *poolKeys) inTurn(candidates []openTask) []openTask {
	var first []openTask // those that do not share
	tasks := map[string][]openTask{}
	pass := map[string]int64{}
	for _, r := range candidates {
		if k.ignores(&r) {
			first = append(first, r)
			continue
		}
		k.fair.join(r.Key, k.row(r.Key))
		tasks[r.Key] = append(tasks[r.Key], r)
	}
	keys := make([]string, 0, len(tasks))
	for key := range tasks {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	k.keepUp(keys)
	for _, key := range keys {
		pass[key] = k.row(key).pass
	}
	for len(keys) > 0 {
		next := slices.MinFunc(keys, func(a, b string) int { return cmp.Compare(pass[a], pass[b]) })
		first = append(first, tasks[next][0])
		pass[next] += k.fair.stride(next)
		if tasks[next] = tasks[next][1:]; len(tasks[next]) == 0 {
			keys = slices.DeleteFunc(keys, func(key string) bool { return key == next })
		}
	}
	return first
}
