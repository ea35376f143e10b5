package scheduler

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// A task that nothing lets start ends within a second of its expires_at, whatever it waits for, and with one replica as with three. What starts
// in time goes on.
func TestTasksExpireOnTime(t *testing.T) {
	const in = 7 * time.Second
	for _, replicas := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			s := newLocked(t)
			long := newKeyed(time.Minute)
			held := s.hold("a")
			set := jobs.Set{Pools: map[string]jobs.Pool{
				"paused": {Handler: long},
				"full":   {Handler: long, MaxRunning: 1},
				"keys":   {Handler: long, Order: jobs.OrderKey},
				"kinds":  {Kinds: map[string]jobs.Handler{"known": long}},
				"locks":  {Handler: long, Locks: []jobs.Lock{{Key: "a"}}},
				"later":  {Handler: long},
			}}
			s.start(replicas, set)
			if err := s.st().PausePool(t.Context(), "paused", "", new(true)); err != nil {
				t.Fatal(err)
			}
			expires := time.Now().Add(in)
			enqueue := func(n jobs.NewTask) string {
				added, err := s.st().Enqueue(t.Context(), n)
				if err != nil {
					t.Fatal(err)
				}
				return added[0].ID
			}
			running := []string{
				enqueue(jobs.NewTask{Pool: "full", ExpiresAt: expires}), enqueue(jobs.NewTask{Pool: "keys", Key: "k", ExpiresAt: expires}),
				enqueue(jobs.NewTask{Pool: "later", RunAt: expires.Add(-time.Second), ExpiresAt: expires}),
			}
			time.Sleep(time.Second)
			waiting := []string{
				enqueue(jobs.NewTask{Pool: "paused", ExpiresAt: expires}), enqueue(jobs.NewTask{Pool: "full", ExpiresAt: expires}),
				enqueue(jobs.NewTask{Pool: "keys", Key: "k", ExpiresAt: expires}), enqueue(jobs.NewTask{Pool: "locks", ExpiresAt: expires}),
				enqueue(jobs.NewTask{Pool: "kinds", Kind: "unknown", Force: true, ExpiresAt: expires}),
			}
			time.Sleep(time.Until(expires) - time.Millisecond)
			for _, id := range waiting {
				if task := s.task(id); task.State != jobs.StatePending {
					t.Errorf("ended early: %+v", task)
				}
			}
			time.Sleep(500 * time.Millisecond)
			for _, id := range waiting {
				task := s.task(id)
				if task.State != jobs.StateCancelled || task.ReasonCode != reason.Expired || task.Attempt != 0 || task.FinishedAt.Before(expires) {
					t.Errorf("%+v", task)
				}
			}
			for _, id := range running {
				if task := s.task(id); task.State != jobs.StateRunning {
					t.Errorf("started in time: %+v", task)
				}
			}
			s.release(held...)
			s.stop()
		})
	}
}

// Tasks expire while the lock service is away and nothing starts for that.
func TestTasksExpireWhileNothingStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLocked(t)
		s.whenDown, s.ways = DownWait, []*replicatest.Cut{}
		s.start(1, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: newKeyed(time.Minute), Locks: []jobs.Lock{{Key: "a"}}}}})
		s.ways[0].Off.Store(true)
		time.Sleep(30 * time.Second) // its session there is over
		added, err := s.st().Enqueue(t.Context(), jobs.NewTask{Pool: "p", ExpiresAt: time.Now().Add(3 * time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		if task := s.task(added[0].ID); task.ReasonCode != reason.Expired {
			t.Errorf("while the lock service is away: %+v", task)
		}
		s.ways[0].Off.Store(false)
		s.stop()
	})
}

// Tasks expire while the only replica drains.
func TestTasksExpireInADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &memstore.Store{Database: memstore.New()}
		s, err := newOn(st, nil, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: newKeyed(10 * time.Second)}}}, Options{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(2 * time.Second)
		for _, n := range []jobs.NewTask{{Pool: "p"}, {Pool: "p", ExpiresAt: time.Now().Add(3 * time.Second)}} {
			added, err := st.Enqueue(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			if n.ExpiresAt.IsZero() {
				time.Sleep(time.Second)
				stop()
				synctest.Wait()
				continue
			}
			time.Sleep(4 * time.Second)
			if task, _, err := st.Task(t.Context(), added[0].ID); err != nil || task.ReasonCode != reason.Expired {
				t.Errorf("%+v, %v", task, err)
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
