package moving

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/schedulertest"
	"github.com/lockstep-scheduler/lockstep/store"
)

// Sync is what the class CrmSync had as arguments.
type Sync struct {
	UserID int    `json:"user_id"`
	Source string `json:"source"`
}

type crm struct {
	busy bool
	keys []string
}

func (c *crm) push(_ context.Context, s Sync, key string) error {
	if c.busy {
		return errors.New("503")
	}
	c.keys = append(c.keys, key)
	return nil
}

func (c *crm) sync(ctx context.Context, t jobs.Task, s Sync) error {
	if s.UserID == 0 {
		return jobs.Permanent(errors.New("no user")) // the dead set, without retries
	}
	return c.push(ctx, s, t.IdempotencyKey)
}

func (c *crm) report(context.Context, jobs.Task, struct{}) error { return nil }

func crmWork(c *crm) jobs.Set {
	return jobs.Set{
		Pools: map[string]jobs.Pool{"crm": {
			Workers:    10,                                      // concurrency
			MaxRunning: 50,                                      // Limiter.concurrent
			Rate:       jobs.Rate{Count: 300, Per: time.Minute}, // Limiter.leaky
			Retries:    jobs.Retries{Limit: 25, Backoff: 15 * time.Second},
			Kinds:      map[string]jobs.Handler{"CrmSync": jobs.Func(c.sync)},
		}},
		Jobs: map[string]jobs.Job{"report": {Schedule: "0 8 * * 1-5", Handler: jobs.Func(c.report)}},
	}
}

func syncSoon(ctx context.Context, st *store.Store, s Sync) error {
	_, err := st.Enqueue(ctx, jobs.NewTask{
		Pool: "crm", Kind: "CrmSync", Payload: s,
		RunAt:  time.Now().Add(10 * time.Minute),                                      // perform_in
		Unique: &jobs.Unique{By: []string{"kind", "payload.user_id"}, For: time.Hour}, // unique_for
	})
	return err
}

// The handler, the set and the enqueueing of Sidekiq's page.
func TestSidekiq(t *testing.T) {
	c := &crm{}
	b := schedulertest.New(t, crmWork(c), schedulertest.Options{})
	for range 2 {
		if err := syncSoon(t.Context(), b.Store(), Sync{7, "form"}); err != nil {
			t.Fatal(err)
		}
	}
	if waiting := b.Pending(); len(waiting) != 1 || time.Until(waiting[0].RunAt) < 9*time.Minute {
		t.Errorf("%+v", waiting)
	}
	b.Enqueue(jobs.NewTask{Pool: "crm", Kind: "CrmSync", Payload: Sync{8, "form"}}, jobs.NewTask{Pool: "crm", Kind: "CrmSync", Payload: Sync{}})
	states := map[jobs.State]int{}
	for _, task := range b.Drain() {
		states[task.State]++
	}
	if states[jobs.StateSucceeded] != 1 || states[jobs.StateFailed] != 1 || len(c.keys) != 1 {
		t.Errorf("%v, %v", states, c.keys)
	}
	c.busy = true
	b.Enqueue(jobs.NewTask{Pool: "crm", Kind: "CrmSync", Payload: Sync{9, "form"}})
	b.Drain()
	for _, task := range b.Pending() {
		if wait := time.Until(task.RunAt); wait < 11*time.Second || task.Attempt == 1 && wait > 19*time.Second {
			t.Errorf("attempt %d, in %v", task.Attempt, wait)
		}
	}
}
