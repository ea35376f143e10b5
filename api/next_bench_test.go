//go:build !fuzz

package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/foresight"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// many is how many jobs BenchmarkNext has.
const many = 100_000

// defined is a replica with compiled definitions.
type defined struct {
	*backend
	is *foresight.Definitions
}

func (d defined) Definitions() *foresight.Definitions { return d.is }

// BenchmarkNext measures GET /next over 100,000 jobs, half of them with jitter and a tenth with calendars: a fifth is due in each minute and the rest in each hour, spread over
// it, or all of them in each minute at its beginning. "first" is what the request after a load of the definitions computes, and "a minute later" what one does when that
// has passed.
func BenchmarkNext(b *testing.B) {
	for name, spec := range map[string]func(i int) jobs.Job{
		"spread": func(i int) jobs.Job {
			if i%5 == 0 {
				return jobs.Job{Schedule: "@every 1m", Spread: time.Minute}
			}
			return jobs.Job{Schedule: "H * * * *"}
		},
		"together": func(int) jobs.Job { return jobs.Job{Schedule: "* * * * *"} },
	} {
		b.Run(name, func(b *testing.B) {
			replica := newBackend()
			replica.set.Calendars = map[string]jobs.Calendar{"nights": {Weekly: []string{"MON-SUN 00:00-06:00"}}}
			replica.set.Jobs = make(map[string]jobs.Job, many)
			for i := range many {
				job := spec(i)
				if i%2 == 0 {
					job.Jitter = 20 * time.Second
				}
				if i%10 == 1 {
					job.Calendars.Exclude = []string{"nights"}
				}
				replica.set.Jobs[fmt.Sprintf("job-%05d", i)] = job
			}
			namespace := "bench"
			replica.namespace = &namespace
			compiler, schedules := replica.set.Compiler(), make(map[string]*jobs.Schedule, many)
			for name, job := range replica.set.Jobs {
				schedule, err := compiler.Compile(name, job)
				if err != nil {
					b.Fatal(err)
				}
				schedules[name] = schedule
			}
			define := func() defined {
				return defined{replica, foresight.Define(replica.set, func(name string) *jobs.Schedule { return schedules[name] }, func(string) string { return "h" })}
			}
			b.Run("first", func(b *testing.B) {
				for b.Loop() {
					define().is.First(&namespace, time.Now(), 50)
				}
			})
			b.Run("a minute later", func(b *testing.B) {
				is, at := define().is, time.Now()
				is.First(&namespace, at, 50)
				for b.Loop() {
					at = at.Add(time.Minute)
					is.First(&namespace, at, 50)
				}
			})
			st := storeOf(b, replica.set, schedules)
			for _, limit := range []int{50, 500} {
				request := func(h http.Handler) time.Duration {
					r, w := httptest.NewRequest("GET", fmt.Sprintf("/api/v1/next?limit=%d", limit), nil), httptest.NewRecorder()
					r.RemoteAddr = "127.0.0.1:9"
					r.Host = "localhost"
					begin := time.Now()
					h.ServeHTTP(w, r)
					took := time.Since(begin)
					if w.Code != http.StatusOK {
						b.Fatalf("%d %s", w.Code, w.Body)
					}
					return took
				}
				b.Run(fmt.Sprint(limit), func(b *testing.B) {
					h := New(Backend{Store: st, Replica: define()}, Options{})
					first := request(h)
					var each []time.Duration
					for b.Loop() {
						each = append(each, request(h))
					}
					slices.Sort(each)
					b.ReportMetric(float64(first.Microseconds())/1000, "first-ms")
					b.ReportMetric(float64(each[len(each)/2].Microseconds())/1000, "p50-ms")
					b.ReportMetric(float64(each[len(each)*99/100].Microseconds())/1000, "p99-ms")
					b.ReportMetric(float64(each[len(each)-1].Microseconds())/1000, "max-ms")
				})
			}
		})
	}
}

// storeOf is a store with the rows of the jobs of a set.
func storeOf(b *testing.B, set jobs.Set, schedules map[string]*jobs.Schedule) *store.Store {
	b.Helper()
	st, err := store.Open(b.Context(), "sqlite", filepath.Join(b.TempDir(), "test.db"), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { st.Close() })
	if err := st.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	session, err := st.Sides().Replica.Join(b.Context(), ledger.Member{Replica: "r1", LockService: "none"})
	if err != nil {
		b.Fatal(err)
	}
	defs := ledger.Definitions{Pools: []ledger.PoolDef{{Name: "default", Hash: "h", MaxAttempts: 1}}}
	for name := range set.Jobs {
		defs.Jobs = append(defs.Jobs, ledger.JobDef{Name: name, Hash: "h", Schedule: "s", Stripe: ledger.Stripe(name), Next: schedules[name].Next})
	}
	if _, err := st.Sides().Replica.Load(b.Context(), session, defs); err != nil {
		b.Fatal(err)
	}
	return st
}
