package lockstest

import (
	"context"
	"errors"
	"flag"
	mathrand "math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // they wait more than they work
	os.Exit(m.Run())
}

// Each kind of broken lock service is caught in one run, but for early expiry, also where a key may be lost by itself, and where a busy
// answer may be about one that is only asking.
func TestLinearizableCatches(t *testing.T) {
	for _, bug := range []string{doubleGrant, tokensGoBack, releasesOthers, earlyExpiry, ignoresRelease, heldForEver, "accepts stale writes"} {
		for name, leave := range map[string]Harness{"": {}, ", keys die alone": {KeysDieAlone: true}, ", votes": {Votes: true}} {
			t.Run(bug+name, func(t *testing.T) {
				t.Parallel()
				service := memlock.New()
				h := Harness{
					Driver:        func(*testing.T) driver.Driver { return faultyService{service, bug} },
					ExpireSession: func(_ *testing.T, s driver.Session) { service.Expire(s.ID()) },
					KeysDieAlone:  leave.KeysDieAlone,
					Votes:         leave.Votes,
				}
				runs := 1
				if bug == earlyExpiry {
					runs = 3 // one in 50 shows nothing: no client asked between the two ends of a session
				}
				var seeds []uint64
				for range runs {
					r := contend(t, h, Linear{careless: bug == "accepts stale writes"})
					if result, _ := r.judge(linearLimit); result == porcupine.Illegal {
						return
					}
					seeds = append(seeds, r.seed)
				}
				t.Errorf("not found in %d runs; seeds %v", runs, seeds)
			})
		}
	}
}

const (
	doubleGrant    = "grants what is held"
	tokensGoBack   = "tokens go back"
	releasesOthers = "releases another's"
	earlyExpiry    = "expires early"
	ignoresRelease = "forgets a release"
	heldForEver    = "held without asking"
)

// faultyService is a lock service with a bug.
type faultyService struct {
	driver.Driver
	bug string
}

func (l faultyService) Open(ctx context.Context, o driver.Open) (driver.Session, error) {
	promised := o.TTL
	if l.bug == earlyExpiry {
		o.TTL /= 8
	}
	s, err := l.Driver.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return lying{s, l.bug, promised}, nil
}

type lying struct {
	driver.Session
	bug string
	ttl time.Duration
}

func (l lying) TTL() time.Duration { return l.ttl }

// backwards turns tokens round, there and back.
func (l lying) backwards(token driver.Token) driver.Token {
	if l.bug != tokensGoBack {
		return token
	}
	return 1<<60 - token
}

func (l lying) held(held []driver.Held) []driver.Held {
	var real []driver.Held
	for _, h := range held {
		real = append(real, driver.Held{Key: h.Key, Token: l.backwards(h.Token)})
	}
	return real
}

func (l lying) TryAcquire(ctx context.Context, id string, wants []driver.Want) ([]driver.Result, error) {
	results, err := l.Session.TryAcquire(ctx, id, wants)
	for i, r := range results {
		switch {
		case r.Token > 0:
			results[i].Token = l.backwards(r.Token)
		case l.bug == doubleGrant && r.Holder != nil && id[0] < 'C':
			results[i] = driver.Result{Token: r.Holder.Token + 1}
		}
	}
	return results, err
}

func (l lying) Release(ctx context.Context, held []driver.Held) error {
	for _, h := range held {
		switch {
		case l.bug == ignoresRelease && h.Token%8 == 0:
			return nil
		case l.bug == releasesOthers:
			list, err := l.List(ctx, h.Key, "", 1)
			if err != nil {
				return err
			}
			for _, holder := range list {
				if _, err := l.Evict(ctx, holder.Key, holder.Token); err != nil {
					return err
				}
			}
		}
	}
	return l.Session.Release(ctx, l.held(held))
}

func (l lying) Check(ctx context.Context, held []driver.Held) ([]bool, error) {
	if l.bug == heldForEver {
		still := make([]bool, len(held))
		for i := range still {
			still[i] = true
		}
		return still, nil
	}
	return l.Session.Check(ctx, l.held(held))
}

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
		Driver:        func(*testing.T) driver.Driver { return losesAnswers{service, queue} },
		ExpireSession: func(_ *testing.T, s driver.Session) { service.Expire(s.ID()) },
	}, Linear{})
}

// losesAnswers is a service that does what it is asked to, and does not always say so.
type losesAnswers struct {
	driver.Driver
	queue func(driver.Queue) driver.Queue
}

func (l losesAnswers) Open(ctx context.Context, o driver.Open) (driver.Session, error) {
	s, err := l.Driver.Open(ctx, o)
	return forgetful{s, l.queue}, err
}

type forgetful struct {
	driver.Session
	queue func(driver.Queue) driver.Queue
}

func (f forgetful) Queue() driver.Queue { return f.queue(f.Session.Queue()) }

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
