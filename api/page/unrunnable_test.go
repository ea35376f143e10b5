package page_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// Unrunnable tasks are the first finding, and a row of the failures: of a kind without a handler, and of a job whose
// labels no live replica has.
func TestUnrunnableTasks(t *testing.T) {
	t.Parallel()
	s := newScene(t, jobs.Set{
		Jobs:  map[string]jobs.Job{"report": {Handler: does(fine), RunsOn: map[string]string{"zone": "b"}}},
		Pools: map[string]jobs.Pool{"mail": {Kinds: map[string]jobs.Handler{"welcome": does(fine)}}},
	}, api.Options{})
	b := newTab(t, 1200)
	b.navigate(s.url)
	b.says("#headline", "Healthy")

	for range 2 {
		if _, err := s.store.Enqueue(t.Context(), jobs.NewTask{Pool: "mail", Kind: "welcom", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	b.says("#headline", "One problem")
	b.says("#findings", `mail: 2 tasks wait and will not run: no live replica has kind "welcom" in the pool`)
	b.says("#trouble", "mail / welcom")
	b.says("#trouble", "unrunnable")
	b.says("#trouble", "2 tasks")

	_, task, err := s.replica.RunJob(t.Context(), "report", "test", "")
	if err != nil {
		t.Fatal(err)
	}
	b.says("#headline", "2 problems")
	b.says("#findings", "report: a task waits and will not run: no live replica has the labels that the job runs on (zone=b)")
	b.navigate(s.url + "jobs/report")
	b.says("#headline", "No live replica runs it")
	b.says("#facts", "no live replica has the labels that the job runs on (zone=b)")
	b.click(`button[data-task="` + task.ID + `"]`)
	b.says(".more", "Why it waits")
	b.says(".causes", "no_replica no live replica has the labels that job report runs on (zone=b); live are replica-1")
	b.says(".more", "Expected start unknown: it is not known when this ends")

	// A cancelled task is not pending.
	if _, err := s.store.Cancel(t.Context(), task.ID, "test"); err != nil {
		t.Fatal(err)
	}
	b.navigate(s.url)
	b.says("#headline", "One problem")
}

// A task of a kind that only an older configuration has is unrunnable, as the newer one governs. Every replica says so,
// also the one with the older configuration, which has a handler and must not use it.
func TestAKindThatOnlyTheOlderConfigurationHas(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "lockstep.db")
	open := func(id string, kinds ...string) *scene {
		pool := jobs.Pool{Kinds: map[string]jobs.Handler{}}
		for _, kind := range kinds {
			pool.Kinds[kind] = does(fine)
		}
		return newSceneOn(t, "sqlite", file, jobs.Set{Pools: map[string]jobs.Pool{"mail": pool}}, api.Options{}, scheduler.Options{ID: id})
	}
	older := open("older", "welcome", "fax")
	newer := open("newer", "welcome")
	await.Until(t, "the newer one governs", func() bool { return older.replica.Vitals().ForeignPools == 1 })
	made, err := older.store.Enqueue(t.Context(), jobs.NewTask{Pool: "mail", Kind: "fax", Force: true})
	if err != nil {
		t.Fatal(err)
	}
	id := made[0].Task.ID
	for _, s := range []*scene{older, newer} {
		c, err := client.New(s.url, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		one, err := c.Task(t.Context(), id)
		if err != nil || !strings.Contains(one.Task.Reason, `no live replica has kind "fax" in the pool: it will not run`) {
			t.Errorf("%s: %v: the task says %q", s.replica.ID(), err, one.Task.Reason)
		}
		list, err := c.Tasks(t.Context(), wire.TaskFilter{Pool: "mail"})
		if err != nil || len(list.Items) != 1 || list.Items[0].Reason != one.Task.Reason {
			t.Errorf("%s: %v: the list says %+v", s.replica.ID(), err, list.Items)
		}
	}
}

// A job that no configuration has any more shows what is known of it, and nothing of what is not.
func TestARetiredJob(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "lockstep.db")
	with := jobs.Set{Jobs: map[string]jobs.Job{"old": {Handler: does(fine), Schedule: "0 0 1 1 *"}}}
	newSceneOn(t, "sqlite", file, with, api.Options{}, scheduler.Options{ID: "older"})
	s := newSceneOn(t, "sqlite", file, jobs.Set{}, api.Options{}, scheduler.Options{ID: "newer"})
	b := newTab(t, 1200)
	b.navigate(s.url + "jobs/old")
	b.says("#due", "Retired.")
	if facts := b.text("#facts"); strings.Contains(facts, "undefined") || strings.Contains(facts, "on demand") {
		t.Errorf("the page says of a retired job: %s", facts)
	}
}
