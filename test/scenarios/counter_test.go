package scenarios

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockstep-scheduler/lockstep/locks"
)

// cell is a number without protection of its own: who reads it and writes it back loses what others wrote in between. It is
// atomic only so that the race detector, which does not see a lock of a server, has nothing to say.
type cell struct{ n atomic.Int64 }

func (c *cell) add(n int64) {
	v := c.n.Load()
	runtime.Gosched() // the others go on
	c.n.Store(v + n)
}

// crowd runs clients at once, and returns when all are done.
func crowd(t *testing.T, n int, client func(i int) error) {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed []error
	for i := range n {
		all.Go(func() {
			if err := client(i); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, fmt.Errorf("client %d: %w", i, err))
			}
		})
	}
	all.Wait()
	if len(failed) > 0 {
		t.Fatalf("%d of %d clients failed: %v", len(failed), n, errors.Join(failed[:min(3, len(failed))]...))
	}
}

// 1,000 clients increment a number that nothing else protects. It is 1,000 then. With a shared key they are the writers among
// readers who never see a write half done; of a semaphore at most as many are inside as its limit says.
func TestCounter(t *testing.T) {
	each(t, []kind{exclusive, shared, semaphore, reentrant, several}, func(t *testing.T, s site) {
		n := s.clients(1000)
		ls := s.crowded(t)
		count := map[string]func(*testing.T, []*locks.Locker, int){
			exclusive.name: countAlone, shared.name: countAmongReaders, semaphore.name: countInside,
			reentrant.name: countTwiceIn, several.name: countTwoOfThree,
		}[s.kind.name]
		count(t, ls, n)
		shown.held(t, s, "TestCounter", "")
	})
}

func countAlone(t *testing.T, ls []*locks.Locker, n int) {
	t.Helper()
	var counter cell
	crowd(t, n, func(i int) error {
		return holding(t, ls[i%len(ls)], func() error { counter.add(1); return nil }, locks.Request{Key: "counter"})
	})
	if got := counter.n.Load(); got != int64(n) {
		t.Errorf("%d clients counted to %d", n, got)
	}
}

// holding runs do while l holds the keys.
func holding(t *testing.T, l *locks.Locker, do func() error, requests ...locks.Request) error {
	leases, err := l.Acquire(t.Context(), requests...)
	if err != nil {
		return err
	}
	return errors.Join(do(), l.Release(t.Context(), leases...))
}

// Every tenth client is a reader, beside the n that write.
func countAmongReaders(t *testing.T, ls []*locks.Locker, n int) {
	t.Helper()
	var left, right cell
	crowd(t, n+n/10, func(i int) error {
		if i%11 == 10 {
			return holding(t, ls[i%len(ls)], func() error {
				l := left.n.Load()
				runtime.Gosched()
				if r := right.n.Load(); l != r {
					return fmt.Errorf("a reader sees %d and %d, which are written together", l, r)
				}
				return nil
			}, locks.Request{Key: "counter", Mode: locks.Shared})
		}
		return holding(t, ls[i%len(ls)], func() error { left.add(1); right.add(1); return nil }, locks.Request{Key: "counter"})
	})
	if l, r := left.n.Load(), right.n.Load(); l != int64(n) || r != int64(n) {
		t.Errorf("%d writers counted to %d and %d", n, l, r)
	}
}

// The first of all wait inside for each other, so as many as the limit are there at once.
func countInside(t *testing.T, ls []*locks.Locker, n int) {
	t.Helper()
	var inside, most, entered atomic.Int64
	full := make(chan struct{})
	crowd(t, n, func(i int) error {
		return holding(t, ls[i%len(ls)], func() error {
			now := inside.Add(1)
			defer inside.Add(-1)
			for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() { // others count, too
			}
			if entered.Add(1) == limit {
				close(full)
			}
			select {
			case <-full:
			case <-t.Context().Done():
			}
			return nil
		}, locks.Request{Key: "counter", Limit: limit})
	})
	if most.Load() != limit || entered.Load() != int64(n) {
		t.Errorf("%d of %d clients came in, at most %d at once; the limit is %d", entered.Load(), n, most.Load(), limit)
	}
}

// Each client asks a second time for what it holds.
func countTwiceIn(t *testing.T, ls []*locks.Locker, n int) {
	t.Helper()
	var counter cell
	crowd(t, n, func(i int) error {
		mine := locks.Request{Key: "counter", Owner: fmt.Sprint("client ", i)}
		return holding(t, ls[i%len(ls)], func() error {
			v := counter.n.Load()
			if err := holding(t, ls[i%len(ls)], func() error { return nil }, mine); err != nil {
				return err
			}
			counter.n.Store(v + 1) // the inner release has freed nothing
			return nil
		}, mine)
	})
	if got := counter.n.Load(); got != int64(n) {
		t.Errorf("%d clients counted to %d", n, got)
	}
}

// Each client increments two of three numbers, and asks for their keys in the order of its choice.
func countTwoOfThree(t *testing.T, ls []*locks.Locker, n int) {
	t.Helper()
	var counters [3]cell
	key := func(i int) locks.Request { return locks.Request{Key: fmt.Sprint("counter-", i%3)} }
	crowd(t, n, func(i int) error {
		return holding(t, ls[i%len(ls)], func() error {
			counters[i%3].add(1)
			counters[(i+1)%3].add(1)
			return nil
		}, key(i), key(i+1))
	})
	if got := counters[0].n.Load() + counters[1].n.Load() + counters[2].n.Load(); got != 2*int64(n) {
		t.Errorf("%d clients that count twice counted to %d", n, got)
	}
}
