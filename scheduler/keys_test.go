package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// keyedPool runs replicas of a pool with limits or an order by key, and enqueues tasks with these keys.
func keyedPool(t *testing.T, pool jobs.Pool, replicas int, takes time.Duration, keys ...string) (*clocked, *counting) {
	t.Helper()
	h, st := rated(t, pool, replicas, 0, takes)
	all := make([]jobs.NewTask, len(keys))
	for i, key := range keys {
		all[i] = jobs.NewTask{Pool: "p", Key: key}
	}
	if _, err := st.Store.Enqueue(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
	return h, st
}

// While a key is full, the replica whose task with it ends starts the next one at once, and the others send no claims.
func TestAPoolWithAFullKey(t *testing.T) {
	for name, pool := range map[string]jobs.Pool{
		"max_running": {PerKey: jobs.KeyLimits{MaxRunning: 1}},
		"order":       {Order: jobs.OrderKey},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, st := keyedPool(t, pool, 2, 5*time.Second, "a", "a", "a", "a", "a", "a", "b", "", "a", "a")
				time.Sleep(3 * time.Second)
				st.reset()
				time.Sleep(time.Minute)
				got := h.began()
				if len(got) != 10 {
					t.Fatalf("began after %v", got)
				}
				for i, at := range got[3:] {
					if want := got[0] + time.Duration(i+1)*5*time.Second; at < want || at > want+50*time.Millisecond {
						t.Errorf("task %d began after %v, want %v", i+3, at, want)
					}
				}
				st.mu.Lock()
				defer st.mu.Unlock()
				if st.claims > 40 || st.polls > 300 {
					t.Errorf("%d claims, %d polls", st.claims, st.polls)
				}
			})
		})
	}
}

// The tasks with one key start at the moments at which its rate lets them, and those without a key at once.
func TestAPoolWithARateByKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, st := keyedPool(t, jobs.Pool{PerKey: jobs.KeyLimits{Rate: jobs.Rate{Count: 1, Per: 10 * time.Second}, Burst: 2}}, 2, 0, "a", "a", "a", "a", "a", "b", "")
		time.Sleep(3 * time.Second)
		st.reset()
		time.Sleep(time.Minute)
		got := h.began()
		if len(got) != 7 || got[3]-got[0] > 10*time.Millisecond {
			t.Fatalf("began after %v", got)
		}
		for i, at := range got[4:] {
			if want := got[0] + time.Duration(i+1)*10*time.Second; at < want || at > want+50*time.Millisecond {
				t.Errorf("task %d began after %v, want %v", i+4, at, want)
			}
		}
		st.mu.Lock()
		defer st.mu.Unlock()
		if st.claims > 12 || st.polls > 320 {
			t.Errorf("%d claims, %d polls", st.claims, st.polls)
		}
	})
}

// A limit by key that is set, raised or removed at the store, as another replica does, holds here within a second: what waits starts then, and
// what runs goes on.
func TestALimitByKeyThatIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, st := rated(t, jobs.Pool{}, 2, 0, 20*time.Minute)
		began := func(when string, limit *wire.PoolLimits, want int) {
			t.Helper()
			if err := st.Store.LimitPool(t.Context(), "p", "ann", limit); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if got := len(h.began()); got != want {
				t.Errorf("%s: %d run, want %d", when, got, want)
			}
			time.Sleep(time.Minute)
			if got := len(h.began()); got != want {
				t.Errorf("a minute after that, %s: %d run, want %d", when, got, want)
			}
		}
		began("no task", &wire.PoolLimits{PerKey: &wire.LimitFields{MaxRunning: new(1)}}, 0)
		for range 8 {
			if _, err := st.Store.Enqueue(t.Context(), jobs.NewTask{Pool: "p", Key: "a"}); err != nil {
				t.Fatal(err)
			}
		}
		began("a rate of the pool beside it", &wire.PoolLimits{Rate: &jobs.Rate{Count: 1000, Per: time.Second}}, 1)
		began("it is raised", &wire.PoolLimits{PerKey: &wire.LimitFields{MaxRunning: new(4)}}, 4)
		began("it is lowered", &wire.PoolLimits{PerKey: &wire.LimitFields{MaxRunning: new(2)}}, 4)
		began("it is removed", &wire.PoolLimits{PerKey: &wire.LimitFields{MaxRunning: new(0)}}, 8)
		time.Sleep(25 * time.Minute) // they end
	})
}
