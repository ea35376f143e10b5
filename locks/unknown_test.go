package locks_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

// An answer that is lost once is asked for again under the same id.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		lose := 1
		f.on(only("acquire", func(_ context.Context, _ string, do func() error) error {
			if err := do(); lose == 0 || err != nil {
				return err
			}
			lose--
			return errNet
		}))
		lease := take(t, l, "user/a")
		if err := lease.Check(); err != nil {
			t.Error(err)
		}
		if n := f.count("acquire"); n != 2 {
			t.Errorf("%d calls, want 2", n)
		}
		wantBusy(t, l, "user/a")
	})
}

// When no answer comes at all the outcome is unknown, and the keys do not stay taken.
func TestUnknown(t *testing.T) {
	arrives := map[string]struct {
		acquire func(ctx context.Context, call string, do func() error) error
		free    time.Duration // until then the key is free for others
	}{
		"granted, answer lost": {func(_ context.Context, _ string, do func() error) error {
			_ = do()
			return errNet
		}, 3 * time.Second},
		"never arrives": {func(context.Context, string, func() error) error { return errNet }, 3 * time.Second},
		"no answer":     {hangs, 3 * time.Second}, // the first try to free it may hang too
		"arrives after the key was freed": {func(ctx context.Context, _ string, do func() error) error {
			go func() { time.Sleep(7 * time.Second); _ = do() }()
			<-ctx.Done()
			return ctx.Err()
		}, 13 * time.Second},
	}
	for name, c := range arrives {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, l, other, _ := pair(t)
				kept := take(t, l, "user/kept")
				f.on(only("acquire", c.acquire))
				began := time.Now()
				attempts, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/a"}, locks.Request{Key: "user/b"})
				if err != nil {
					t.Fatalf("%v: want no error for the batch, something may have been granted", err)
				}
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("it took %v, longer than the call timeout", took)
				}
				for _, a := range attempts {
					if a.Lease != nil || a.Holder != nil {
						t.Errorf("%+v, want neither lease nor holder", a)
					}
					wantErr(t, "attempt", a.Err, locks.ErrUnknown)
				}
				f.on(nil)
				time.Sleep(c.free)
				for _, key := range []string{"user/a", "user/b"} {
					take(t, other, key)
				}
				time.Sleep(time.Minute)
				if err := kept.Check(); err != nil {
					t.Errorf("the lease that has nothing to do with it: %v", err)
				}
				if st := l.State(); !st.Up {
					t.Errorf("state %+v", st)
				}
			})
		})
	}
}

// A request that arrives after everybody has forgotten it is found by the next one for its key.
func TestGhost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		take(t, l, "user/kept")
		f.on(only("acquire", func(ctx context.Context, _ string, do func() error) error {
			go func() { time.Sleep(time.Minute); _ = do() }()
			<-ctx.Done()
			return ctx.Err()
		}))
		wantErr(t, "attempt", try(t, l, locks.Request{Key: "user/a"}).Err, locks.ErrUnknown)
		f.on(nil)
		time.Sleep(2 * time.Minute)
		wantBusy(t, l, "user/a")
		synctest.Wait()
		take(t, l, "user/a")
		wantBusy(t, l, "user/kept") // a key that is really held is no ghost
		synctest.Wait()
		wantBusy(t, l, "user/kept")
		if n := f.count("release"); n > 3 {
			t.Errorf("%d releases, want the ghost's and those of the sweep", n)
		}
	})
}

// One key's trouble is not that of the others.
func TestUnknownForOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		l := start(t, oneSick{service}, locks.Options{})
		attempts, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/z"}, locks.Request{Key: "user/sick"}, locks.Request{Key: "user/off"})
		if err != nil {
			t.Fatal(err)
		}
		if attempts[0].Lease == nil {
			t.Errorf("the healthy one: %v", attempts[0].Err)
		}
		wantErr(t, "the sick one", attempts[1].Err, locks.ErrUnknown)
		wantErr(t, "the one that was not sent", attempts[2].Err, locks.ErrUnavailable)
		if st := l.State(); !st.Up {
			t.Errorf("state %+v, want up: the service answered", st)
		}
	})
}

// oneSick is a service that never knows about user/sick and sends nothing for user/off.
type oneSick struct{ driver.Driver }

func (d oneSick) Open(ctx context.Context, o driver.Open) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, o)
	return sickSession{s}, err
}

type sickSession struct{ driver.Session }

func (s sickSession) TryAcquire(ctx context.Context, id string, wants []driver.Want) ([]driver.Result, error) {
	results, err := s.Session.TryAcquire(ctx, id, wants)
	if err != nil { // the session has ended with its test
		return nil, err
	}
	for i, w := range wants {
		switch w.Key {
		case "user/sick":
			results[i] = driver.Result{Err: errNet}
		case "user/off":
			results[i] = driver.Result{Err: driver.ErrUnreachable}
		}
	}
	return results, nil
}
