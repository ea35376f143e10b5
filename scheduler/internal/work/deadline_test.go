package work

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// looks is a handler that notes what its context says.
type looks struct {
	at       time.Time // the deadline
	has      bool
	err      error // of the context, and of one below it, once it is done
	below    error
	cause    error
	stopHere time.Duration // not 0: it is cancelled after this
	s        *replica
}

func (*looks) Describe() string { return "looks" }

func (l *looks) Run(ctx context.Context, task jobs.Task, _ io.Writer) error {
	l.at, l.has = ctx.Deadline()
	below, cancel := context.WithTimeout(ctx, 1000*time.Hour)
	defer cancel()
	if l.stopHere > 0 {
		time.Sleep(l.stopHere)
		l.s.work.register.attemptAt(task.ID).stop(stopCancelled, "cancelled by ann", time.Time{})
	}
	<-below.Done()
	<-ctx.Done()
	l.err, l.below, l.cause = ctx.Err(), below.Err(), context.Cause(below)
	return ctx.Err()
}

// The deadline of a handler's context is its timeout. An earlier stop cancels the context.
func TestTheDeadlineOfAContextIsTheTimeout(t *testing.T) {
	const timeout = 30 * time.Minute // of pools
	for what, c := range map[string]struct {
		stop   time.Duration
		err    error
		reason string
		state  jobs.State
	}{
		"it times out":                {0, context.DeadlineExceeded, "timeout after 30m0s", jobs.StateFailed},
		"it is stopped before":        {time.Minute, context.Canceled, "cancelled by ann", jobs.StateCancelled},
		"it is stopped when it ended": {timeout + time.Second, context.DeadlineExceeded, "timeout after 30m0s", jobs.StateFailed},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &looks{stopHere: c.stop}
				l.s = replicaOn(t, replicatest.NewPicky(nil), l)
				l.s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(24 * time.Hour)})
				began := time.Now()
				l.s.work.execute(context.Background(), claimed{task: &jobs.Task{ID: "1", Pool: "p", Attempt: 11}, session: "session"})
				if !l.has || !l.at.Equal(began.Add(timeout)) {
					t.Errorf("the deadline is %v, %v; want %v", l.at, l.has, began.Add(timeout))
				}
				stop, is := errors.AsType[*jobs.Stop](l.cause)
				if !errors.Is(l.err, c.err) || !errors.Is(l.below, c.err) || !is || stop.Reason != c.reason || stop.Kill == nil {
					t.Errorf("the context says %v, one below it %v, and the cause is %v", l.err, l.below, l.cause)
				}
				got := l.s.work.recorder.take()[0].result
				if got.State != c.state || got.Reason != c.reason || got.Verdict != ledger.Ended {
					t.Errorf("recorded as %+v", got)
				}
			})
		})
	}
}

// A handler that ends in time is not timed out, however late its end is recorded.
func TestWhatEndsInTimeIsNotTimedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &attempt{work: plan.Execution{Timeout: time.Second}}
		ctx, end := a.begin(t.Context())
		time.Sleep(time.Second - 1)
		end()
		time.Sleep(time.Minute)
		if why, reason := a.stoppedBy(); why != notStopped || reason != "" || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("stopped by %v, %q: %v", why, reason, ctx.Err())
		}
	})
}
