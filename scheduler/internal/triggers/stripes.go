package triggers

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// stripes is the part of the jobs that this replica owns. A stripe's lock is held as long as its owner lives, so a trigger
// costs no lock call. As replicas come and go, and each second or more often (balance):
//
//  1. release the locks of stripes that are another replica's now, and forget leases that are lost
//  2. try for the locks of own stripes that are not held; if all are, ask a lock service that was away whether it is back
//  3. read the due times of stripes that are new among the owned ones
//
// Without a lock service only step 3 is left.
type stripes struct {
	mu   sync.Mutex
	live []string             // replicas that take part
	mine []int                // by rendezvous hashing over them; sorted; replaced, never changed
	held map[int]*locks.Lease // of those, with a lock service
	read map[int]bool         // those whose due times have been read, and not been forgotten since
}

func stripeKey(n int) string { return fmt.Sprintf("sys/stripe/%02d", n) }

// assign spreads the stripes over the replicas by rendezvous hashing: when a replica ends, only its own
// stripes move. It returns those of self, sorted.
func assign(self string, replicas []string) []int {
	var mine []int
	for n := range ledger.Stripes {
		if slices.Contains(replicas, self) && rank(self, n, replicas) == 0 {
			mine = append(mine, n)
		}
	}
	return mine
}

// rank is how many of the replicas come before self for a stripe; its owner has rank 0.
func rank(self string, stripe int, replicas []string) int {
	own, before := affinity(self, stripe), 0
	for _, id := range replicas {
		if score := affinity(id, stripe); score > own || score == own && id < self {
			before++
		}
	}
	return before
}

func affinity(replica string, stripe int) uint64 {
	h := fnv.New64a()
	h.Write([]byte(replica))
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(stripe)))
	// FNV's low bits differ little for keys that differ at the end: mix them (MurmurHash3's finalizer).
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// take notes the live replicas, and which stripes are this replica's: whether these are others than before. A replica that
// drains has none.
func (st *stripes) take(self string, live []string, draining bool) (changed bool) {
	var mine []int
	if !draining {
		mine = assign(self, live)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	changed = !slices.Equal(mine, st.mine)
	st.live, st.mine = live, mine
	return changed
}

// unread returns those stripes of owned whose due times are to be read, and counts them as read.
func (st *stripes) unread(owned []int) (unread []int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	before := st.read
	st.read = make(map[int]bool, len(owned))
	for _, n := range owned {
		st.read[n] = true
		if !before[n] {
			unread = append(unread, n)
		}
	}
	return unread
}

// forget makes the due times of these stripes be read again.
func (st *stripes) forget(stripes ...int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, n := range stripes {
		delete(st.read, n)
	}
}

// balance takes these steps until ctx is done.
func (t *Triggers) balance(ctx context.Context) {
	for again := true; again; again = wake.Wait(ctx, t.member.WatchEvery(), t.wakeBalance) {
		if t.locks.Used() {
			t.lockStripes(ctx)
		}
		if unread := t.stripes.unread(t.Owned()); len(unread) > 0 {
			t.look(ctx, unread)
		}
	}
}

// MeetLocks finds out whether the lock service answers before anything starts. A service that was not called yet counts
// as there, unless nothing may start without it.
func (t *Triggers) MeetLocks(ctx context.Context) {
	t.locks.Meet()
	if t.locks.Used() && t.locks.Required {
		t.lockStripes(ctx)
	}
}

// lockStripes releases the stripes of others and tries for the own ones that are not held yet.
func (t *Triggers) lockStripes(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	st := t.stripes
	st.mu.Lock()
	mine := st.mine
	var drop []*locks.Lease
	for n, lease := range st.held {
		if _, ok := slices.BinarySearch(mine, n); !ok || lease.Check() != nil {
			drop = append(drop, lease)
			delete(st.held, n)
		}
	}
	var want []int
	for _, n := range mine {
		if st.held[n] == nil {
			want = append(want, n)
		}
	}
	st.mu.Unlock()
	if len(drop) > 0 {
		_ = t.locks.Release(ctx, drop...) // a lost lease is free already
	}
	if len(want) == 0 {
		t.probe(ctx)
		return
	}
	requests := make([]locks.Request, len(want))
	meta := t.stripeMeta(ctx)
	for i, n := range want {
		requests[i] = locks.Request{Key: stripeKey(n), Meta: meta}
	}
	attempts, err := t.locks.Try(ctx, requests...)
	t.locks.Failed(err)
	t.meetOtherStore(attempts)
	st.mu.Lock()
	defer st.mu.Unlock()
	for i, a := range attempts {
		if a.Lease != nil {
			st.held[want[i]] = a.Lease
		}
	}
}

// probe asks a lock service that was away whether it is back, when no other call would.
func (t *Triggers) probe(ctx context.Context) {
	if !t.locks.Down() {
		return
	}
	attempts, err := t.locks.Try(ctx, locks.Request{Key: "sys/replica/" + t.replica, Meta: t.replica})
	if !t.locks.Failed(err) && attempts[0].Lease != nil {
		_ = t.locks.Release(ctx, attempts[0].Lease)
	}
}

// Owned is which stripes this replica decides as soon as they are due, sorted.
func (t *Triggers) Owned() []int {
	st := t.stripes
	st.mu.Lock()
	defer st.mu.Unlock()
	if t.locks.Replaced() {
		return st.mine
	}
	var owned []int
	for n, lease := range st.held {
		if lease.Check() == nil {
			owned = append(owned, n)
		}
	}
	slices.Sort(owned)
	return owned
}

// owns reports whether Owned has the stripe.
func (t *Triggers) owns(stripe int) bool {
	st := t.stripes
	st.mu.Lock()
	defer st.mu.Unlock()
	if t.locks.Replaced() {
		_, is := slices.BinarySearch(st.mine, stripe)
		return is
	}
	lease, held := st.held[stripe]
	return held && lease.Check() == nil
}

// Leave releases all stripes, in one call.
func (t *Triggers) Leave(ctx context.Context) {
	st := t.stripes
	st.mu.Lock()
	held := slices.Collect(maps.Values(st.held))
	clear(st.held)
	st.mine = nil
	st.mu.Unlock()
	if len(held) > 0 {
		_ = t.locks.Release(ctx, held...) // a lost lease is free already
	}
}
