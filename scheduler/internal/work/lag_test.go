package work

import (
	"fmt"
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

func TestLagIsCountedFromWhenTheTaskWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Date(2026, 1, 1, 2, 0, 0, 0, time.UTC)
		p, err := plan.New(jobs.Set{Jobs: map[string]jobs.Job{"j": {Schedule: "@hourly", Handler: replicatest.Nothing{}, CatchUp: jobs.CatchUp{Grace: 10 * time.Second}}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := &Executor{clock: membership.NewClock(time.Second)}
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
			if got := s.lag(p, c.task).Round(time.Second); got != c.want { // the clock since boot is a real one in bubbles too
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
			}
		}
	})
}

// With jitter a run is not late while it waits for its start: its lag is counted from there, and so is the grace.
func TestLagIsCountedFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := plan.New(jobs.Set{Jobs: map[string]jobs.Job{"j": {Schedule: "@hourly", Jitter: 59 * time.Minute, Handler: replicatest.Nothing{}, CatchUp: jobs.CatchUp{Grace: 10 * time.Second}}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			s := &Executor{clock: membership.NewClock(time.Second)}
			plan.NewCurrent(p).In(fmt.Sprint("n", n))
			due := time.Date(2026, 1, 1, 2, 0, 0, 0, time.UTC)
			start := p.Jobs["j"].Starts(fmt.Sprint("n", n)).Of(due)
			s.clock.Observe(boottime.Now(), start.Add(time.Minute))
			for decided, want := range map[time.Duration]time.Duration{10 * time.Second: time.Minute, 10*time.Second + 1: 50 * time.Second} {
				got := s.lag(p, jobs.Task{Job: "j", Attempt: 1, ScheduledAt: due, RunAt: start.Add(decided)})
				if got.Round(time.Second) != want {
					t.Errorf("decided %v after its start: %v, want %v", decided, got, want)
				}
			}
		}
	})
}

// The results of claims, for metrics.
func TestWhatCameOfAClaim(t *testing.T) {
	tasks := []ledger.Started{{Task: &jobs.Task{ID: "1"}}}
	for _, c := range []struct {
		got  ledger.Claimed
		err  error
		want string
	}{
		{ledger.Claimed{}, fmt.Errorf("claim: %w", ledger.ErrOutdated), ledger.ClaimOutdated},
		{ledger.Claimed{}, jobs.ErrUnavailable, ledger.ClaimFailed},
		{ledger.Claimed{Tasks: tasks, Full: true}, nil, ledger.ClaimTook},
		{ledger.Claimed{Paused: true}, nil, ledger.ClaimPaused},
		{ledger.Claimed{Full: true}, nil, ledger.ClaimFull},
		{ledger.Claimed{}, nil, ledger.ClaimEmpty},
	} {
		if got := c.got.Result(c.err); got != c.want {
			t.Errorf("%+v, %v: %s, want %s", c.got, c.err, got, c.want)
		}
	}
}

// A due time that is decided at the end of its grace is not caught up: its lag is counted from the due time.
func TestLagAtTheEndOfTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := newOn(replicatest.NewPicky(nil), nil, jobs.Set{Jobs: map[string]jobs.Job{"j": {Schedule: "@hourly", Handler: replicatest.Nothing{}, CatchUp: jobs.CatchUp{Grace: 10 * time.Second}}}}, Options{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		s.members.Clock().Observe(boottime.Now(), at.Add(time.Minute))
		for decided, want := range map[time.Duration]time.Duration{10 * time.Second: time.Minute, 10*time.Second + 1: 50 * time.Second} {
			got := s.work.lag(s.plan, jobs.Task{Job: "j", Attempt: 1, ScheduledAt: at, RunAt: at.Add(decided)})
			if got.Round(time.Second) != want {
				t.Errorf("decided after %v: %v, want %v", decided, got, want)
			}
		}
	})
}
