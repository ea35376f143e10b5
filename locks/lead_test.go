package locks_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
)

// One leads at a time, and turns go round.
func TestLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, other, _ := pair(t)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var order []*locks.Locker
		var last locks.Token
		leading := 0
		var all sync.WaitGroup
		for _, locker := range []*locks.Locker{l, other} {
			all.Go(func() {
				err := locks.Lead(ctx, locker, "leader", func(ctx context.Context, token locks.Token) error {
					mu.Lock()
					leading++
					if leading != 1 || token <= last {
						t.Errorf("%d lead, token %d after %d", leading, token, last)
					}
					last, order = token, append(order, locker)
					mu.Unlock()
					select {
					case <-time.After(time.Minute):
					case <-ctx.Done():
					}
					mu.Lock()
					leading--
					mu.Unlock()
					return ctx.Err()
				})
				if err != nil {
					t.Errorf("%v, want nil after the end of ctx", err)
				}
			})
		}
		time.Sleep(10*time.Minute + 30*time.Second)
		cancel()
		all.Wait()
		if len(order) != 11 {
			t.Errorf("%d turns of a minute in ten and a half, want 11", len(order))
		}
		for i := 1; i < len(order); i++ {
			if order[i] == order[i-1] {
				t.Errorf("turn %d went to the same process as the one before", i)
			}
		}
	})
}

// A leader that loses the lock is told, and leads again; an error of its work ends it.
func TestLeadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l, other, service := pair(t)
		broken := errors.New("work failed")
		turns := 0
		err := locks.Lead(t.Context(), l, "leader", func(ctx context.Context, _ locks.Token) error {
			if turns++; turns == 3 {
				return broken
			}
			service.Expire(f.last.ID())
			<-ctx.Done()
			wantErr(t, "the context", context.Cause(ctx), locks.ErrLost)
			return ctx.Err()
		})
		if !errors.Is(err, broken) || turns != 3 {
			t.Errorf("%v after %d turns, want the error of the third", err, turns)
		}
		take(t, other, "leader")
		if err := locks.Lead(t.Context(), l, "no blanks", nil); err == nil {
			t.Error("an invalid key was accepted")
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "with a closed Locker", locks.Lead(t.Context(), l, "leader", nil), locks.ErrUnavailable)
	})
}

// Lead waits for a service that has never been reached.
func TestLeadWaitsForTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, _, service := pair(t)
		service.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		time.AfterFunc(time.Minute, service.Start)
		began := time.Now()
		err := locks.Lead(ctx, l, "leader", func(context.Context, locks.Token) error {
			if took := time.Since(began); took < time.Minute || took > time.Minute+3*time.Second {
				t.Errorf("it leads after %v, want soon after a minute", took)
			}
			cancel()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// Who never led since the service could not be reached is told so; who led once is not.
func TestLeadSaysWhyItNeverDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, _, service := pair(t)
		never := func(context.Context, locks.Token) error { t.Error("it led"); return nil }
		service.Stop()
		waits := []time.Duration{100 * time.Millisecond, time.Minute}
		for range 300 { // the time between two tries: whichever of the two ends is seen first
			waits = append(waits, 2*time.Second)
		}
		for _, wait := range waits {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			err := locks.Lead(ctx, l, "leader", never)
			if !errors.Is(err, locks.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after %v: %v, want ErrUnavailable and the end of ctx", wait, err)
			}
		}
		service.Start()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err := locks.Lead(ctx, l, "leader", func(ctx context.Context, _ locks.Token) error {
			service.Stop()
			<-ctx.Done()
			return ctx.Err()
		})
		if err != nil {
			t.Errorf("it led once: %v", err)
		}
	})
}
