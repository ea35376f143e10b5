package lockstest

import (
	"context"
	"flag"
	"os"
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

// Each kind of broken lock service is caught in one run, but for early expiry, also where a key may be lost by itself, where a busy
// answer may be about one that is only asking, and where some answers are missing.
func TestLinearizableCatches(t *testing.T) {
	for _, bug := range []string{doubleGrant, tokensGoBack, releasesOthers, earlyExpiry, ignoresRelease, heldForEver, "accepts stale writes"} {
		for name, leave := range map[string]Harness{"": {}, ", keys die alone": {KeysDieAlone: true}, ", votes": {Votes: true}, ", lost answers": {}} {
			t.Run(bug+name, func(t *testing.T) {
				t.Parallel()
				service := memlock.New()
				var d driver.Driver = faultyService{service, bug}
				if name == ", lost answers" {
					d = unsure{d, losesAnswers}
				}
				h := Harness{
					Driver:        func(*testing.T) driver.Driver { return d },
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
