package embedding

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func onRedis(ctx context.Context, st *store.Store, rdb *redis.Client, work jobs.Set) (*scheduler.Scheduler, *locks.Locker, error) {
	namespace, err := st.Namespace(ctx) // keeps programs with other stores apart on one Redis
	if err != nil {
		return nil, nil, err
	}
	locker, err := locks.New(redislock.New(rdb), locks.Options{Namespace: namespace}) // Close it after Run
	if err != nil {
		return nil, nil, err
	}
	replica, err := scheduler.New(st, locker, work, scheduler.Options{
		LockService: "redis at " + rdb.Options().Addr, // replicas that name another one are refused
	})
	return replica, locker, err
}

// two sets of one program: each has tables of its own
func twoStores(db *sql.DB) (mail, reports *store.Store, err error) {
	if mail, err = store.New(db, store.SQLite, store.Options{Prefix: "mail_"}); err != nil {
		return nil, nil, err
	}
	reports, err = store.New(db, store.SQLite, store.Options{Prefix: "reports_"})
	return mail, reports, err
}

// counter counts runs per replica.
type counter struct {
	mu   sync.Mutex
	done map[string]int
}

func (c *counter) set(name string) jobs.Set {
	return jobs.Set{Pools: map[string]jobs.Pool{"work": {Handler: jobs.Func(func(_ context.Context, t jobs.Task, n int) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.done[fmt.Sprint(name, " ", n)]++
		return nil
	})}}}
}

// Two replicas of one set in one process share the work of one store; two sets on two stores in one
// database, over one Redis, do not meet.
func TestSeveralInOneProcess(t *testing.T) {
	db, _ := database(t)
	mail, reports, err := twoStores(db)
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: servers.Redis(t)})
	t.Cleanup(func() { _ = rdb.Close() })
	c := &counter{done: map[string]int{}}
	for name, st := range map[string]*store.Store{"mail": mail, "reports": reports} {
		if err := st.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			replica, locker, err := onRedis(t.Context(), st, rdb, c.set(name))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				if err := locker.Close(ctx); err != nil {
					t.Error(err)
				}
			})
			start(t, replica)
		}
		if err := st.AddPools(t.Context(), map[string]jobs.Pool{"work": {}}); err != nil {
			t.Fatal(err)
		}
	}
	var tasks []jobs.NewTask
	for n := range 50 {
		tasks = append(tasks, jobs.NewTask{Pool: "work", Payload: n})
	}
	for _, st := range []*store.Store{mail, reports} {
		added, err := st.Enqueue(t.Context(), tasks...)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range added {
			ended(t, st, a.Task.ID)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for what, n := range c.done {
		if n != 1 {
			t.Errorf("%s was done %d times", what, n)
		}
	}
	if len(c.done) != 100 {
		t.Errorf("%d of 100 were done", len(c.done))
	}
}

// With two sets on one store the one that was loaded last governs, as in a rolling update.
func TestTwoSetsOnOneStore(t *testing.T) {
	_, st := database(t)
	c := &counter{done: map[string]int{}}
	old, err := scheduler.New(st, nil, jobs.Set{Pools: map[string]jobs.Pool{"old": c.set("old").Pools["work"]}}, scheduler.Options{})
	if err != nil {
		t.Fatal(err)
	}
	start(t, old)
	waitFor(t, st, "old")
	next, err := scheduler.New(st, nil, c.set("next"), scheduler.Options{})
	if err != nil {
		t.Fatal(err)
	}
	start(t, next)
	waitFor(t, st, "work")
	if _, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "old", Payload: 1}); err == nil {
		t.Error("a pool that the newer set does not have took a task")
	}
}

// waitFor waits until a replica has loaded the pool.
func waitFor(t *testing.T, st *store.Store, pool string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		all, err := st.Sides().API.Pools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if p.Name == pool && p.Hash != "" {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("nobody loaded %s", pool)
		}
	}
}
