package metrics_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/metrics"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	_ "github.com/lockstep-scheduler/lockstep/store/sqlite"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	st, err := store.Open(ctx, "sqlite", filepath.Join(dir, "jobs.db"), store.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close()
	if err := st.Migrate(ctx); err != nil {
		fmt.Println(err)
		return
	}
	ran := make(chan bool, 1)
	hello := func(context.Context, jobs.Task, struct{}) error { ran <- true; return nil }
	set := jobs.Set{Jobs: map[string]jobs.Job{"hello": {Schedule: "@every 1s", Handler: jobs.Func(hello)}}}

	m := metrics.New(st, metrics.Options{})
	s, err := scheduler.New(st, nil, set, scheduler.Options{Observer: m})
	if err != nil {
		fmt.Println(err)
		return
	}
	measured, done := make(chan error), make(chan error)
	go func() { measured <- m.Run(ctx, s) }()
	go func() { done <- s.Run(ctx) }()
	<-ran

	w := httptest.NewRecorder() // in a program: http.Handle("/metrics", m.Handler())
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "lockstep_replica_ready") {
			fmt.Print(line)
		}
	}
	stop()
	if err := <-measured; err != nil {
		fmt.Println(err)
	}
	if err := <-done; err != nil {
		fmt.Println(err)
	}
	// Output: lockstep_replica_ready 1
}

// The metrics of a real replica on a real store, with its own lock.
func TestARealReplica(t *testing.T) {
	for driver, dsn := range map[string]func() string{
		"sqlite": func() string { return filepath.Join(t.TempDir(), "jobs.db") },
		"mysql":  func() string { return servers.MySQL(t) },
	} {
		t.Run(driver, func(t *testing.T) {
			st, err := store.Open(t.Context(), store.Dialect(driver), dsn(), store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			if err := st.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			m := metrics.New(st, metrics.Options{Refresh: time.Second})
			lk, err := locks.New(memlock.New(), locks.Options{Observer: m, TTL: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			defer lk.Close(context.WithoutCancel(t.Context()))
			block := make(chan struct{})
			set := jobs.Set{
				Pools: map[string]jobs.Pool{"p": {Workers: 1, MaxRunning: 1, Handler: jobs.Func(func(ctx context.Context, _ jobs.Task, _ struct{}) error {
					select {
					case <-block:
					case <-ctx.Done():
					}
					return nil
				})}},
				Jobs: map[string]jobs.Job{
					"good": {Schedule: "@every 1s", Handler: jobs.Func(func(context.Context, jobs.Task, struct{}) error { return nil })},
					"bad":  {Schedule: "@every 1s", Handler: jobs.Func(func(context.Context, jobs.Task, struct{}) error { return fmt.Errorf("no") })},
				},
			}
			s, err := scheduler.New(st, lk, set, scheduler.Options{ID: "a", Observer: m})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			measured, done := make(chan error, 1), make(chan error, 1)
			go func() { measured <- m.Run(ctx, s) }()
			go func() { done <- s.Run(ctx) }()
			defer func() {
				stop()
				if err := <-measured; err != nil {
					t.Error(err)
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
			}()
			for !s.Vitals().Ready {
				time.Sleep(time.Millisecond)
			}
			if _, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "p"}, jobs.NewTask{Pool: "p"}, jobs.NewTask{Pool: "p", RunAt: time.Now().Add(time.Hour)}); err != nil {
				t.Fatal(err)
			}
			want := []string{
				`lockstep_replica_ready 1`,
				`lockstep_lock_up{backend="memory"} 1`,
				`lockstep_stripes 64`,
				`lockstep_attempts_running{pool="p"} 1`,
				`lockstep_pool_running_tasks{pool="p"} 1`,
				`lockstep_pool_pending_tasks{pool="p"} 1`,
				`lockstep_pool_scheduled_tasks{pool="p"} 1`,
				`lockstep_tasks_claimed_total{pool="p"} 1`,
				`lockstep_replicas{state="live"} 1`,
				`lockstep_jobs_failing 1`,
				`lockstep_job_failing{name="bad"} 1`,
				`lockstep_job_last_success_timestamp_seconds{name="good"} `,
				`lockstep_job_deadline_timestamp_seconds{name="bad"} `,
				`lockstep_claim_duration_seconds_count{backend="memory",result="took"} 1`,
				`lockstep_lock_renew_duration_seconds_count{backend="memory",result="renewed"} `,
			}
			deadline := time.Now().Add(30 * time.Second)
			for len(want) > 0 && time.Now().Before(deadline) {
				w := httptest.NewRecorder()
				m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
				for len(want) > 0 && strings.Contains(w.Body.String(), "\n"+want[0]) {
					want = want[1:]
				}
				if len(want) > 0 {
					time.Sleep(20 * time.Millisecond)
				} else if strings.Contains(w.Body.String(), `last_success_timestamp_seconds{name="bad"}`) {
					t.Error("a job that never succeeded has a last success")
				}
			}
			if len(want) > 0 {
				t.Errorf("never seen: %s", strings.Join(want, "\n"))
			}
			close(block)
		})
	}
}
