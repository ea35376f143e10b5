package scheduler_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// stepping is a skewed store that counts the heartbeats since its clock was stepped, and the looks at what there
// is to do, also of the first due time.
type stepping struct {
	*skewed
	stepped      atomic.Bool
	beats, looks atomic.Int64
}

func (s *stepping) step(by time.Duration) {
	s.stepped.Store(true)
	s.by.Store(int64(by))
}

func (s *stepping) Beat(ctx context.Context, session string) (time.Time, error) {
	at, err := s.skewed.Beat(ctx, session)
	if s.stepped.Load() && err == nil {
		s.beats.Add(1)
	}
	return at, err
}

func (s *stepping) Ready(ctx context.Context, now ledger.Judge) (ledger.Ready, error) {
	s.looks.Add(1)
	return s.skewed.Ready(ctx, now)
}

// The database's clock is stepped by an hour and stays there: it is believed after three heartbeats, not
// before, and then every due time is covered once.
func TestTheDatabaseClockStaysSteppedByAnHour(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			t.Parallel()
			db := sqlite(t)
			st := db.open(t)
			each := &stepping{skewed: skew(db.open(t).Sides().Replica, 0)}
			ran, long := &starts{}, newBlocking()
			h := does(func(ctx context.Context, task jobs.Task, out io.Writer) error {
				if ahead := time.Until(task.ScheduledAt); ahead > 0 && each.beats.Load() < 3 {
					t.Errorf("%v started %v early", task.ScheduledAt, ahead)
				}
				return ran.Run(ctx, task, out)
			})
			set := jobs.Set{Jobs: map[string]jobs.Job{
				"every-second": {Schedule: "* * * * * *", Handler: h},
				"j":            {Schedule: "@every 30m", Handler: long}, // the step goes over its next due time
			}}
			r := start(t, each, nil, set, scheduler.Options{ID: "a", SessionTTL: 6 * time.Second})
			a := runNow(t, r, long)
			await.Until(t, "it works", func() bool { return ran.count() >= 2 })
			session := peers(t, st)[0].Session

			each.step(step)
			stopped := time.Now().Add(time.Second) // decisions that were under way have ended by then
			await.Until(t, "readiness says so", func() bool { return !r.Health()[2].Ready })
			if _, _, err := r.RunJob(t.Context(), "every-second", "me", ""); !errors.Is(err, jobs.ErrUnavailable) {
				t.Errorf("a run by hand meanwhile: %v", err)
			}
			if n := each.beats.Load(); n > 2 {
				t.Errorf("readiness turned red after %d beats", n)
			}
			await.Until(t, "readiness is green again", func() bool { return r.Health()[2].Ready })
			if n := each.beats.Load(); n < 3 {
				t.Errorf("believed after %d beats", n)
			}
			had, looks := ran.count(), each.looks.Load()
			if step > 0 {
				await.Until(t, "it goes on", func() bool { return ran.count() >= had+2 })
			} else {
				await.Until(t, "it has looked for due times", func() bool { return each.looks.Load() >= looks+4 })
				if ran.count() > had {
					t.Errorf("%d due times ran in an hour that had been", ran.count()-had)
				}
			}
			rows := ledgerOf(t, st, "every-second")
			covered(t, rows)
			ran.onlyOnce(t)
			made := 0
			for _, row := range rows {
				if row.DecidedAt.After(stopped) && row.DecidedAt.Before(stopped.Add(step/2)) {
					t.Errorf("%v was decided while readiness was red", row.At)
				}
				if row.Outcome == jobs.Missed && row.Cause == jobs.CauseCatchUp {
					made += row.Count
				}
			}
			if step > 0 && made < 3500 || step < 0 && made > 0 {
				t.Errorf("the catch-up covered %d due times", made)
			}

			if a.ctx.Err() != nil {
				t.Errorf("the attempt under way was stopped: %v", context.Cause(a.ctx))
			}
			if now := peers(t, st); len(now) != 1 || now[0].Session != session {
				t.Errorf("sessions %v, want only %s", now, session)
			}
			close(long.finish)
			if got := ended(t, st, a.task.ID); got.State != jobs.StateSucceeded || got.Attempt != 1 || got.Lost != 0 {
				t.Errorf("%s at attempt %d after %d losses", got.State, got.Attempt, got.Lost)
			}
		})
	}
}
