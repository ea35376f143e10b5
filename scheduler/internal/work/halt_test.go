package work

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// Attempts are left alone while they have time, and once the replica is told to stop at once they have a second, also
// before a drain stops them.
func TestWhatIsToldToStopAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := replicaOn(t, replicatest.NewPicky(nil), replicatest.Blocked{})
		s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Hour)})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.work.expire(ctx) }()
		told := func() (*attempt, context.Context) {
			a := &attempt{task: &jobs.Task{ID: "1"}, session: "session", work: plan.Execution{Timeout: time.Hour}}
			ctx, end := a.begin(t.Context())
			t.Cleanup(end)
			s.work.register.run(a)
			return a, ctx
		}
		a, running := told()
		time.Sleep(10 * expireEvery)
		if why, _ := a.stoppedBy(); why != notStopped {
			t.Fatalf("told to stop, with an hour left: %v", why)
		}
		s.Halt()
		time.Sleep(time.Millisecond)
		cause, is := errors.AsType[*jobs.Stop](context.Cause(running))
		if why, _ := a.stoppedBy(); why != stopDrained || !is {
			t.Fatalf("told to stop at once, it goes on: %v", why)
		}
		if left := time.Until(cause.KillBy); left > haltGrace || left < haltGrace-2*time.Millisecond {
			t.Errorf("it has %v to end", left)
		}
		_, late := told() // it began meanwhile
		time.Sleep(expireEvery)
		if late.Err() == nil {
			t.Error("what began as the replica was told to stop goes on")
		}
		stop()
		<-ended
	})
}

// Before its deadline an attempt has its grace period to end by itself, but no more than two seconds or a fifth of
// the session ttl.
func TestHowLongBeforeItsTimeIsOverWorkIsTold(t *testing.T) {
	const second = time.Second
	for _, c := range []struct{ grace, ttl, told time.Duration }{
		{second, 10 * second, second}, {30 * second, 20 * second, 2 * second}, {30 * second, 5 * second, second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := replicaOn(t, replicatest.NewPicky(nil), replicatest.Blocked{})
			s.work.opt.StopGrace, s.work.opt.SessionTTL = c.grace, c.ttl
			trust := boottime.Awake().Add(5 * second)
			s.assume(&membership.Session{ID: "session", Trust: trust})
			a := &attempt{task: &jobs.Task{ID: "1"}, session: "session", work: plan.Execution{Timeout: time.Hour}}
			running, end := a.begin(t.Context())
			defer end()
			s.work.register.run(a)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); s.work.expire(ctx) }()
			<-running.Done()
			if left := trust.Until(); left != c.told {
				t.Errorf("with a grace period of %v and a session ttl of %v it is told %v before", c.grace, c.ttl, left)
			}
			stop()
			<-ended
		})
	}
}
