package work

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// begun is a handler that reports its start, and ends when it is told to.
type begun chan struct{}

func (b begun) Run(ctx context.Context, _ jobs.Task, _ io.Writer) error {
	b <- struct{}{}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (begun) Describe() string { return "begun" }

// An attempt with a short grace that starts a moment before its deadline has ended by then, although expire does not
// look at the attempts so often; but not if its deadline was moved meanwhile.
func TestWhoStartsInTheLastMomentIsStoppedOnTime(t *testing.T) {
	const left = killMargin / 2
	for what, moves := range map[string]bool{"its time ends": false, "its time is moved": true} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := make(begun)
				s := replicaOn(t, &memstore.Store{Database: memstore.New()}, h)
				trust := func(d time.Duration) { s.assume(&membership.Session{ID: "session", Trust: boottime.Now().Add(d)}) }
				trust(left)
				s.work.opt.StopGrace = left / 2 // else it does not start
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan time.Time, 1)
				began := time.Now()
				go func() {
					s.work.execute(ctx, claimed{task: &jobs.Task{ID: "1", Pool: "p"}, session: "session"})
					ended <- time.Now()
				}()
				<-h
				if moves {
					trust(time.Hour)
					time.Sleep(expireEvery)
					cancel()
				}
				if took := (<-ended).Sub(began); moves == (took <= left) {
					t.Errorf("it ended after %v, and had %v at first", took, left)
				}
				cancel()
			})
		})
	}
}
