package page_test

import (
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

// TestDefinitions: the page of a job has the definition that governs and those before it, each with what it has changed, and says where the
// replica that serves the page has another one.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	dsn := filepath.Join(t.TempDir(), "lockstep.db")
	set := func(j jobs.Job) jobs.Set {
		j.Handler = does(fine)
		return jobs.Set{Jobs: map[string]jobs.Job{"backup": j}}
	}
	old := newSceneOn(t, "sqlite", dsn, set(jobs.Job{Schedule: "@yearly", Priority: 3}), api.Options{}, scheduler.Options{ID: "replica-1"})
	b := newTab(t, 1280)
	b.navigate(old.url + "jobs/backup")
	b.says("#history", "the first one")
	b.says("#history", "it governs")
	b.says("#facts", "configuration 1, since")
	first := b.text("#history code")
	if text := b.text("#lists"); len(first) != 16 || strings.Contains(text, "this replica has") || !strings.Contains(b.text("#facts"), first) {
		t.Errorf("of one definition the page says:\n%s", text)
	}

	// A newer configuration governs; the page is that of the replica with the older one.
	newer := newSceneOn(t, "sqlite", dsn, set(jobs.Job{Schedule: "@weekly", Priority: 3}), api.Options{}, scheduler.Options{ID: "replica-2"})
	b.says("#history", `schedules: ["@yearly"] → ["@weekly"]`)
	b.says("#facts", "configuration 2, since")
	b.says("#facts", "this replica has another one, as it is shown here: "+first)
	b.says("#history tbody tr:nth-child(2)", "this replica has it")
	if text := b.text("#history"); strings.Contains(text, "priority") || strings.Count(text, "it governs") != 1 {
		t.Errorf("of two definitions the page says:\n%s", text)
	}
	b.navigate(newer.url + "jobs/backup")
	b.says("#history", "the first one")
	if text := b.text("#lists"); strings.Contains(text, "this replica has") {
		t.Errorf("where the one that governs is the replica's, the page says:\n%s", text)
	}
}

// TestRefusedFile: that the file of the replica cannot be used is a warning of the first page, and on that of a job beside the definition that
// it has until then.
func TestRefusedFile(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	const wrong = "cannot be used, and the one before holds: lockstep.yaml:7:3: unknown key scedule; did you mean schedule?"
	s := newScene(t, jobs.Set{Jobs: map[string]jobs.Job{"backup": {Schedule: "@yearly", Handler: does(fine)}}}, api.Options{Conditions: func() []wire.Condition {
		if !broken.Load() {
			return nil
		}
		return []wire.Condition{{Name: "configuration file", Ready: true, Detail: wrong}}
	}})
	all, one := newTab(t, 1280), newTab(t, 390)
	all.navigate(s.url)
	one.navigate(s.url + "jobs/backup")
	all.says("#headline", "Healthy")
	one.says("#facts", "@yearly")
	broken.Store(true)
	all.says("#findings", wrong)
	all.says("#headline", "One warning")
	one.says("#facts", wrong)
	broken.Store(false)
	all.says("#headline", "Healthy")
	one.until("the warning is gone", `!document.querySelector("#facts").innerText.includes("cannot be used")`)
}
