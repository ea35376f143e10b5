package embedding

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/api/page"
	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

func mount(mux *http.ServeMux, st *store.Store, replica *scheduler.Scheduler) {
	lockstep := api.New(api.Backend{Store: st, Replica: replica}, api.Options{
		Hosts: []string{"shop.example.org"}, // names by which people reach your server
		Page:  page.Handler(),               // what people see at /lockstep/; leave it out to have the API alone
	})
	mux.Handle("/lockstep/", http.StripPrefix("/lockstep", lockstep))
}

func dashboard(mux *http.ServeMux, st *store.Store) {
	lockstep := api.New(api.Backend{Store: st}, api.Options{Page: page.Handler()}) // no Replica
	mux.Handle("/lockstep/", http.StripPrefix("/lockstep", lockstep))
}

// A process without a replica serves the store, refuses what needs a replica, and never returns 500.
func TestDashboard(t *testing.T) {
	_, st := database(t)
	replica, err := scheduler.New(st, nil, jobs.Set{
		Pools: map[string]jobs.Pool{"mail": {Handler: jobs.Func(func(context.Context, jobs.Task, Letter) error { return nil })}},
		Jobs:  map[string]jobs.Job{"digest": {Pool: "mail", Schedule: "@daily", Payload: Letter{To: "ada"}}},
	}, scheduler.Options{})
	if err != nil {
		t.Fatal(err)
	}
	start(t, replica)
	await.Until(t, "the definitions are loaded", replica.Loaded)
	mux := http.NewServeMux()
	dashboard(mux, st)
	server := httptest.NewServer(mux)
	defer server.Close()
	c, err := client.New(server.URL+"/lockstep", client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	tasks, err := c.Enqueue(ctx, jobs.NewTask{Pool: "mail", Payload: Letter{To: "ada"}})
	if err != nil || tasks[0].Existed {
		t.Fatalf("%v, %v", tasks, err)
	}
	await.Until(t, "the replica has done what the dashboard enqueued", func() bool {
		task, err := c.Task(ctx, tasks[0].ID)
		return err == nil && task.Task.State == jobs.StateSucceeded
	})
	_, run := c.RunJob(ctx, "digest")
	_, next := c.Next(ctx, "digest", 1)
	_, retry := c.Retry(ctx, tasks[0].ID)
	for what, err := range map[string]error{"run": run, "next": next, "retry": retry} {
		if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Status != http.StatusNotImplemented || refused.Code != "no_replica" {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, list := c.Jobs(ctx, wire.Page{})
	_, job := c.Job(ctx, "digest")
	_, suspend := c.SuspendJob(ctx, "digest")
	_, pools := c.Pools(ctx, wire.Page{})
	_, pause := c.PausePool(ctx, "mail")
	_, replicas := c.Replicas(ctx, wire.Page{})
	_, ready := c.Ready(ctx)
	if err := errors.Join(list, job, suspend, pools, pause, replicas, ready); err != nil {
		t.Error(err)
	}
	page, err := server.Client().Get(server.URL + "/lockstep/")
	if err != nil {
		t.Fatal(err)
	}
	page.Body.Close()
	if page.StatusCode != http.StatusOK {
		t.Errorf("the page: %s", page.Status)
	}
}

// The API below a prefix of the program's own mux: everything is reached, and nothing leads out of it.
func TestMount(t *testing.T) {
	_, st := database(t)
	replica, err := scheduler.New(st, nil, jobs.Set{Pools: map[string]jobs.Pool{
		"mail": {Handler: jobs.Func(func(context.Context, jobs.Task, Letter) error { return nil })},
	}}, scheduler.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.AddPools(t.Context(), replica.Set().Pools); err != nil {
		t.Fatal(err)
	}
	start(t, replica)
	await.Until(t, "the definitions are loaded", replica.Loaded)
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the shop") })
	mount(mux, st, replica)
	server := httptest.NewServer(mux)
	defer server.Close()

	for _, c := range []struct {
		method, path, body string
		status             int
		contains           string
	}{
		{"GET", "/", "", 200, "the shop"},
		{"GET", "/api/v1/pools", "", 200, "the shop"},
		{"GET", "/lockstep/healthz", "", 200, "live"},
		{"GET", "/lockstep/api/v1/pools", "", 200, `"name":"mail"`},
		{"POST", "/lockstep/api/v1/pools/mail/tasks", `{"payload":{"To":"ada"}}`, 201, `"pool":"mail"`},
		{"GET", "/lockstep/api/v1/pools/none/tasks", "", 405, "error"},
		{"GET", "/lockstep/none", "", 404, "error"},
		{"GET", "/lockstep/lockstep/healthz", "", 404, "error"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.body != "" {
			request.Header.Set("Content-Type", "application/json")
		}
		answer, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != c.status || !strings.Contains(string(text), c.contains) {
			t.Errorf("%s %s: %d %s %v", c.method, c.path, answer.StatusCode, text, err)
		}
		if strings.HasPrefix(c.path, "/lockstep") && answer.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", c.path, answer.Header)
		}
	}
	c, err := client.New(server.URL+"/lockstep", client.Options{}) // as the commands' --server
	if err != nil {
		t.Fatal(err)
	}
	if pools, err := c.Pools(t.Context(), wire.Page{}); err != nil || len(pools.Items) != 2 {
		t.Errorf("the client gets %v, %v", pools, err)
	}
	foreign, _ := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/lockstep/healthz", nil)
	foreign.Host = "evil.example"
	answer, err := server.Client().Do(foreign)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("a foreign host gets %d", answer.StatusCode)
	}
}
