package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

func TestLagIsCountedFromWhenTheTaskWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Date(2026, 1, 1, 2, 0, 0, 0, time.UTC)
		p, err := plan.New(jobs.Set{Jobs: map[string]jobs.Job{"j": {Schedule: "@hourly", Handler: replicatest.Nothing{}, CatchUp: jobs.CatchUp{Grace: 10 * time.Second}}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := &executor{plan: p, clock: membership.NewClock(time.Second)}
		s.clock.Observe(boottime.Now(), now)
		for _, c := range []struct {
			name string
			task jobs.Task
			want time.Duration
		}{
			{"of a pool, since it may run", jobs.Task{Attempt: 1, RunAt: now.Add(-time.Minute)}, time.Minute},
			{"of a job, since its due time", jobs.Task{Job: "j", Attempt: 1, ScheduledAt: now.Add(-5 * time.Second), RunAt: now.Add(-time.Second)}, 5 * time.Second},
			{"caught up, since it was decided", jobs.Task{Job: "j", Attempt: 1, ScheduledAt: now.Add(-time.Hour), RunAt: now.Add(-time.Second)}, time.Second},
			{"again, since the backoff", jobs.Task{Job: "j", Attempt: 2, ScheduledAt: now.Add(-5 * time.Second), RunAt: now.Add(-time.Second)}, time.Second},
			{"by hand, since then", jobs.Task{Job: "j", Attempt: 1, Seq: 1, ScheduledAt: now.Add(-5 * time.Second), RunAt: now.Add(-time.Second)}, time.Second},
			{"never less than nothing", jobs.Task{Attempt: 1, RunAt: now.Add(time.Hour)}, 0},
		} {
			if got := s.lag(c.task).Round(time.Second); got != c.want { // the clock since boot is a real one in bubbles too
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
			}
		}
	})
}
