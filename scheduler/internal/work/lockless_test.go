package work

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// called is a store that counts calls.
type called struct {
	*memstore.Store
	claims, waits atomic.Int64
}

func (c *called) Claim(ctx context.Context, claim ledger.Claim) (ledger.Claimed, error) {
	c.claims.Add(1)
	return c.Store.Claim(ctx, claim)
}

func (c *called) FirstWaits(ctx context.Context, session string, skip []string, limit int) ([]ledger.Wait, time.Time, error) {
	c.waits.Add(1)
	return c.Store.FirstWaits(ctx, session, skip, limit)
}

// Tasks without locks take as many claims where another job has locks, and their locks are not tried. Where nothing has locks, the
// store is not asked for tasks that wait for some.
func TestTasksWithoutLocksCostNothingMore(t *testing.T) {
	claims := map[bool]int64{}
	for _, locked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			st := &called{Store: &memstore.Store{Database: memstore.New()}}
			set := jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: replicatest.Nothing{}, Workers: 4}}}
			lk := &triedKeys{Locker: replicatest.LockerOf(t, memlock.New())}
			if locked {
				set.Jobs = map[string]jobs.Job{"j": {Handler: replicatest.Nothing{}, Locks: []jobs.Lock{{Key: "a"}}}}
			}
			runs(t, st, set, Options{ID: "a", JobLocks: lk})
			time.Sleep(time.Second) // it has joined
			for range 5 {
				if _, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "p"}, jobs.NewTask{Pool: "p"}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
			}
			claims[locked] = st.claims.Load()
			if waits := st.waits.Load(); (waits > 0) != locked || len(lk.keys) > 0 {
				t.Errorf("with locks %t: asked %d times for what waits, tried %v", locked, waits, lk.keys)
			}
		})
	}
	if claims[false] < 5 || claims[true] != claims[false] {
		t.Errorf("%d claims where nothing has locks, %d where another job has some", claims[false], claims[true])
	}
}
