package work

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
)

// The end of an attempt frees a place in a pool with limits. The feeder claims at once if that was full when it claimed last, or may
// be full now: another replica may have taken what was left, and waits for its poll.
func TestAPlaceThatIsFreed(t *testing.T) {
	for what, c := range map[string]struct {
		got   ledger.Claimed
		after time.Duration
		want  bool
	}{
		"it was full":           {ledger.Claimed{Limited: true}, 0, true},
		"there was room":        {ledger.Claimed{Limited: true, Left: 3}, pollBusy, false},
		"there was room before": {ledger.Claimed{Limited: true, Left: 3}, pollBusy + 1, true},
		"no limits":             {ledger.Claimed{}, time.Hour, false},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFeeder(nil, nil, &plan.Pool{})
				f.noteLimits(c.got)
				time.Sleep(c.after)
				f.placeFreed()
				if woken := len(f.wake) == 1; woken != c.want {
					t.Errorf("the feeder is woken: %t, want %t", woken, c.want)
				}
			})
		})
	}
}

// A feeder that the poll woke in vain does not take what comes next for an arrival that nobody told it of.
func TestAVainClaimIsNoArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := fed(t)
		f.executor.slots.take("p", 4) // no worker is free
		f.mu.Lock()
		f.polled = true
		f.mu.Unlock()
		if f.claim(t.Context()) {
			t.Error("it claims again")
		}
		if f.polled {
			t.Error("the next claim counts as one of the poll")
		}
	})
}
