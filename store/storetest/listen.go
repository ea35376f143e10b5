package storetest

import (
	"errors"
	"slices"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// listened: replicas on a Store are notified of the pools of what it has enqueued or retried, once it is committed, until they
// stop listening.
func listened(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p", "q")
	var told []string
	first := b.Store.Listen(func(pools ...string) {
		if n := b.DB.Int(t, `SELECT COUNT(*) FROM {tasks}`); n == 0 {
			t.Error("told before the commit")
		}
		told = append(told, pools...)
	})
	second := b.Store.Listen(func(...string) { told = append(told, "second") })
	want := func(what string, pools ...string) {
		t.Helper()
		if !slices.Equal(told, pools) {
			t.Errorf("%s: told of %q, want %q", what, told, pools)
		}
		told = nil
	}
	keyed := jobs.NewTask{Pool: "p", IdempotencyKey: "k"}
	Enqueue(t, b, keyed, newTask("q"), newTask("p"))
	want("three tasks", "p", "q", "second")
	second()
	Enqueue(t, b, keyed, newTask("q"))
	want("one that was there, and another one", "q")
	Enqueue(t, b, keyed)
	want("one that was there")
	if _, err := b.Store.Enqueue(t.Context(), newTask("nowhere")); !errors.Is(err, jobs.ErrNotFound) {
		t.Error(err)
	}
	want("one that was refused")

	task, _, err := b.Store.Task(t.Context(), Enqueue(t, b, newTask("q"))[0].ID)
	must(t, err)
	told = nil
	_, err = b.Store.Cancel(t.Context(), task.ID, "")
	must(t, err)
	want("a task that is cancelled")
	_, err = b.Store.Retry(t.Context(), task.ID, "", false)
	must(t, err)
	want("a task that is retried", "q")
	first()
	Enqueue(t, b, newTask("p"))
	want("after the end")
}
