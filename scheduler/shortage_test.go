package scheduler_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// cramped is a handler on a machine without room, while full is set.
type cramped struct {
	full atomic.Bool
	asks atomic.Int64
	ran  atomic.Int64
}

func (c *cramped) Run(context.Context, jobs.Task, io.Writer) error {
	c.asks.Add(1)
	if c.full.Load() {
		return fmt.Errorf("%w: cannot start it: %w", abort.ErrNoRoom, syscall.EMFILE)
	}
	c.ran.Add(1)
	return nil
}

// A task that cannot be started for want of room is not failed, and not tried in a loop: it waits with the
// reason, uses up no attempt, readiness says so, and it runs once there is room.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	st := sqlite(t).open(t)
	h := &cramped{}
	h.full.Store(true)
	set := pool(h, func(p *jobs.Pool) { p.Workers = 1 })
	set.Jobs = map[string]jobs.Job{"j": {Handler: h}}
	r := start(t, st, nil, set, scheduler.Options{ID: "a"})
	id := enqueue(t, st, r, 1)[0]
	await.Until(t, "it was tried", func() bool { return h.asks.Load() >= 1 })
	await.Until(t, "it was handed back, with the reason", func() bool {
		got := task(t, st, id)
		return got.State == jobs.StatePending && got.Attempt == 0 && strings.Contains(got.Reason, "too many open files")
	})
	if _, _, err := r.RunJob(t.Context(), "j", "me", ""); err != nil {
		t.Fatal(err)
	}
	conditions := r.Health()
	if last := conditions[len(conditions)-1]; last.Name != "room" || last.Ready || !strings.Contains(last.Detail, "too many open files") {
		t.Errorf("conditions %+v", conditions)
	}
	began, asked := time.Now(), h.asks.Load()
	await.Until(t, "it was tried again, and again", func() bool { return h.asks.Load() >= asked+2 })
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("tried again within %v", took)
	}
	h.full.Store(false)
	await.Until(t, "both ran", func() bool { return h.ran.Load() == 2 })
	await.Until(t, "it has succeeded at the first attempt", func() bool {
		got := task(t, st, id)
		return got.State == jobs.StateSucceeded && got.Attempt == 1 && got.Reason == ""
	})
	await.Until(t, "readiness says nothing of it any more", func() bool {
		conditions := r.Health()
		return conditions[len(conditions)-1].Name != "room"
	})
}

// Another replica runs the tasks that one has no room for, due times included, at once.
func TestNoRoomHereIsNoTroubleElsewhere(t *testing.T) {
	t.Parallel()
	db := sqlite(t)
	full, free := &cramped{}, &cramped{}
	full.full.Store(true)
	set := func(h jobs.Handler) jobs.Set {
		s := pool(h, nil)
		s.Jobs = map[string]jobs.Job{"j": {Schedule: "* * * * * *", Handler: h, Concurrency: jobs.Allow}}
		return s
	}
	st := db.open(t)
	r := start(t, st, nil, set(full), scheduler.Options{ID: "a"})
	start(t, db.open(t), nil, set(free), scheduler.Options{ID: "b"})
	ids := enqueue(t, st, r, 100)
	await.Until(t, "all has been done", func() bool {
		for _, id := range ids {
			if got := task(t, st, id); got.State != jobs.StateSucceeded || got.Attempt != 1 {
				return false
			}
		}
		return free.ran.Load() > 103
	})
}
