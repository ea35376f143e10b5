package work

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// lingering is a handler that returns some time after its context is done, and may have a grace period of its own.
type lingering struct {
	takes, grace time.Duration
}

func (l lingering) Run(ctx context.Context, _ jobs.Task, _ io.Writer) error {
	<-ctx.Done()
	time.Sleep(l.takes)
	return ctx.Err()
}

func (l lingering) StopGrace() time.Duration { return l.grace }

func (lingering) Describe() string { return "lingering" }

// An attempt that goes on after it was told to stop is logged once its grace period and unresponsiveMargin are over, and then
// once a minute: with its task, why it was told to stop, and when.
func TestWhatGoesOnAfterItWasToldToStopIsLogged(t *testing.T) {
	const grace = 20 * time.Second
	line := func(reason, told string) string {
		return "an attempt goes on after it was told to stop; its handler must return once its context is done " +
			"task=1 job= pool=p kind= attempt=1 reason=" + reason + " told=" + told + " ago"
	}
	for what, c := range map[string]struct {
		takes  time.Duration
		cancel bool
		want   []string
	}{
		"it ends within its grace period": {grace, false, nil},
		"it ends a moment after it":       {grace + unresponsiveMargin - time.Second, false, nil},
		"it goes on":                      {grace + unresponsiveMargin + 2*unresponsiveEvery + time.Second, false, []string{line("timeout after 1m0s", "25s"), line("timeout after 1m0s", "1m25s"), line("timeout after 1m0s", "2m25s")}},
		"it goes on, and was cancelled":   {grace + unresponsiveMargin + time.Second, true, []string{line("cancelled by ann", "25s")}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &replicatest.Lines{}
				s := executing(t, lingering{c.takes, grace}, nil)
				s.work.log = slog.New(log)
				s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(24 * time.Hour)})
				ctx, stop := context.WithCancel(t.Context())
				looked := make(chan struct{})
				go func() { defer close(looked); s.work.expire(ctx) }()
				if c.cancel {
					time.AfterFunc(time.Second, func() { s.work.register.attemptAt("1").stop(stopCancelled, "cancelled by ann", time.Time{}) })
				}
				s.work.execute(ctx, claimOf("1"))
				time.Sleep(2 * unresponsiveEvery)
				stop()
				<-looked
				if diff := cmp.Diff(c.want, []string(log.Take())); diff != "" {
					t.Errorf("logged (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// The name of an attempt has the job or the kind, and the pool.
func TestTheNameOfAnAttempt(t *testing.T) {
	for want, task := range map[string]jobs.Task{
		"task 1 of job j of pool p":  {ID: "1", Job: "j", Pool: "p"},
		"task 1 of kind k of pool p": {ID: "1", Kind: "k", Pool: "p"},
		"task 1 of pool p":           {ID: "1", Pool: "p"},
	} {
		if got := (&attempt{task: &task}).name(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
