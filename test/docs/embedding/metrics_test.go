package embedding

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/metrics"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

func measured(st *store.Store, work jobs.Set) (*scheduler.Scheduler, *metrics.Metrics, error) {
	m := metrics.New(st, metrics.Options{}) // give it to locks.Options.Observer as well, if you have locks
	replica, err := scheduler.New(st, nil, work, scheduler.Options{Observer: m})
	return replica, m, err
}

func expose(ctx context.Context, mux *http.ServeMux, replica *scheduler.Scheduler, m *metrics.Metrics) error {
	mux.Handle("GET /metrics", m.Handler())
	return m.Run(ctx, replica) // beside replica.Run; nil once ctx is done
}

func TestMetrics(t *testing.T) {
	_, st := database(t)
	replica, m, err := measured(st, jobs.Set{Pools: map[string]jobs.Pool{"mail": {Handler: jobs.Func(func(context.Context, jobs.Task, Letter) error { return nil })}}})
	if err != nil {
		t.Fatal(err)
	}
	start(t, replica)
	mux := http.NewServeMux()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- expose(ctx, mux, replica, m) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	await.Until(t, "the definitions are loaded", replica.Loaded)
	if _, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "mail", Payload: Letter{To: "ada"}}, jobs.NewTask{Pool: "mail", Kind: "fax", Force: true}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(mux)
	defer server.Close()
	for _, line := range []string{`lockstep_attempts_total{pool="mail",result="succeeded"} 1`, `lockstep_pool_unrunnable_tasks{pool="mail"} 1`} {
		await.Until(t, line, func() bool {
			answer, err := server.Client().Get(server.URL + "/metrics")
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			return err == nil && strings.Contains(string(text), line)
		})
	}
	if err := prometheus.NewRegistry().Register(m); err != nil { // or one of yours
		t.Error(err)
	}
}
