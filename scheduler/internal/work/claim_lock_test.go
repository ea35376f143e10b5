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

// A claim waits for the pool's lock no longer than busyLimit, however the lock service answers; then the pool's row
// decides alone. A service that fails is away, and is not asked again for the same claim; a slow one is not away for
// that. A replica that must wait for its lock service claims nothing without its answer, and a replica that is told to
// stop claims nothing more.
func TestAClaimAndThePoolsLock(t *testing.T) {
	busy := []locks.Attempt{{Err: locks.ErrBusy}}
	hangs := func(ctx context.Context) ([]locks.Attempt, error) { <-ctx.Done(); return nil, ctx.Err() }
	fails := func(context.Context) ([]locks.Attempt, error) { return nil, locks.ErrUnavailable }
	lateBusy := func(context.Context) ([]locks.Attempt, error) { time.Sleep(busyLimit); return busy, nil }
	alwaysBusy := func(context.Context) ([]locks.Attempt, error) { return busy, nil }
	const never = -1
	for what, c := range map[string]struct {
		required  bool // while it is away nothing starts
		answer    func(context.Context) ([]locks.Attempt, error)
		held      time.Duration // by another replica
		down      bool          // the service is known to be away
		meanwhile bool          // that becomes known while it looks for work
		stop      time.Duration // it is told to stop; 0: it is not

		claims      time.Duration // when; never: not at all
		within      time.Duration // or so much later
		locked      bool          // it holds the lock meanwhile
		least, most int           // questions
		away        bool          // afterwards
	}{
		"free":                                {locked: true, least: 1, most: 1},
		"free, and it would wait":             {required: true, locked: true, least: 1, most: 1},
		"busy for a while":                    {held: 100 * time.Millisecond, claims: 100 * time.Millisecond, within: 3 * busyLimit / 4, locked: true, least: 3, most: 12},
		"busy":                                {held: time.Hour, claims: busyLimit, least: 5, most: 14},
		"busy, and it would wait":             {required: true, held: time.Hour, claims: busyLimit, least: 5, most: 14},
		"busy for as long as it waits":        {required: true, answer: lateBusy, claims: busyLimit, least: 1, most: 1},
		"it hangs":                            {answer: hangs, claims: busyLimit, least: 1, most: 1},
		"it hangs, and is waited for":         {required: true, answer: hangs, claims: never, least: 1, most: 1, away: true},
		"it fails":                            {answer: fails, least: 1, most: 1, away: true},
		"it fails, and is waited for":         {required: true, answer: fails, claims: never, least: 1, most: 1, away: true},
		"known to be away":                    {answer: fails, down: true, away: true},
		"known to be away, and is waited for": {required: true, answer: fails, down: true, claims: never, away: true},
		"it goes away, and comes back":        {required: true, meanwhile: true, locked: true, least: 1, most: 1},
		"it goes away":                        {required: true, answer: fails, meanwhile: true, claims: never, least: 1, most: 1, away: true},
		"told to stop while it hangs":         {answer: hangs, stop: busyLimit / 2, claims: never, least: 1, most: 1},
		"told to stop while it is busy":       {answer: alwaysBusy, stop: busyLimit / 2, claims: never, least: 3, most: 14},
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
				if claimed < c.claims || claimed > c.claims+c.within {
					t.Errorf("it claims after %v, want %v and %v at most", claimed, c.claims, c.within)
				}
				if want := c.locked || c.held > busyLimit; locked != want {
					t.Errorf("no other replica claims: %t", locked)
				}
				if n := len(lk.Asked); n < c.least || n > c.most {
					t.Errorf("the lock service is asked %d times, want %d to %d", n, c.least, c.most)
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
