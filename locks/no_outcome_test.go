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

// A backend that says nothing about a key leaves its outcome unknown: the key is no lease, and does not stay taken.
func TestATryWithoutAnOutcome(t *testing.T) {
	for name, none := range map[string]driver.Result{"nothing": {}, "a place": {Queued: true}, "a token that is none": {Token: -1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := memlock.New()
				l, other := start(t, amended{service, func(_ int, key string, r driver.Result) driver.Result {
					if key == "user/a" {
						return none
					}
					return r
				}}, locks.Options{}), start(t, service, locks.Options{})
				attempts, err := l.TryAcquire(t.Context(), locks.Request{Key: "user/a"}, locks.Request{Key: "user/b"})
				if err != nil || attempts[1].Lease == nil {
					t.Fatalf("%+v, %v; want user/b", attempts, err)
				}
				if attempts[0].Lease != nil {
					t.Fatalf("user/a is held, token %d", attempts[0].Lease.Token())
				}
				wantErr(t, "user/a", attempts[0].Err, locks.ErrUnknown)
				if want := "lock outcome unknown: user/a: backend memory answered without an outcome, which is a fault of it"; said(attempts[0].Err) != want {
					t.Errorf("%q, want %q", said(attempts[0].Err), want)
				}
				synctest.Wait()
				take(t, other, "user/a")
			})
		})
	}
}

// Acquire asks again, under the same id, for what a backend says nothing about: what was granted is not left behind.
func TestAPlaceWithoutAnOutcome(t *testing.T) {
	for name, none := range map[string]driver.Result{"nothing": {}, "a holder and no place": {Holder: &driver.Info{Key: "user/a"}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := memlock.New()
				var ids []string
				l, other := start(t, silent{service, func(id string, results []driver.Result) {
					if ids = append(ids, id); len(ids) <= 3 {
						results[0] = none
					}
				}}, locks.Options{}), start(t, service, locks.Options{})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				leases, err := l.Acquire(ctx, key)
				if err != nil {
					t.Fatalf("%v, after %d calls", err, len(ids))
				}
				if len(ids) != 4 || ids[0] != ids[3] || time.Since(began) == 0 {
					t.Errorf("asked under %v within %v, want the same id four times, with pauses", ids, time.Since(began))
				}
				release(t, leases...)
				synctest.Wait()
				take(t, other, "user/a")
			})
		})
	}
}

// silent changes what the queue of a driver answers.
type silent struct {
	driver.Driver
	change func(id string, results []driver.Result)
}

func (d silent) Open(ctx context.Context, o driver.Open) (driver.Session, error) {
	s, err := d.Driver.Open(ctx, o)
	return silentSession{s, d}, err
}

type silentSession struct {
	driver.Session
	d silent
}

func (s silentSession) Queue() driver.Queue { return silentQueue{s.Session.Queue(), s.d} }

type silentQueue struct {
	driver.Queue
	d silent
}

func (q silentQueue) Acquire(ctx context.Context, id string, release []driver.Held, wants []driver.Want) ([]driver.Result, error) {
	results, err := q.Queue.Acquire(ctx, id, release, wants)
	if err == nil {
		q.d.change(id, results)
	}
	return results, err
}
