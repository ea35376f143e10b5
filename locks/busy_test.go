package locks_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

// A try of a key that others of its Locker wait for makes no call. It names the holder that these wait for, and none that is not one.
func TestATryBehindWaiters(t *testing.T) {
	mine := locks.Request{Key: "user/a", Meta: "mine"}
	holds := func(t *testing.T, l *locks.Locker, r locks.Request) locks.Token {
		return try(t, l, r).Lease.Token()
	}
	type world struct {
		f        *faulty
		l, other *locks.Locker
	}
	for name, c := range map[string]struct {
		change func(f *faulty)
		before func(t *testing.T, w world) locks.Info // what holds the key; the zero Info: nothing, as far as is known
		want   string
	}{
		"another holds it": {
			before: func(t *testing.T, w world) locks.Info {
				return locks.Info{Token: holds(t, w.other, mine), Owner: "two", Meta: "mine"}
			},
			want: "held by two since 2000-01-01T00:00:00Z, for 10s at most without a renewal",
		},
		"another holds it, and there is no queue": {
			change: withoutQueue,
			before: func(t *testing.T, w world) locks.Info {
				return locks.Info{Token: holds(t, w.other, mine), Owner: "two", Meta: "mine"}
			},
			want: "held by two since 2000-01-01T00:00:00Z, for 10s at most without a renewal",
		},
		"the Locker itself holds it": {
			change: withoutOrder,
			before: func(t *testing.T, w world) locks.Info {
				return locks.Info{Token: holds(t, w.l, mine), Owner: "one", Meta: "mine"}
			},
			want: "held by one since 2000-01-01T00:00:00Z, for 10s at most without a renewal",
		},
		"it is being asked for": {
			before: func(t *testing.T, w world) locks.Info {
				w.f.on(only("queue", hangs))
				return locks.Info{}
			},
			want: "waiters of this Locker come first, and its holder is not known",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := memlock.New()
				f := newFaulty(service)
				if c.change != nil {
					c.change(f)
				}
				w := world{f, start(t, f, locks.Options{Owner: "one"}), start(t, service, locks.Options{Owner: "two"})}
				if err := w.l.Connect(t.Context()); err != nil {
					t.Fatal(err)
				}
				want := c.before(t, w)
				ctx, cancel := context.WithCancel(t.Context())
				var waiting sync.WaitGroup
				waiting.Go(func() {
					if leases, err := w.l.Acquire(ctx, key); err == nil {
						t.Errorf("granted: %v", leases)
					}
				})
				synctest.Wait()
				calls := f.count("acquire")
				got := try(t, w.l, key)
				if n := f.count("acquire") - calls; n != 0 {
					t.Errorf("the service was asked %d times", n)
				}
				if text := "lock busy: user/a: " + c.want; said(got.Err) != text {
					t.Errorf("%q, want %q", said(got.Err), text)
				}
				wantErr(t, "the try", got.Err, locks.ErrBusy)
				if got.Holder == nil {
					got.Holder = &locks.Info{}
				}
				if diff := cmp.Diff(want, locks.Info{Token: got.Holder.Token, Owner: got.Holder.Owner, Meta: got.Holder.Meta}); diff != "" {
					t.Errorf("holder (-want +got):\n%s", diff)
				}
				cancel()
				waiting.Wait()
				f.on(nil)
			})
		})
	}
}

// The holder of an earlier turn is not named: once the Locker has had its turn, it is the Locker itself, and then not known until the service
// has said it.
func TestATryBehindWaitersOfALaterTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		theirs := take(t, other, "user/a")
		var s turns
		s.wait(t.Context(), "first", l, key, time.Second)
		s.wait(t.Context(), "second", l, key, time.Second)
		s.wait(t.Context(), "other", other, key, time.Second)
		release(t, theirs)
		synctest.Wait()
		wantHolder := func(when, want string) {
			t.Helper()
			if got := said(try(t, l, key).Err); !strings.HasPrefix(got, "lock busy: user/a: "+want) {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		wantHolder("in the first turn", "held by one")
		f.on(only("queue", func(_ context.Context, _ string, do func() error) error {
			time.Sleep(time.Second / 2)
			return do()
		}))
		time.Sleep(time.Second)
		synctest.Wait()
		wantHolder("while it asks for the next one", "waiters of this Locker come first, and its holder is not known")
		time.Sleep(time.Second / 2)
		synctest.Wait()
		wantHolder("in the other's turn", "held by two since 2000-01-01T00:00:01Z")
		f.on(nil)
		s.want(t, "first", "other", "second")
	})
}
