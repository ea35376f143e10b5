package pools

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/schedulertest"
	"github.com/lockstep-scheduler/lockstep/store"
)

type document struct {
	ID   int    `json:"id"`
	Text string `json:"text"`
}

// changed has a document indexed once it was not changed for five seconds.
func changed(ctx context.Context, st *store.Store, d document) error {
	_, err := st.Enqueue(ctx, jobs.NewTask{
		Pool: "index", Payload: d, RunAt: time.Now().Add(5 * time.Second),
		Unique: &jobs.Unique{By: []string{"payload.id"}, While: jobs.WhilePending, OnConflict: jobs.ConflictReplaces},
	})
	return err
}

// Of the changes of each document the last one is indexed, five seconds after it; one that is made meanwhile is not missed.
func TestDebounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		indexed := map[int][]string{}
		var b *schedulertest.Bench
		change := func(d document) {
			t.Helper()
			if err := changed(t.Context(), b.Store(), d); err != nil {
				t.Error(err)
			}
		}
		b = schedulertest.New(t, jobs.Set{Pools: map[string]jobs.Pool{"index": {Handler: jobs.Func(func(_ context.Context, _ jobs.Task, d document) error {
			indexed[d.ID] = append(indexed[d.ID], d.Text)
			if d.Text == "ab" {
				change(document{1, "abc"})
			}
			return nil
		})}}}, schedulertest.Options{})
		change(document{1, "a"})
		change(document{2, "x"})
		b.RunUntil(time.Now().Add(4 * time.Second))
		change(document{1, "ab"})
		b.RunUntil(time.Now().Add(2 * time.Second)) // 6 s after the first
		if len(indexed[1]) != 0 || len(indexed[2]) != 1 {
			t.Errorf("after 6 s: %v", indexed)
		}
		b.RunUntil(time.Now().Add(10 * time.Second))
		if got := indexed[1]; len(got) != 2 || got[0] != "ab" || got[1] != "abc" {
			t.Errorf("%v", indexed)
		}
	})
}
