package locks_test

import (
	"context"
	"sync"
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
		free    time.Duration // by then the key is free for others
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
		}, 8 * time.Second},
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

// A doubt outlives a call that abandons and fails: the request may arrive meanwhile.
func TestUnknownUntilItIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		began := time.Now()
		f.on(func(ctx context.Context, call string, do func() error) error {
			switch {
			case call == "acquire":
				go func() { time.Sleep(11 * time.Second); _ = do() }()
				<-ctx.Done()
				return ctx.Err()
			case call == "abandon" && time.Since(began) < 13*time.Second:
				return errNet
			}
			return do()
		})
		wantErr(t, "attempt", try(t, l, locks.Request{Key: "user/a"}).Err, locks.ErrUnknown)
		time.Sleep(time.Until(began.Add(12 * time.Second)))
		wantBusy(t, other, "user/a")
		time.Sleep(3 * time.Second)
		take(t, other, "user/a")
	})
}

// A request without an answer may arrive when the key is free again, though it was busy when it was asked for a
// second time: then it is refused.
func TestFirstTryThatArrivesAfterTheSecondWasBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		held := take(t, other, "user/a")
		tries := 0
		f.on(only("acquire", func(_ context.Context, _ string, do func() error) error {
			if tries++; tries > 1 {
				return do()
			}
			go func() { time.Sleep(5 * time.Second); _ = do() }()
			return errNet
		}))
		attempts, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/b"}, locks.Request{Key: "user/a"})
		if err != nil {
			t.Fatal(err)
		}
		wantErr(t, "attempt", attempts[1].Err, locks.ErrBusy)
		if err := other.Release(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		take(t, other, "user/a")
		wantBusy(t, other, "user/b") // what the second try granted is not given back
	})
}

// What became of several calls is unknown, and each of them arrives late: all are refused.
func TestUnknownOfSeveralCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, _ := pair(t)
		take(t, l, "user/kept")
		f.on(only("acquire", func(_ context.Context, _ string, do func() error) error {
			time.Sleep(time.Millisecond) // so that all are under way
			go func() { time.Sleep(7 * time.Second); _ = do() }()
			return errNet
		}))
		keys := []string{"user/a", "user/b", "user/c"}
		var all sync.WaitGroup
		for _, key := range keys {
			all.Go(func() {
				attempts, err := l.TryAcquire(t.Context(), locks.Request{Key: key})
				if err != nil {
					t.Error(err)
					return
				}
				wantErr(t, key, attempts[0].Err, locks.ErrUnknown)
			})
		}
		all.Wait()
		f.on(nil)
		time.Sleep(8 * time.Second)
		for _, key := range keys {
			take(t, other, key)
		}
	})
}

// What the service does not answer for as long as it renews the session is abandoned once a second, and no more often.
func TestUnknownForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		kept := take(t, l, "user/kept")
		f.on(unanswered(func(string) bool { return false }, "acquire", "abandon"))
		for _, k := range []string{"user/a", "user/b", "user/c"} {
			wantErr(t, "attempt", try(t, l, locks.Request{Key: k}).Err, locks.ErrUnknown)
			time.Sleep(5 * time.Second)
		}
		abandoned := f.count("abandon")
		if abandoned > 40 {
			t.Errorf("abandoned %d times, want less and less often, and about once a second at last", abandoned)
		}
		time.Sleep(time.Minute)
		if n := f.count("abandon") - abandoned; n < 59 || n > 61 {
			t.Errorf("abandoned %d times in a minute, want 60", n)
		}
		if err := kept.Check(); err != nil {
			t.Error(err)
		}
	})
}

// A request that arrives when its acquisition is refused no more is found by the next one for its key.
func TestUnexpectedHoldIsFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, _, _ := pair(t)
		take(t, l, "user/kept")
		if err := take(t, l, "user/a").Release(t.Context()); err != nil {
			t.Fatal(err)
		}
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
		wantBusy(t, l, "user/kept") // a key with a lease is not freed
		synctest.Wait()
		wantBusy(t, l, "user/kept")
		if n := f.count("release"); n != 2 {
			t.Errorf("%d releases, want the first one, and that of the key that was held unexpectedly", n)
		}
	})
}

// One key's trouble is not that of the others, neither at once nor when it is settled.
func TestUnknownForOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		l, other := start(t, amended{service, func(_ int, key string, r driver.Result) driver.Result {
			switch {
			case key == "user/sick":
				return driver.Result{Err: errNet}
			case key == "user/off":
				return driver.Result{Err: driver.ErrUnreachable}
			}
			return r
		}}, locks.Options{}), start(t, service, locks.Options{})
		attempts, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/z"}, locks.Request{Key: "user/sick"}, locks.Request{Key: "user/off"})
		if err != nil {
			t.Fatal(err)
		}
		healthy := attempts[0].Lease
		if healthy == nil {
			t.Fatalf("the healthy one: %v", attempts[0].Err)
		}
		wantErr(t, "the sick one", attempts[1].Err, locks.ErrUnknown)
		wantErr(t, "the one that was not sent", attempts[2].Err, locks.ErrUnavailable)
		if st := l.State(); !st.Up {
			t.Errorf("state %+v, want up: the service answered", st)
		}
		synctest.Wait()
		wantBusy(t, other, "user/z")
		take(t, other, "user/sick")
		time.Sleep(time.Minute)
		wantBusy(t, other, "user/z")
		if err := healthy.Check(); err != nil {
			t.Errorf("the healthy one, later: %v", err)
		}
	})
}

// What a second try did not send is as it was after the first.
func TestSecondTryThatIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		l, other := start(t, amended{service, func(call int, key string, r driver.Result) driver.Result {
			switch {
			case call == 1 && key == "user/lost":
				return driver.Result{Err: errNet}
			case call == 2 && key != "user/answered":
				return driver.Result{Err: driver.ErrUnreachable}
			}
			return r
		}}, locks.Options{}), start(t, service, locks.Options{})
		attempts, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/answered"}, locks.Request{Key: "user/granted"}, locks.Request{Key: "user/lost"})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range attempts[:2] {
			if a.Lease == nil {
				t.Errorf("%+v, want a lease", a)
			}
		}
		wantErr(t, "the one whose answer was lost", attempts[2].Err, locks.ErrUnknown)
		time.Sleep(3 * time.Second)
		take(t, other, "user/lost")
		wantBusy(t, other, "user/granted")
	})
}

// amended is a service whose answers to one acquisition's calls, from 1 on, the test rewrites.
type amended struct {
	driver.Driver
	amend func(call int, key string, r driver.Result) driver.Result
}

func (d amended) Open(ctx context.Context, o driver.Open) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, o)
	return &amendedSession{Session: s, amend: d.amend}, err
}

type amendedSession struct {
	driver.Session
	amend func(call int, key string, r driver.Result) driver.Result

	mu   sync.Mutex
	last string // acquisition
	call int
}

func (s *amendedSession) TryAcquire(ctx context.Context, id string, wants []driver.Want) ([]driver.Result, error) {
	results, err := s.Session.TryAcquire(ctx, id, wants)
	if err != nil { // the session has ended with its test
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.call++; id != s.last {
		s.last, s.call = id, 1
	}
	for i, w := range wants {
		results[i] = s.amend(s.call, w.Key, results[i])
	}
	return results, nil
}
