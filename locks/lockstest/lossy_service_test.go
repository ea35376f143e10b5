package lockstest

import (
	"context"
	"errors"
	mathrand "math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

// A right service whose answers get lost is not called wrong: the place of a lost answer may have been granted when the client asks
// again.
func TestTurnsOfLostAnswers(t *testing.T) {
	for range 3 {
		lossy(t, func(q driver.Queue) driver.Queue { return forgetfulQueue{q} })
	}
}

// Nor is one where a request arrives after the answer to its repetition.
func TestTurnsOfLateRequests(t *testing.T) {
	var delayed sync.WaitGroup
	defer delayed.Wait()
	for range 3 {
		lossy(t, func(q driver.Queue) driver.Queue { return lateQueue{q, &delayed} })
	}
}

func lossy(t *testing.T, queue func(driver.Queue) driver.Queue) {
	service := memlock.New()
	LinearTurns(t, Harness{
		Driver: func(*testing.T) driver.Driver {
			return unsure{service, func(s driver.Session) driver.Session { return withQueue{s, queue} }}
		},
		ExpireSession: func(_ *testing.T, s driver.Session) { service.Expire(s.ID()) },
	}, Linear{})
}

// Where keys die alone, a right service is not called wrong that frees a key when a call about it has no answer.
func TestKeysDieWithCalls(t *testing.T) {
	var freeing sync.WaitGroup
	defer freeing.Wait()
	for range 3 {
		service := memlock.New()
		Linearizable(t, Harness{
			Driver: func(*testing.T) driver.Driver {
				return unsure{service, func(s driver.Session) driver.Session { return fragile{s, &freeing} }}
			},
			ExpireSession: func(_ *testing.T, s driver.Session) { service.Expire(s.ID()) },
			KeysDieAlone:  true,
		}, Linear{})
	}
}

// unsure is a service that does what it is asked to, and does not always say so.
type unsure struct {
	driver.Driver
	session func(driver.Session) driver.Session
}

func (u unsure) Open(ctx context.Context, o driver.Open) (driver.Session, error) {
	s, err := u.Driver.Open(ctx, o)
	if err != nil || o.Owner != "contender" { // the others are of a test that wants each answer
		return s, err
	}
	return u.session(s), nil
}

// withQueue is a session with a queue that does not always answer.
type withQueue struct {
	driver.Session
	queue func(driver.Queue) driver.Queue
}

func (q withQueue) Queue() driver.Queue { return q.queue(q.Session.Queue()) }

// forgetful is a session that loses one answer in forty.
type forgetful struct{ driver.Session }

func losesAnswers(s driver.Session) driver.Session { return forgetful{s} }

func (f forgetful) TryAcquire(ctx context.Context, id string, wants []driver.Want) ([]driver.Result, error) {
	results, err := f.Session.TryAcquire(ctx, id, wants)
	if mathrand.IntN(40) == 0 { //nolint:gosec // a fault, not a secret
		return nil, errLost
	}
	return results, err
}

func (f forgetful) Release(ctx context.Context, held []driver.Held) error {
	err := f.Session.Release(ctx, held)
	if mathrand.IntN(40) == 0 { //nolint:gosec // see above
		return errLost
	}
	return err
}

// fragile is a session that has a connection for each key, and closes it when it loses an answer: the service frees the key soon.
type fragile struct {
	driver.Session
	freeing *sync.WaitGroup
}

func (f fragile) TryAcquire(ctx context.Context, id string, wants []driver.Want) ([]driver.Result, error) {
	if mathrand.IntN(8) > 0 { //nolint:gosec // a fault, not a secret
		return f.Session.TryAcquire(ctx, id, wants)
	}
	results, err := f.Session.TryAcquire(ctx, id+" on a connection that breaks", wants)
	var held []driver.Held
	for i, r := range results {
		if r.Token > 0 {
			held = append(held, driver.Held{Key: wants[i].Key, Token: r.Token})
		}
	}
	f.free(ctx, held)
	return nil, errors.Join(errLost, err)
}

func (f fragile) Check(ctx context.Context, held []driver.Held) ([]bool, error) {
	if mathrand.IntN(8) > 0 { //nolint:gosec // see above
		return f.Session.Check(ctx, held)
	}
	f.free(ctx, held)
	return nil, errLost
}

func (f fragile) free(ctx context.Context, held []driver.Held) {
	after := time.Duration(mathrand.Int64N(int64(20 * time.Millisecond))) //nolint:gosec // see above
	f.freeing.Go(func() {
		time.Sleep(after)
		_ = f.Release(context.WithoutCancel(ctx), held)
	})
}

var errLost = errors.New("the answer got lost")

type forgetfulQueue struct{ driver.Queue }

func (f forgetfulQueue) Acquire(ctx context.Context, id string, release []driver.Held, wants []driver.Want) ([]driver.Result, error) {
	results, err := f.Queue.Acquire(ctx, id, release, wants)
	if mathrand.IntN(8) == 0 { //nolint:gosec // a fault, not a secret
		return nil, errLost
	}
	return results, err
}

// lateQueue gets some requests only when their client has asked again, and perhaps released what it got.
type lateQueue struct {
	driver.Queue
	delayed *sync.WaitGroup
}

func (l lateQueue) Acquire(ctx context.Context, id string, release []driver.Held, wants []driver.Want) ([]driver.Result, error) {
	if mathrand.IntN(8) > 0 { //nolint:gosec // a fault, not a secret
		return l.Queue.Acquire(ctx, id, release, wants)
	}
	after := time.Duration(mathrand.Int64N(int64(100 * time.Millisecond))) //nolint:gosec // see above
	l.delayed.Go(func() {
		time.Sleep(after)
		_, _ = l.Queue.Acquire(context.WithoutCancel(ctx), id, release, wants)
	})
	return nil, errLost
}
