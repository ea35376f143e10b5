package scheduler

import (
	"context"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// byKey is a pool of one worker whose tasks lock what their payload says.
func byKey(h jobs.Handler) jobs.Set {
	set := lockedPool(h, 0, jobs.Lock{Key: "{{.payload.k}}"})
	p := set.Pools["p"]
	p.Workers = 1
	set.Pools["p"] = p
	return set
}

func of(keys ...string) (payloads []any) {
	for _, k := range keys {
		payloads = append(payloads, map[string]any{"k": k})
	}
	return payloads
}

// Tasks that wait for locks take no worker, and no place from another one: its lock becomes free, and it runs.
func TestWhatWaitsTakesNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newLocked(t), newKeyed(100*time.Millisecond)
		held := s.hold("a", "b", "c", "d")
		s.start(1, byKey(h))
		ids := s.enqueue(of("a", "b", "c", "d")...)
		time.Sleep(10 * time.Second)
		for _, id := range ids {
			if task := s.task(id); task.ReasonCode != reason.WaitsForLock {
				t.Errorf("%+v", task)
			}
		}
		s.release(held[3])
		s.ended(2*time.Second, ids[3])
		s.release(held[:3]...)
		s.ended(10*time.Second, ids...)
		s.stop()
	})
}

// What waits for a lock starts before later tasks do, also while they keep all workers busy.
func TestWhatWaitsIsNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newLocked(t), newKeyed(20*time.Millisecond)
		held := s.hold("a")
		s.start(2, byKey(h))
		all := []jobs.NewTask{{Pool: "p", Payload: of("a")[0]}}
		for i := range 1000 {
			all = append(all, jobs.NewTask{Pool: "p", Payload: map[string]any{"k": i}})
		}
		added, err := s.st().Enqueue(t.Context(), all...)
		if err != nil {
			t.Fatal(err)
		}
		first, last := added[0].Task.ID, added[1000].Task.ID
		time.Sleep(2 * time.Second)
		s.release(held...)
		s.ended(4*time.Second, first)
		if task := s.task(last); task.State != jobs.StatePending {
			t.Errorf("the last one of the others is %s", task.State)
		}
		s.stop()
	})
}

// A task that is first for a lock and whose pool is full holds nobody up: it waits for room, and the lock goes to the next.
func TestAFullPoolKeepsNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newLocked(t), newKeyed(100*time.Millisecond)
		set := byKey(h)
		p := set.Pools["p"]
		p.MaxRunning, p.Workers = 1, 4
		set.Pools["p"] = p
		wait := make(chan struct{})
		set.Jobs = map[string]jobs.Job{
			"long": {Schedule: "@every 1h", Pool: "p", Handler: replicatest.Function(func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
				select {
				case <-wait:
				case <-ctx.Done():
				}
				return nil
			})},
			"next": {Schedule: "@every 1h", Handler: h, Locks: []jobs.Lock{{Key: "a"}}, LockWait: time.Minute},
		}
		held := s.hold("a")
		s.start(1, set)
		first := s.enqueue(of("a")...)[0]
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour + 2*time.Second)))
		s.release(held...)
		time.Sleep(20 * time.Second)
		if rows := s.rows("triggers", "next"); len(rows) != 1 || rows[0]["outcome"] != string(jobs.Ran) {
			t.Errorf("the other one that wants the lock: %v", rows)
		}
		if task := s.task(first); task.State != jobs.StatePending || task.ReasonCode != "" {
			t.Errorf("%+v", task)
		}
		close(wait)
		s.ended(5*time.Second, first)
		s.stop()
	})
}

// A task waits no longer than its limit while the lock service is away, whatever WhenDown says.
func TestALimitEndsWhileTheLockServiceIsAway(t *testing.T) {
	for _, when := range []WhenDown{DownStore, DownWait} {
		t.Run(string(when), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, h := newLocked(t), newKeyed(time.Second)
				s.whenDown = when
				set := lockedPool(h, 0, jobs.Lock{Key: "a"})
				p := set.Pools["p"]
				p.LockWait = 20 * time.Second
				set.Pools["p"] = p
				s.hold("a")
				s.start(2, set)
				waits := s.enqueue(nil)[0]
				time.Sleep(5 * time.Second)
				s.service.Stop()
				defer s.service.Start()
				if task := s.ended(20*time.Second, waits)[0]; task.State != jobs.StateCancelled || task.ReasonCode != reason.LockWait {
					t.Errorf("%+v", task)
				}
				s.stop()
			})
		})
	}
}

// A task that comes later and is first in the order of claims gets the lock first: the place of the earlier one is given back.
func TestAMoreUrgentTaskIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newLocked(t), newKeyed(100*time.Millisecond)
		held := s.hold("a")
		s.start(2, lockedPool(h, 0, jobs.Lock{Key: "a"}))
		var ids []string
		for _, priority := range []int{0, 5} {
			added, err := s.st().Enqueue(t.Context(), jobs.NewTask{Pool: "p", Priority: priority})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, added[0].Task.ID)
			time.Sleep(5 * time.Second) // it is queued
		}
		s.release(held...)
		s.ended(10*time.Second, ids...)
		if want, began := []string{ids[1], ids[0]}, h.began(); !slices.Equal(began, want) {
			t.Errorf("started in the order %v, want %v", began, want)
		}
		s.stop()
	})
}

// A replica that cannot reach the lock service, alone, leaves what it waits for to the others.
func TestAReplicaWithoutTheLockServiceLeavesItsWaits(t *testing.T) {
	for _, when := range []WhenDown{DownStore, DownWait} {
		t.Run(string(when), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, h := newLocked(t), newKeyed(100*time.Millisecond)
				s.whenDown, s.ways = when, []*replicatest.Cut{}
				held := s.hold("a")
				s.start(2, lockedPool(h, 0, jobs.Lock{Key: "a"}))
				id := s.enqueue(nil)[0]
				time.Sleep(5 * time.Second)
				way := s.ways[s.queuer()]
				way.Off.Store(true)
				s.release(held...)
				s.ended(20*time.Second, id)
				way.Off.Store(false)
				s.stop()
			})
		})
	}
}

// The loss of a lock ends its attempt as soon as it is known.
func TestALossIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLocked(t)
		took := make(chan time.Duration, 1)
		set := lockedPool(replicatest.Function(func(ctx context.Context, task jobs.Task, _ io.Writer) error {
			<-task.Locks[0].Done
			lost := time.Now()
			<-ctx.Done()
			took <- time.Since(lost)
			return ctx.Err()
		}), 0, jobs.Lock{Key: "a"})
		s.start(1, set)
		id := s.enqueue(nil)[0]
		time.Sleep(time.Second)
		for info := range s.outside.Inspect(t.Context(), "user/a") {
			if _, err := s.outside.ForceRelease(t.Context(), info.Key, info.Token); err != nil {
				t.Fatal(err)
			}
		}
		if d := <-took; d > 0 {
			t.Errorf("told after %v", d)
		}
		if task := s.ended(5*time.Second, id)[0]; task.ReasonCode != reason.LockLost {
			t.Errorf("%+v", task)
		}
		s.stop()
	})
}

// A job that runs its pool's handler holds the pool's locks beside its own.
func TestAJobHoldsTheLocksOfItsPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newLocked(t), newKeyed(time.Second)
		set := lockedPool(h, 0, jobs.Lock{Key: "a"})
		set.Jobs = map[string]jobs.Job{"j": {Schedule: "@every 1s", Pool: "p", Locks: []jobs.Lock{{Key: "b"}}}}
		s.start(2, set)
		ids := s.enqueue(make([]any, 5)...)
		s.ended(30*time.Second, ids...)
		if h.mostOf(anyKey) != 1 || h.mostOf("a") != 1 || h.mostOf("b") != 1 {
			t.Errorf("held at once: a by %d, b by %d, %d in all", h.mostOf("a"), h.mostOf("b"), h.mostOf(anyKey))
		}
		if !slices.ContainsFunc(h.began(), func(id string) bool { return !slices.Contains(ids, id) }) {
			t.Error("the job has not run")
		}
		s.stop()
	})
}

// The ledger has for how long a run has waited for its locks, and 0 of one that was started without any.
func TestTheWaitForLocksIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newLocked(t), newKeyed(100*time.Millisecond)
		set := lockedPool(h, 0)
		set.Jobs = map[string]jobs.Job{
			"j":     {Schedule: "@every 10s", Handler: h, Pool: "p", Locks: []jobs.Lock{{Key: "orders-db"}}},
			"other": {Schedule: "@every 10s", Handler: h, Pool: "p"},
		}
		held := s.hold("orders-db")
		s.start(2, set)
		time.Sleep(10 * time.Second)
		var first map[string]any
		took := func(job string) time.Duration {
			t.Helper()
			rows := s.rows("triggers", job)
			if len(rows) == 0 {
				t.Fatalf("no due time of %s was decided", job)
			}
			first = rows[0]
			return time.Duration(first["lock_took"].(int64)) * time.Microsecond
		}
		if took("j") != 0 || first["started_at"].(int64) != 0 {
			t.Fatalf("it has started: %v", first)
		}
		time.Sleep(4 * time.Second)
		s.release(held...)
		time.Sleep(time.Second)
		// It is tried, and then waited for, from when the poll has seen the task.
		decided := func() time.Duration {
			return time.Duration(first["started_at"].(int64)-first["decided_at"].(int64)) * time.Microsecond
		}
		if waited := took("j"); waited > decided() || waited < decided()-2*time.Second || waited < 2*time.Second {
			t.Errorf("it waited %v for its lock, and started %v after it was decided: %v", waited, decided(), first)
		}
		if waited := took("other"); waited != 0 {
			t.Errorf("a run without locks waited %v for them", waited)
		}
		s.stop()
	})
}

// What waits for a lock while its replica takes another set begins under the definition by which it is claimed.
func TestWhatWaitsBeginsUnderTheNewDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, before, after := newLocked(t), newKeyed(time.Millisecond), &replicatest.Counting{}
		held := s.hold("a")
		r, err := newOn(s.st(), replicatest.LockerOf(t, s.service), byKey(before), Options{ID: "r"})
		if err != nil {
			t.Fatal(err)
		}
		defer replicasRun(t, r)()
		time.Sleep(2 * time.Second)
		id := s.enqueue(of("a")...)[0]
		time.Sleep(2 * time.Second)
		set := byKey(before)
		p := set.Pools["p"]
		p.Handler = after
		set.Pools["p"] = p
		if _, err := r.Replace(t.Context(), set, ReplaceOptions{}); err != nil {
			t.Fatal(err)
		}
		if task := s.task(id); task.ReasonCode != reason.WaitsForLock {
			t.Fatalf("%+v", task)
		}
		s.release(held...)
		s.ended(2*time.Second, id)
		if before.begun() != 0 || after.Count() != 1 {
			t.Errorf("it began %d times as the old definition says, and %d times as the new one does", before.begun(), after.Count())
		}
	})
}
