package scheduler_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// slowFails is fails with attempts that take a while, so that not all have ended before the first failure is recorded.
type slowFails struct{ fails }

func (f *slowFails) Run(ctx context.Context, t jobs.Task, out io.Writer) error {
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Millisecond):
	}
	return f.fails.Run(ctx, t, out)
}

// Replicas whose attempts fail at the same time pause the pool once, with one notification. After it was resumed, what is left runs.
func TestPauseOn(t *testing.T) {
	t.Parallel()
	for _, db := range []database{sqlite(t), mysql(t)} {
		t.Run(db.driver, func(t *testing.T) {
			told := &inbox{}
			work := &slowFails{}
			work.Store(true)
			set := jobs.Set{Pools: map[string]jobs.Pool{"p": {
				Handler: work, Workers: 4, Retries: jobs.Retries{Limit: jobs.NoRetries}, PauseOn: jobs.PauseOn{Failures: 50, Of: 40},
				Notify: jobs.Notify{On: []jobs.Event{jobs.EventPaused}, Handler: told},
			}}}
			st := db.open(t)
			first := start(t, db.open(t), nil, set, scheduler.Options{ID: "a"})
			for _, id := range []string{"b", "c"} {
				start(t, db.open(t), nil, set, scheduler.Options{ID: id})
			}
			ids := enqueue(t, st, first, 200)
			pool := func() (paused bool, by, why string, pending, running int) {
				pools, err := st.Sides().API.Pools(t.Context())
				if err != nil {
					return false, "", "", 0, 1
				}
				for _, p := range pools {
					if p.Name == "p" {
						return p.Paused != nil && *p.Paused, p.PausedBy, p.PauseReason, p.Pending, p.Running
					}
				}
				return false, "", "", 0, 1
			}
			await.Until(t, "the pool is paused, and nothing runs", func() bool { paused, _, _, _, running := pool(); return paused && running == 0 })
			_, by, why, pending, _ := pool()
			if by != "pause_on" || !strings.HasPrefix(why, "20 of the last 20 attempts failed; ") || pending == 0 {
				t.Errorf("paused by %q: %q, with %d pending", by, why, pending)
			}
			told.wants(t, "paused pool p")
			await.Until(t, "nothing is left", func() bool { return events(t, st) == 0 })
			work.Store(false)
			no := false
			if err := st.Sides().API.PausePool(t.Context(), "p", "ann", &no); err != nil {
				t.Fatal(err)
			}
			good := 0
			for _, id := range ids {
				if ended(t, st, id).State == jobs.StateSucceeded {
					good++
				}
			}
			if good != pending {
				t.Errorf("%d succeeded after the pause, want the %d that were left", good, pending)
			}
			if told.wants(t, "paused pool p"); len(told.byID()) != 1 {
				t.Errorf("told %v", told.byID())
			}
		})
	}
}
