package scheduler_test

import (
	"context"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

// The tasks run one after the other on the only worker of their pool, so each needs what the one before
// had. The second batch is claimed at once and nothing is claimed after it: only the queue has it.
func TestAHandlerThatEndsItsGoroutineFailsOnlyItsAttempt(t *testing.T) {
	st := sqlite(t).open(t)
	h := does(func(_ context.Context, _ jobs.Task, out io.Writer) error {
		io.WriteString(out, "before")
		runtime.Goexit()
		return nil
	})
	var enough atomic.Bool
	once := claims{st.Sides().Replica, func(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
		if enough.Load() {
			return ledger.Claimed{}, nil
		}
		got, err := st.Sides().Replica.Claim(ctx, c)
		enough.Store(len(got.Tasks) > 1)
		return got, err
	}}
	r := start(t, once, nil, pool(h, func(p *jobs.Pool) {
		p.Workers, p.Retries = 1, jobs.Retries{Limit: jobs.NoRetries}
	}), scheduler.Options{ID: "a"})
	for _, lot := range []int{1, 3} {
		for _, id := range enqueue(t, st, r, lot) {
			got := ended(t, st, id)
			if got.State != jobs.StateFailed || got.Attempt != 1 || !strings.Contains(got.Error, "ended its goroutine") {
				t.Fatalf("%s after %d attempts, %q", got.State, got.Attempt, got.Error)
			}
		}
	}
	if err := r.drain(); err != nil {
		t.Error(err)
	}
}
