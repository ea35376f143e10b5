package api

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// TestJobsThatNoWorkerTakes: due tasks of a job that is for workers are trouble while none lives that takes their kind, and the job and its tasks
// have the reason.
func TestJobsThatNoWorkerTakes(t *testing.T) {
	const why = `workers over HTTP run it, and no live one of pool mail takes kind \"pdf\": it waits for one`
	b := newBackend()
	job := jobs.Job{Pool: "mail", Kind: "pdf"}
	own := jobs.Job{Pool: "mail", Handler: jobs.Func(func(context.Context, jobs.Task, json.RawMessage) error { return nil })}
	b.set.Jobs["letter"], b.set.Jobs["own"] = job, own
	b.set.Pools["mail"] = jobs.Pool{Kinds: map[string]jobs.Handler{"pdf": jobs.Worker{}, "fax": jobs.Worker{}}}
	b.jobs = []ledger.JobStatus{{Job: wire.Job{Name: "letter", Open: 2}, Hash: job.Hash()}, {Job: wire.Job{Name: "own", Open: 1}, Hash: own.Hash()}}
	b.pools[1].ByWorkers, b.pools[1].Kinds = []string{"fax", "pdf"}, []string{"fax"}
	due := b.tasks[0].RunAt
	b.tasks = []jobs.Task{{ID: "first", Pool: "mail", Kind: "pdf", Job: "letter", State: jobs.StatePending, RunAt: due}}
	h := b.api(Options{})
	look := func() (trouble []ledger.Trouble) {
		t.Helper()
		got, err := newAPI(Backend{Store: ledger.Sides{API: b}, Replica: b}, Options{}).overview(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(got.Trouble, func(tr ledger.Trouble) bool { return tr.State != ledger.StateUnrunnable })
	}
	says := func(target, what string, want bool) {
		t.Helper()
		if w := ask(t, h, "GET", "/api/v1/"+target, ""); strings.Contains(w.Body.String(), what) != want {
			t.Errorf("%s: %s", target, w.Body)
		}
	}
	all := look()
	if len(all) != 1 || all[0].Job != "letter" || all[0].Pool != "mail" || all[0].Kind != "pdf" || all[0].Count != 1 || !all[0].At.Equal(due) || all[0].ReasonCode != "no_worker" || !strings.HasPrefix(all[0].Reason, "workers over HTTP run it") {
		t.Errorf("trouble: %+v", all)
	}
	for _, target := range []string{"jobs", "jobs/letter", "tasks", "tasks/first"} {
		says(target, why, true)
	}
	says("tasks/first", `"reason_code":"no_worker"`, true)
	says("jobs/own", "workers over HTTP", false)
	b.tasks[0].Job = "own"
	says("tasks/first", "workers over HTTP", false)
	b.tasks[0].Job = "letter"
	b.jobs[0].Hash = "other" // another configuration governs the job: what it is for is unknown here
	if all := look(); len(all) > 0 {
		t.Errorf("another configuration: %+v", all)
	}
	b.jobs[0].Hash = job.Hash()
	for name, kinds := range map[string][]string{"a worker takes it": {"fax", "pdf"}, "not known": nil} {
		b.pools[1].Kinds = kinds
		if all := look(); len(all) > 0 {
			t.Errorf("%s: %+v", name, all)
		}
		says("jobs/letter", "workers over HTTP", false)
		says("tasks/first", "workers over HTTP", false)
	}
	b.pools[1].ByWorkers, b.pools[1].Kinds = nil, []string{} // a newer configuration has the kind otherwise
	if all := look(); len(all) > 0 {
		t.Errorf("for replicas: %+v", all)
	}
	says("tasks/first", "reason", false)
}
