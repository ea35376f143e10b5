package scheduler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// Tasks with an exclusive lock run one after the other on all replicas, in the order of the store. Their tokens grow.
func TestExclusiveLocksOfTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newLocked(t), newKeyed(300*time.Millisecond)
		s.start(3, lockedPool(h, 0, jobs.Lock{Key: "a"}))
		ids := s.enqueue(make([]any, 20)...)
		for _, task := range s.ended(time.Minute, ids...) {
			if task.State != jobs.StateSucceeded || task.Attempt != 1 {
				t.Errorf("task %s: %s after %d attempts: %s %s", task.ID, task.State, task.Attempt, task.Reason, task.Error)
			}
		}
		if h.mostOf("a") != 1 {
			t.Errorf("%d held the lock at once", h.mostOf("a"))
		}
		if began := h.began(); !slices.Equal(began, ids) {
			t.Fatalf("started in the order\n%v, enqueued as\n%v", began, ids)
		}
		tokens := h.tokensOf("a")
		if len(tokens) != len(ids) || !slices.IsSorted(tokens) || len(slices.Compact(slices.Clone(tokens))) != len(ids) {
			t.Errorf("tokens %v", tokens)
		}
		s.stop()
		if _, err := s.outside.Acquire(t.Context(), locks.Request{Key: "a"}); err != nil {
			t.Errorf("afterwards the lock is not free: %v", err)
		}
	})
}

// At most so many tasks hold a lock with a limit, and as many do; shared ones hold it together. None of them takes a worker that
// waits.
func TestLimitedAndSharedLocksOfTasks(t *testing.T) {
	for name, c := range map[string]struct {
		lock jobs.Lock
		most int
	}{
		"limit":  {jobs.Lock{Key: "a", Limit: 3}, 3},
		"shared": {jobs.Lock{Key: "a", Mode: jobs.LockShared}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, h := newLocked(t), newKeyed(2*time.Second)
				s.start(2, lockedPool(h, 0, c.lock))
				s.ended(time.Minute, s.enqueue(make([]any, 16)...)...)
				if got := h.mostOf("a"); got != c.most {
					t.Errorf("%d held the lock at once, want %d", got, c.most)
				}
				s.stop()
			})
		})
	}
}

// A key with a field of the payload is one lock for each value. A task without the field fails, and says so.
func TestKeysOfThePayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newLocked(t), newKeyed(time.Second)
		s.start(2, lockedPool(h, 0, jobs.Lock{Key: "tenant-{{.payload.tenant}}"}))
		wrong := s.enqueue(map[string]any{"other": 1}, nil)
		var all []any
		for i := range 12 {
			all = append(all, map[string]any{"tenant": i % 3})
		}
		began := time.Now()
		s.ended(time.Minute, s.enqueue(all...)...)
		if took := time.Since(began); took < 4*time.Second || took > 7*time.Second {
			t.Errorf("four tasks of each of three tenants took %v", took)
		}
		for i := range 3 {
			if got := h.mostOf(fmt.Sprintf("tenant-%d", i)); got != 1 {
				t.Errorf("%d tasks of a tenant at once", got)
			}
		}
		for _, task := range s.ended(time.Minute, wrong...) {
			if task.State != jobs.StateFailed || task.ReasonCode != reason.LockKey || !strings.Contains(task.Reason, "the payload has no tenant") || task.Attempt != 0 {
				t.Errorf("%s: %s, %s after %d attempts", task.State, task.ReasonCode, task.Reason, task.Attempt)
			}
		}
		s.stop()
	})
}

// A job waits for its lock, says who holds it, and has its slot meanwhile; other tasks of its pool pass it. After lock_wait its
// trigger is skipped.
func TestAJobWaitsForItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newLocked(t), newKeyed(100*time.Millisecond)
		set := lockedPool(h, 0)
		set.Jobs = map[string]jobs.Job{
			"j":     {Schedule: "@every 10s", Handler: h, Pool: "p", Locks: []jobs.Lock{{Key: "orders-db"}}, LockWait: 25 * time.Second},
			"other": {Schedule: "@every 10s", Handler: h, Pool: "p"},
		}
		set.Pools["p"] = jobs.Pool{Handler: h, Workers: 1}
		leases, err := s.outside.Acquire(t.Context(), locks.Request{Key: "orders-db", Meta: "the backup"})
		if err != nil {
			t.Fatal(err)
		}
		s.start(2, set)
		time.Sleep(15 * time.Second)
		rows := s.rows("tasks", "j")
		if len(rows) != 1 {
			t.Fatalf("open are %v", rows)
		}
		waits := s.task(rows[0]["id"].(string))
		if waits.State != jobs.StatePending || waits.ReasonCode != reason.WaitsForLock || waits.Reason != "waits for lock orders-db, held by the backup" {
			t.Fatalf("%+v", waits)
		}
		time.Sleep(30 * time.Second)
		waited := s.task(waits.ID)
		if waited.State != jobs.StateCancelled || waited.ReasonCode != reason.LockWait || !strings.Contains(waited.Reason, "held by the backup") {
			t.Errorf("%+v", waited)
		}
		if err := leases[0].Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		outcomes := map[string]int{}
		for _, r := range s.rows("triggers", "j") {
			outcomes[fmt.Sprint(r["outcome"], " ", r["reason_code"])]++
		}
		if outcomes["skipped lock_wait"] != 1 || outcomes["skipped slot_taken"] < 2 || outcomes["ran "] < 1 {
			t.Errorf("the triggers: %v", outcomes)
		}
		others := s.rows("triggers", "other")
		if len(others) < 5 {
			t.Errorf("%d triggers of the other job", len(others))
		}
		for _, r := range others {
			if r["outcome"] != string(jobs.Ran) {
				t.Errorf("the other job: %v", r)
			}
		}
		s.stop()
	})
}

// An attempt whose lock is released by force has failed at once, and is retried; with on_lost continue it is told, and goes on.
func TestALostLockEndsTheAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newLocked(t), newKeyed(20*time.Second)
		told := make(chan struct{})
		set := lockedPool(h, 0, jobs.Lock{Key: "a"})
		p := set.Pools["p"]
		p.Retries = jobs.Retries{Limit: 1, Backoff: time.Second}
		set.Pools["p"] = p
		set.Jobs = map[string]jobs.Job{"j": {
			Locks: []jobs.Lock{{Key: "b", OnLost: jobs.LockContinues}},
			Handler: replicatest.Function(func(ctx context.Context, task jobs.Task, _ io.Writer) error {
				select {
				case <-task.Locks[0].Done:
					close(told)
				case <-ctx.Done():
					return errors.New("stopped")
				}
				time.Sleep(time.Second)
				return ctx.Err()
			}),
			Schedule: "@every 1h",
		}}
		s.start(1, set)
		id := s.enqueue(nil)[0]
		time.Sleep(5 * time.Second)
		if task := s.task(id); task.State != jobs.StateRunning {
			t.Fatalf("%s %s", task.State, task.Reason)
		}
		for info, err := range s.outside.Inspect(t.Context(), "user/") {
			if err != nil || !strings.HasPrefix(info.Meta, "task "+id+", attempt 1 of pool p on a") {
				t.Errorf("the holder is %q, %v", info.Meta, err)
			}
			if _, err := s.outside.ForceRelease(t.Context(), info.Key, info.Token); err != nil {
				t.Fatal(err)
			}
		}
		task := s.ended(time.Minute, id)[0]
		_, attempts, err := s.st().Task(t.Context(), id)
		if err != nil || task.State != jobs.StateSucceeded || task.Attempt != 2 || attempts[0].ReasonCode != reason.LockLost || attempts[0].State != jobs.StateFailed {
			t.Errorf("%+v after %+v, %v", task, attempts, err)
		}
		if took := attempts[0].FinishedAt.Sub(attempts[0].StartedAt); took > 10*time.Second {
			t.Errorf("its first attempt took %v", took)
		}
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour + 2*time.Second)))
		for info := range s.outside.Inspect(t.Context(), "user/b") {
			if _, err := s.outside.ForceRelease(t.Context(), info.Key, info.Token); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		select {
		case <-told:
		default:
			t.Error("the handler was not told")
		}
		if rows := s.rows("triggers", "j"); len(rows) != 1 || rows[0]["result"] != string(jobs.StateSucceeded) {
			t.Errorf("%v", rows)
		}
		s.stop()
	})
}

// While the lock service is away nothing with locks starts, whatever when_down says, and what runs is ended before another one may have its
// lock. Other tasks go on.
func TestLockServiceAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newLocked(t), newKeyed(time.Minute)
		set := lockedPool(h, 0, jobs.Lock{Key: "a"})
		quick := newKeyed(0)
		set.Jobs = map[string]jobs.Job{"free": {Schedule: "@every 5s", Handler: quick}}
		s.start(2, set)
		running := s.enqueue(nil)[0]
		time.Sleep(3 * time.Second)
		s.service.Stop()
		stopped := time.Now()
		lost := s.ended(30*time.Second, running)[0]
		if lost.State != jobs.StateFailed || lost.ReasonCode != reason.LockLost || time.Since(stopped) > 10*time.Second {
			t.Errorf("after %v: %s %s %s", time.Since(stopped), lost.State, lost.ReasonCode, lost.Reason)
		}
		h.take(time.Second)
		waits := s.enqueue(nil, nil)
		before := quick.begun()
		time.Sleep(time.Minute)
		for _, id := range waits {
			if task := s.task(id); task.State != jobs.StatePending || task.ReasonCode != reason.WaitsForLock {
				t.Errorf("%s: %s", task.State, task.Reason)
			}
		}
		if n := quick.begun() - before; n < 10 {
			t.Errorf("%d runs without locks", n)
		}
		s.service.Start()
		for _, task := range s.ended(30*time.Second, waits...) {
			if task.State != jobs.StateSucceeded {
				t.Errorf("%s: %s", task.State, task.Reason)
			}
		}
		if h.mostOf("a") != 1 || h.toldLate() > 0 {
			t.Errorf("%d held the lock at once, %d were told after its loss", h.mostOf("a"), h.toldLate())
		}
		s.stop()
	})
}

// A task that is the first for its lock, or becomes it, says that the lock service is away: also with when_down: wait, where nobody
// queues it. Once the service is back it does not say so any more.
func TestWaitsSayThatTheLockServiceIsAway(t *testing.T) {
	for name, down := range map[string]WhenDown{"store": DownStore, "wait": DownWait} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, h := newLocked(t), newKeyed(time.Minute)
				s.whenDown = down
				s.start(2, lockedPool(h, 0, jobs.Lock{Key: "a"}))
				running := s.enqueue(nil)
				time.Sleep(3 * time.Second)
				waits := s.enqueue(nil, nil)
				time.Sleep(3 * time.Second)
				s.service.Stop()
				s.ended(30*time.Second, running...)
				time.Sleep(10 * time.Second)
				told := func(id string) {
					t.Helper()
					if task := s.task(id); task.Reason != ledger.LocksAway || task.ReasonCode != reason.WaitsForLock {
						t.Errorf("%s %s, want %q", task.ReasonCode, task.Reason, ledger.LocksAway)
					}
				}
				told(waits[0])
				if _, err := s.st().Cancel(t.Context(), waits[0], "me"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Second)
				told(waits[1])
				h.take(time.Second)
				s.service.Start()
				if _, err := s.outside.Acquire(t.Context(), locks.Request{Key: "a", Meta: "other"}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				if task := s.task(waits[1]); task.State != jobs.StatePending || task.Reason == ledger.LocksAway {
					t.Errorf("while the lock is held by another: %s %s", task.State, task.Reason)
				}
				if err := s.outside.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if task := s.ended(30*time.Second, waits[1])[0]; task.State != jobs.StateSucceeded {
					t.Errorf("%s: %s", task.State, task.Reason)
				}
				s.stop()
			})
		})
	}
}

// Where locks are, there is a lock service that can hold them.
func TestJobLocksNeedALockService(t *testing.T) {
	set := lockedPool(replicatest.Nothing{}, 0, jobs.Lock{Key: "a", Mode: jobs.LockShared}, jobs.Lock{Key: "b", Limit: 2})
	st := &memstore.Store{Database: memstore.New()}
	for name, c := range map[string]struct {
		lk   Locks
		o    Options
		says string
	}{
		"none":     {nil, Options{}, "pools.p.locks: there is no lock service"},
		"weak":     {nil, Options{JobLocks: weak{}}, "pools.p.locks[0].mode: the lock service, weak, has no shared locks"},
		"no limit": {nil, Options{JobLocks: weak{}}, "pools.p.locks[1].limit: the lock service, weak, has no limits"},
	} {
		if _, err := newOn(st, c.lk, set, c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := newOn(st, nil, lockedPool(replicatest.Nothing{}, 0), Options{}); err != nil {
		t.Error(err)
	}
}

// weak is a lock service with exclusive locks alone.
type weak struct{ replicatest.Mute }

func (weak) Caps() locks.Caps { return locks.Caps{Name: "weak"} }
