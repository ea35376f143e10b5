package locks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
)

func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, _ := pair(t)
		lease := take(t, l, "user/a")
		if lease.Key() != "user/a" || lease.Token() <= 0 || lease.Context().Err() != nil {
			t.Errorf("key %s, token %d, context %v", lease.Key(), lease.Token(), lease.Context().Err())
		}
		for range 3 {
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("release: %v", err)
			}
		}
		endsAfter(t, lease, locks.ErrReleased, 0, 0)
		next := take(t, other, "user/a")
		if err := lease.Release(t.Context()); err != nil || next.Check() != nil {
			t.Errorf("release once more: %v; the next holder: %v", err, next.Check())
		}
		if next.Token() <= lease.Token() {
			t.Errorf("token %d after %d", next.Token(), lease.Token())
		}
	})
}

// What is left goes down to 0, is all there again after a renewal, and ends with the lease.
func TestLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, service := pair(t)
		lease, released, forced := take(t, l, "user/a"), take(t, l, "user/b"), take(t, l, "user/c")
		short := acquire(t, l, locks.Request{Key: "user/d", MaxHold: time.Second})
		near := func(when string, lease *locks.Lease, want time.Duration) {
			t.Helper()
			if left := lease.Left(); left > want || left < want-time.Second/2 { // the clock of the machine goes on meanwhile
				t.Errorf("%s: %v are left, want %v", when, left, want)
			}
		}
		near("at first", lease, window)
		near("until its MaxHold", short, time.Second)
		release(t, released)
		near("released", released, 0)
		time.Sleep(3 * time.Second)
		near("after 3 s", lease, window-3*time.Second)
		near("after its MaxHold", short, 0)
		if _, err := other.ForceRelease(t.Context(), "user/c", forced.Token()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Second/3 - 3*time.Second)
		synctest.Wait()
		near("renewed", lease, window)
		near("evicted", forced, 0)
		service.Stop()
		time.Sleep(window)
		near("not renewed", lease, 0)
		wantErr(t, "check", lease.Check(), locks.ErrLost)
	})
}

func TestReleaseManyInOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, service := pair(t)
		gone := take(t, l, "user/gone")
		service.Expire(f.last.ID())
		var leases []*locks.Lease
		for i := range 100 {
			leases = append(leases, take(t, l, fmt.Sprintf("user/%d", i)))
		}
		foreign := take(t, other, "user/foreign")
		if err := l.Release(t.Context(), leases...); err != nil {
			t.Fatal(err)
		}
		if n := f.count("release"); n != 1 {
			t.Errorf("%d calls, want 1", n)
		}
		err := l.Release(t.Context(), leases[0], gone, foreign)
		wantErr(t, "release", err, locks.ErrLost)
		if err := l.Release(t.Context(), foreign); err == nil || !strings.Contains(err.Error(), "another Locker") {
			t.Errorf("release of the lease of another Locker: %v", err)
		}
		if foreign.Check() != nil {
			t.Errorf("the lease of another Locker: %v", foreign.Check())
		}
		for i := range leases {
			take(t, other, fmt.Sprintf("user/%d", i))
		}
	})
}

// A release that does not get through ends the lease here at once and frees the key when the
// service is back.
func TestReleaseWhileAway(t *testing.T) {
	for name, during := range map[string]func(context.Context, string, func() error) error{
		"resets": func(context.Context, string, func() error) error { return errNet },
		"hangs":  hangs,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l, other, _ := pair(t)
				a, b := take(t, l, "user/a"), take(t, l, "user/b")
				f.on(during)
				began := time.Now()
				err := a.Release(t.Context())
				if err == nil || errors.Is(err, locks.ErrLost) {
					t.Errorf("release: %v, want an error that is not ErrLost", err)
				}
				endsAfter(t, a, locks.ErrReleased, 0, 0)
				if err := b.Release(t.Context()); !errors.Is(err, locks.ErrUnavailable) {
					t.Errorf("release while it is known to be away: %v", err)
				}
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("both took %v", took)
				}
				if err := a.Release(t.Context()); err != nil {
					t.Errorf("release again: %v, want nil", err)
				}
				wantBusy(t, other, "user/a")
				f.on(nil)
				time.Sleep(3100 * time.Millisecond)
				take(t, other, "user/a")
				take(t, other, "user/b")
			})
		})
	}
}

func TestForced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, _ := pair(t)
		a, b, c := try(t, l, locks.Request{Key: "user/a", Owner: "run 1"}).Lease, take(t, l, "user/b"), take(t, l, "user/c")
		if ok, err := other.ForceRelease(t.Context(), "user/a", a.Token()+1); ok || err != nil {
			t.Fatalf("wrong token: %v, %v", ok, err)
		}
		if ok, err := other.ForceRelease(t.Context(), "user/a", a.Token()); !ok || err != nil {
			t.Fatalf("force release: %v, %v", ok, err)
		}
		next := take(t, other, "user/a")
		endsAfter(t, a, locks.ErrForced, 10*time.Second/3, 50*time.Millisecond)
		wantErr(t, "its owner again", try(t, l, locks.Request{Key: "user/a", Owner: "run 1"}).Err, locks.ErrBusy)
		err := a.Release(t.Context())
		if !errors.Is(err, locks.ErrLost) || !errors.Is(err, locks.ErrForced) {
			t.Errorf("release: %v, want ErrLost and ErrForced", err)
		}
		if next.Check() != nil || b.Check() != nil {
			t.Errorf("the next holder: %v, another key: %v", next.Check(), b.Check())
		}
		if ok, err := l.ForceRelease(t.Context(), "user/b", b.Token()); !ok || err != nil {
			t.Fatalf("force release of one's own: %v, %v", ok, err)
		}
		endsAfter(t, b, locks.ErrForced, 0, 0)
		if ok, err := other.ForceRelease(t.Context(), "user/c", c.Token()); !ok || err != nil {
			t.Fatalf("force release: %v, %v", ok, err)
		}
		again := take(t, l, "user/c") // before the renewal that would have noticed
		endsAfter(t, c, locks.ErrForced, 0, 0)
		time.Sleep(time.Minute)
		if err := again.Check(); err != nil {
			t.Errorf("the new lease: %v", err)
		}
	})
}

// What Check says about an earlier holding does not touch the next one of the same key.
func TestTakenAgainDuringCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		f.doubts = true
		lease, other := take(t, l, "user/a"), take(t, l, "user/b")
		var again *locks.Lease
		f.on(only("check", func(ctx context.Context, _ string, do func() error) error {
			if again == nil {
				if err := l.Release(ctx, lease, other); err != nil {
					t.Error(err)
				}
				again = take(t, l, "user/a")
			}
			return do()
		}))
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := again.Check(); err != nil {
			t.Error(err)
		}
	})
}

func TestJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		mine := locks.Request{Key: "user/a", Owner: "run 1"}
		first := try(t, l, mine).Lease
		calls := f.count("acquire")
		second, third := try(t, l, mine).Lease, try(t, l, mine).Lease
		if second == nil || third == nil || second.Token() != first.Token() {
			t.Fatalf("%v, %v: want both to share token %d", second, third, first.Token())
		}
		if n := f.count("acquire"); n != calls {
			t.Errorf("joining asked the service")
		}
		both, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/b"}, mine)
		if err != nil || both[0].Lease == nil || both[1].Lease == nil || both[1].Lease.Token() != first.Token() {
			t.Errorf("with another key: %+v, %v", both, err)
		}
		if len(f.wants) != 1 || f.wants[0].Key != "user/b" {
			t.Errorf("the service was asked for %+v", f.wants)
		}
		if err := l.Release(t.Context(), both[0].Lease, both[1].Lease); err != nil {
			t.Error(err)
		}
		for name, r := range map[string]locks.Request{
			"another": {Key: "user/a", Owner: "run 2"},
			"none":    {Key: "user/a"},
		} {
			wantErr(t, name, try(t, l, r).Err, locks.ErrBusy)
		}
		wantErr(t, "another process", try(t, other, mine).Err, locks.ErrBusy)

		for _, lease := range []*locks.Lease{second, second, first} {
			if err := lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		endsAfter(t, second, locks.ErrReleased, 0, 0)
		if err := third.Check(); err != nil || third.Context().Err() != nil {
			t.Errorf("the last one: %v, %v", err, third.Context().Err())
		}
		wantBusy(t, other, "user/a")
		if err := third.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		take(t, other, "user/a")
	})
}

// With all of a batch joined no service is needed; with a part of it, the rest says what it lacks.
func TestJoinsWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, _, service := pair(t)
		mine := locks.Request{Key: "user/a", Owner: "run 1"}
		try(t, l, mine)
		service.Stop()
		attempts, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/b"}, mine)
		if err != nil {
			t.Fatal(err)
		}
		if attempts[1].Lease == nil || attempts[1].Err != nil {
			t.Errorf("joined: %v", attempts[1].Err)
		}
		wantErr(t, "the other", attempts[0].Err, locks.ErrUnavailable)
		time.Sleep(window)
		wantErr(t, "joined, past the deadline", attempts[1].Lease.Check(), locks.ErrLost)
		_, err = l.TryAcquire(t.Context(), mine)
		wantErr(t, "nothing to join any more", err, locks.ErrUnavailable)
	})
}

// A busy answer that comes after the grant to the same Join was seen shares it.
func TestJoinsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		if err := l.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.on(only("acquire", func(_ context.Context, _ string, do func() error) error {
			n := f.count("acquire")
			err := do()
			time.Sleep(time.Duration(n) * 100 * time.Millisecond)
			return err
		}))
		mine := locks.Request{Key: "user/a", Owner: "run 1"}
		var first, second *locks.Lease
		var all sync.WaitGroup
		all.Go(func() { first = try(t, l, mine).Lease })
		synctest.Wait()
		all.Go(func() { second = try(t, l, mine).Lease })
		all.Wait()
		if first == nil || second == nil || first.Token() != second.Token() {
			t.Errorf("%v and %v, want one hold", first, second)
		}
	})
}

// Many of one owner at once share one hold, whatever order the answers come in.
func TestJoinsAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, _ := pair(t)
		mine := locks.Request{Key: "user/a", Owner: "run 1"}
		var all sync.WaitGroup
		leases := make([]*locks.Lease, 20)
		for i := range leases {
			all.Go(func() {
				if err := locks.Do(t.Context(), l, mine, func(context.Context, locks.Token) error { return nil }); err != nil {
					t.Error(err)
				}
				for leases[i] == nil { // until then others may be between release and acquire
					leases[i] = try(t, l, mine).Lease
				}
			})
		}
		all.Wait()
		for _, lease := range leases {
			if lease.Token() != leases[0].Token() {
				t.Fatalf("tokens %d and %d: want one hold", lease.Token(), leases[0].Token())
			}
		}
		if err := l.Release(t.Context(), leases[1:]...); err != nil {
			t.Fatal(err)
		}
		wantBusy(t, other, "user/a")
		if err := leases[0].Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		take(t, other, "user/a")
	})
}
