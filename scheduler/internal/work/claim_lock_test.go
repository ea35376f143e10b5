package work

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// A claim waits for the pool's lock in the queue of the lock service, no longer than busyLimit, and a claim's time for each other
// replica; then the pool's row decides alone. A service that hangs is not away for that. A replica that must wait for its lock
// service claims nothing without its answer, and a replica that is told to stop claims nothing more.
func TestAClaimAndThePoolsLock(t *testing.T) {
	busy := []locks.Attempt{{Err: locks.ErrBusy}}
	hangs := func(ctx context.Context) ([]locks.Attempt, error) { <-ctx.Done(); return nil, locks.ErrUnknown }
	fails := func(context.Context) ([]locks.Attempt, error) { return nil, locks.ErrUnavailable }
	alwaysBusy := func(context.Context) ([]locks.Attempt, error) { return busy, nil }
	const never = -1
	for what, c := range map[string]struct {
		required  bool // while it is away nothing starts
		answer    func(context.Context) ([]locks.Attempt, error)
		held      time.Duration // by another replica
		others    int           // replicas
		took      time.Duration // the claim before
		down      bool          // the service is known to be away
		meanwhile bool          // that becomes known while it looks for work
		stop      time.Duration // it is told to stop; 0: it is not

		claims time.Duration // when; never: not at all
		locked bool          // it holds the lock meanwhile
		asked  int
		away   bool // afterwards
	}{
		"free":                                 {locked: true, asked: 1},
		"free, and it would wait":              {required: true, locked: true, asked: 1},
		"busy for a while":                     {held: 100 * time.Millisecond, claims: 100 * time.Millisecond, locked: true, asked: 1},
		"busy":                                 {held: time.Hour, claims: busyLimit, asked: 1},
		"busy, and it would wait":              {required: true, held: time.Hour, claims: busyLimit, asked: 1},
		"busy, after a long claim":             {held: time.Hour, took: time.Second, claims: busyLimit, asked: 1},
		"busy, as others take turns":           {held: time.Hour, others: 3, took: 50 * time.Millisecond, claims: busyLimit + 150*time.Millisecond, asked: 1},
		"busy, as many others take long turns": {held: time.Hour, others: 30, took: 50 * time.Millisecond, claims: turnsLimit, asked: 1},
		"it hangs":                             {answer: hangs, claims: busyLimit, asked: 1},
		"it hangs, and is waited for":          {required: true, answer: hangs, claims: never, asked: 1, away: true},
		"it fails":                             {answer: fails, claims: busyLimit, asked: 1},
		"it fails, and is waited for":          {required: true, answer: fails, claims: never, asked: 1, away: true},
		"known to be away":                     {answer: fails, down: true, away: true},
		"known to be away, and is waited for":  {required: true, answer: fails, down: true, claims: never, away: true},
		"it goes away, and comes back":         {required: true, meanwhile: true, locked: true, asked: 1},
		"it goes away":                         {required: true, answer: fails, meanwhile: true, claims: never, asked: 1, away: true},
		"told to stop while it hangs":          {answer: hangs, stop: busyLimit / 2, claims: never, asked: 1},
		"told to stop while it is busy":        {answer: alwaysBusy, stop: busyLimit / 2, claims: never, asked: 1},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := memlock.New()
				holder, other := replicatest.LockerOf(t, service), replicatest.LockerOf(t, service)
				f, st := fed(t, ledger.Seen{Work: &ledger.Window{}}, took(1, false))
				held(f)
				f.skipJobs = []string{"x"} // so that it looks first
				m := &tries{Observer: unmeasured{}}
				lk := &replicatest.Scripted{Locks: replicatest.LockerOf(t, service), Answer: c.answer}
				f.executor.locks.Locks, f.executor.locks.Required, f.executor.metrics = lk, c.required, m
				f.executor.member, f.last = others{member: f.executor.member, n: c.others}, c.took
				if c.down {
					f.executor.locks.Failed(replicatest.ErrRefused)
				}
				if c.held > 0 {
					got, err := holder.TryAcquire(syskeys.Allow(t.Context()), locks.Request{Key: "sys/pool/p"})
					if err != nil || got[0].Lease == nil {
						t.Fatal(err, got)
					}
					time.AfterFunc(c.held, func() { _ = holder.Release(context.Background(), got[0].Lease) })
				}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				if c.stop > 0 {
					time.AfterFunc(c.stop, stop)
				}
				free := func() bool {
					got, err := other.TryAcquire(syskeys.Allow(t.Context()), locks.Request{Key: "sys/pool/p"})
					if err != nil {
						t.Fatal(err)
					}
					if got[0].Lease == nil {
						return false
					}
					if err := other.Release(t.Context(), got[0].Lease); err != nil {
						t.Fatal(err)
					}
					return true
				}
				began, claimed := time.Now(), time.Duration(never)
				locked := false
				st.on = func() {
					if st.asked[len(st.asked)-1] == "look" {
						if c.meanwhile {
							f.executor.locks.Failed(replicatest.ErrRefused)
						}
						return
					}
					claimed, locked = time.Since(began), !free()
				}
				f.claim(ctx)
				if claimed != c.claims {
					t.Errorf("it claims after %v, not %v", claimed, c.claims)
				}
				if c.claims != never && st.last.LockTook != c.claims {
					t.Errorf("it says that the lock took %v, not %v", st.last.LockTook, c.claims)
				}
				if want := c.locked || c.held > busyLimit; locked != want {
					t.Errorf("no other replica claims: %t", locked)
				}
				if n := len(lk.Asked); n != c.asked || lk.Waits != n {
					t.Errorf("the lock service is asked %d times, %d of them with a wait; want %d, all with one", n, lk.Waits, c.asked)
				}
				for _, r := range lk.Asked {
					if r.Key != "sys/pool/p" || r.Meta != "a" {
						t.Errorf("asked for %+v", r)
					}
				}
				if f.executor.locks.Down() != c.away {
					t.Errorf("the lock service is away: %t", !c.away)
				}
				want := ledger.ClaimTook
				if c.claims == never {
					want = ledger.ClaimFailed
				}
				if c.claims == never && c.down {
					if len(m.all) > 0 {
						t.Errorf("metrics are told %q", m.all)
					}
				} else if len(m.all) != 1 || m.all[0] != want {
					t.Errorf("metrics are told %q, not %q", m.all, want)
				} else if m.last.Pool != "p" || m.last.LockBackend != "scripted" || m.last.Took < claimed || (m.last.Tasks == 1) != (want == ledger.ClaimTook) {
					t.Errorf("metrics are told %+v", m.last)
				}
				if c.held <= busyLimit && !free() {
					t.Error("the lock is not free afterwards")
				}
				f.executor.register.unqueue("p", 0)
				f.executor.register.mu.Lock()
				defer f.executor.register.mu.Unlock()
				if len(f.executor.register.claims) > 0 {
					t.Error("the claim is still under way")
				}
			})
		})
	}
}

// others is the membership of a replica that has so many beside it.
type others struct {
	member
	n int
}

func (o others) Others() int { return o.n }

// A replica that has waited for the claim lock in vain only tries it for vainFor: its holder, or one before this replica in the queue, may have
// ended. Once it has the lock, it waits for it again. A try that is refused is how it learns that the service is away.
func TestALockThatWasWaitedForInVainIsTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		holder := replicatest.LockerOf(t, service)
		f, _ := fed(t, took(1, false), took(1, false), took(1, false), took(1, false), took(1, false), took(1, false), took(1, false))
		held(f)
		lk := &replicatest.Scripted{Locks: replicatest.LockerOf(t, service)}
		f.executor.locks.Locks = lk
		got, err := holder.TryAcquire(syskeys.Allow(t.Context()), locks.Request{Key: "sys/pool/p"})
		if err != nil || got[0].Lease == nil {
			t.Fatal(err, got)
		}
		claim := func(took time.Duration, waits bool) {
			t.Helper()
			began, before := time.Now(), lk.Waits
			f.claim(t.Context())
			f.executor.register.unqueue("p", 0)
			synctest.Wait() // a place in the queue is given back in the background
			if after := time.Since(began); after != took || (lk.Waits > before) != waits {
				t.Errorf("it claims after %v, not %v; it waits: %t", after, took, lk.Waits > before)
			}
		}
		claim(busyLimit, true)
		claim(0, false)
		time.Sleep(vainFor - time.Millisecond)
		claim(0, false)
		time.Sleep(time.Millisecond)
		claim(busyLimit, true)
		if err := holder.Release(t.Context(), got[0].Lease); err != nil {
			t.Fatal(err)
		}
		claim(0, false) // tried, and got
		claim(0, true)
		lk.Answer = func(context.Context) ([]locks.Attempt, error) { return nil, locks.ErrUnavailable }
		claim(busyLimit, true)
		if f.executor.locks.Down() {
			t.Error("the service is away, though it may have been slow")
		}
		claim(0, false)
		if !f.executor.locks.Down() {
			t.Error("the service is not away, though it refuses a try")
		}
	})
}

// Workers that became free while a claim waited for its lock get tasks by this claim.
func TestAClaimTakesTasksForWorkersThatBecameFreeMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		holder := replicatest.LockerOf(t, service)
		f, st := fed(t)
		f.executor.slots.take("p", 3)
		f.executor.locks.Locks = replicatest.LockerOf(t, service)
		got, err := holder.TryAcquire(syskeys.Allow(t.Context()), locks.Request{Key: "sys/pool/p"})
		if err != nil || got[0].Lease == nil {
			t.Fatal(err, got)
		}
		before := f.wanted()
		time.AfterFunc(busyLimit/2, func() {
			f.executor.slots.give("p", 2)
			_ = holder.Release(context.Background(), got[0].Lease)
		})
		f.claim(t.Context())
		if before != 1 || st.wanted != 3 {
			t.Errorf("it claims %d tasks; it wanted %d before it waited, and has 3 free workers now", st.wanted, before)
		}
	})
}

// A claim that was sent ends when the replica is told to stop, and releases the lock.
func TestAClaimThatWasSentGivesItsLockBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		other := replicatest.LockerOf(t, service)
		f, st := fed(t, jobs.ErrUnavailable)
		f.executor.locks.Locks = replicatest.LockerOf(t, service)
		ctx, stop := context.WithCancel(t.Context())
		st.on = stop
		f.claim(ctx)
		if st.cut != nil {
			t.Errorf("the claim is cut short: %v", st.cut)
		}
		if got, err := other.TryAcquire(syskeys.Allow(t.Context()), locks.Request{Key: "sys/pool/p"}); err != nil || got[0].Lease == nil {
			t.Errorf("the lock is not free: %v, %+v", err, got)
		}
	})
}
