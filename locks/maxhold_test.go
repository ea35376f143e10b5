package locks_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
)

// A lease is given back after its MaxHold, and not before: the next one gets the key, and the holder is told why.
func TestMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, _ := pair(t)
		began := time.Now()
		lease := acquire(t, l, locks.Request{Key: "user/a", MaxHold: time.Minute})
		if d := lease.Deadline(); d.Sub(began) > 10*time.Second {
			t.Errorf("trusted until %v after the grant, and the session only for 10 s", d.Sub(began))
		}
		time.Sleep(time.Minute - 1)
		if err := lease.Check(); err != nil {
			t.Fatalf("a moment before its end: %v", err)
		}
		if d := lease.Deadline(); d.Sub(began) != time.Minute {
			t.Errorf("trusted until %v after the grant, want a minute", d.Sub(began))
		}
		wantBusy(t, other, "user/a")
		time.Sleep(1)
		wantErr(t, "check", lease.Check(), locks.ErrReleased)
		synctest.Wait()
		wantErr(t, "the context", context.Cause(lease.Context()), locks.ErrReleased)
		take(t, other, "user/a")
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("release: %v, want nil: it was released", err)
		}
		wantBusy(t, l, "user/a") // it frees nobody else's
	})
}

// Each lease of a hold has its own time: the key is freed with the last one.
func TestMaxHoldOfOneOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, _ := pair(t)
		short := acquire(t, l, locks.Request{Key: "user/a", Owner: "o", MaxHold: time.Second})
		long := acquire(t, l, locks.Request{Key: "user/a", Owner: "o", MaxHold: time.Minute})
		time.Sleep(2 * time.Second)
		wantErr(t, "check", short.Check(), locks.ErrReleased)
		if err := long.Check(); err != nil {
			t.Error(err)
		}
		wantBusy(t, other, "user/a")
		time.Sleep(time.Minute)
		take(t, other, "user/a")
	})
}

// The time of a lease that joins a hold begins when it joins.
func TestMaxHoldOfALaterLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, _ := pair(t)
		mine := locks.Request{Key: "user/a", Owner: "o", MaxHold: time.Second}
		first := acquire(t, l, mine)
		time.Sleep(time.Second / 2)
		second := acquire(t, l, mine)
		time.Sleep(time.Second - 1)
		wantErr(t, "the first one", first.Check(), locks.ErrReleased)
		if err := second.Check(); err != nil {
			t.Errorf("a moment before its end: %v", err)
		}
		wantBusy(t, other, "user/a")
		time.Sleep(1)
		wantErr(t, "the second one", second.Check(), locks.ErrReleased)
	})
}

// Do says that its time was over before fn returned.
func TestDoWithMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, _ := pair(t)
		err := locks.Do(t.Context(), l, locks.Request{Key: "user/a", MaxHold: time.Second}, func(ctx context.Context, _ locks.Token) error {
			<-ctx.Done()
			wantErr(t, "the context", context.Cause(ctx), locks.ErrReleased)
			return ctx.Err()
		})
		if !errors.Is(err, locks.ErrReleased) || !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want ErrReleased and fn's own", err)
		}
		synctest.Wait() // the key is given back beside fn, which may return first
		take(t, other, "user/a")
		if err := locks.Do(t.Context(), l, locks.Request{Key: "user/b", MaxHold: time.Second}, func(context.Context, locks.Token) error { return nil }); err != nil {
			t.Errorf("in time: %v", err)
		}
		if _, err := l.Acquire(t.Context(), locks.Request{Key: "user/c", MaxHold: -1}); err == nil {
			t.Error("a negative MaxHold was accepted")
		}
	})
}

// A lease that ends earlier leaves no goroutine behind, and Close joins those that wait.
func TestMaxHoldEndsWithTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		release(t, acquire(t, l, locks.Request{Key: "user/a", MaxHold: time.Hour}))
		lease := acquire(t, l, locks.Request{Key: "user/a", MaxHold: time.Hour})
		began := time.Now()
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "check", lease.Check(), locks.ErrReleased)
		if time.Since(began) > time.Second {
			t.Errorf("Close took %v", time.Since(began))
		}
		if n := f.count("release"); n != 1 {
			t.Errorf("%d releases, want 1: Close frees the other", n)
		}
	})
}

// The time begins when Acquire has all keys: a lease that waits for others does not use it up.
func TestMaxHoldBeginsWithTheLastKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		later := take(t, other, "user/b")
		time.AfterFunc(time.Minute, func() { release(t, later) })
		began := time.Now()
		leases, err := l.Acquire(t.Context(), locks.Request{Key: "user/a", MaxHold: 5 * time.Second}, locks.Request{Key: "user/b"})
		if took := time.Since(began); err != nil || took != time.Minute {
			t.Fatalf("%v after %v, want both after a minute", err, took)
		}
		if n := f.count("queue"); n != 1 {
			t.Errorf("%d calls for places, want 1", n)
		}
		time.Sleep(5*time.Second - 1)
		if err := leases[0].Check(); err != nil {
			t.Errorf("before its time is over: %v", err)
		}
		time.Sleep(1)
		wantErr(t, "check", leases[0].Check(), locks.ErrReleased)
		if err := leases[1].Check(); err != nil {
			t.Errorf("that without a MaxHold: %v", err)
		}
	})
}

// A MaxHold that is over at once is no reason to ask again and again.
func TestMaxHoldOfNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		lease := acquire(t, l, locks.Request{Key: "user/a", MaxHold: 1})
		synctest.Wait()
		time.Sleep(1)
		wantErr(t, "check", lease.Check(), locks.ErrReleased)
		if n := f.count("queue"); n != 1 {
			t.Errorf("%d calls, want 1", n)
		}
	})
}
