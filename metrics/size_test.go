package metrics

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
)

// large is a replica with 10,000 jobs and 100 pools and every metric.
func large(tb testing.TB, failing bool) *Metrics {
	tb.Helper()
	f := &fake{set: jobs.Set{Pools: map[string]jobs.Pool{}, Jobs: map[string]jobs.Job{}}}
	now := time.Now()
	f.vitals.Now = now
	for i := range 100 {
		name := fmt.Sprintf("customer-%03d", i)
		f.set.Pools[name] = jobs.Pool{}
		f.pools = append(f.pools, ledger.PoolStatus{Name: name, Hash: "h", Pending: 1234, Scheduled: 56789, Running: 20, OldestPending: now.Add(-time.Minute)})
	}
	for i := range 10_000 {
		name := fmt.Sprintf("customer-%05d", i)
		f.set.Jobs[name] = jobs.Job{Schedule: "30 2 * * *"}
		f.standings = append(f.standings, ledger.JobStanding{Name: name, Failing: failing, LastSuccess: now.Add(-time.Hour), NextAt: now.Add(time.Hour)})
	}
	m := New(f.store(), Options{Version: "1.2.3"})
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan error)
	go func() { done <- m.Run(ctx, f) }()
	tb.Cleanup(func() {
		cancel()
		<-done
	})
	for m.page.Load() == nil {
		time.Sleep(time.Millisecond)
	}
	everything(m, f.set)
	return m
}

// everything causes each event at least once.
func everything(m *Metrics, set jobs.Set) {
	for _, cause := range []jobs.Cause{jobs.CauseSchedule, jobs.CauseCatchUp, jobs.CauseManual} {
		for _, outcome := range []jobs.Outcome{"", jobs.Skipped, jobs.Missed} {
			m.Decided(jobs.Trigger{Cause: cause, Outcome: outcome, Count: 1})
		}
	}
	for pool := range set.Pools {
		t := jobs.Task{Pool: pool, Job: "j"}
		for i := range 500 {
			d := time.Duration(i*i) * time.Millisecond
			m.Started(t, d)
			m.Ended(t, jobs.StateSucceeded, d)
		}
		m.Claimed(jobs.ClaimTry{Pool: pool, LockBackend: "redis", Result: "took", Tasks: 7, Took: time.Millisecond})
	}
	m.Asked("redis", locks.Asked{Granted: 1, Busy: 1, Queued: 1, Unknown: 1, Unavailable: 1})
	m.Renewed("redis", time.Millisecond, nil)
	m.Lost("redis", 1, locks.ErrLost)
	m.Lost("redis", 1, locks.ErrForced)
	m.Waiting("redis")
	m.Waited("redis", time.Second, true)
	m.Waited("redis", time.Second, false)
	m.Held("redis")
	m.Freed("redis", time.Second)
}

func scrape(tb testing.TB, h http.Handler, gzip bool) *httptest.ResponseRecorder {
	tb.Helper()
	r := httptest.NewRequestWithContext(tb.Context(), http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", "text/plain;version=0.0.4")
	if gzip {
		r.Header.Set("Accept-Encoding", "gzip")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		tb.Fatalf("%d %s", w.Code, w.Body)
	}
	return w
}

func BenchmarkScrape(b *testing.B) {
	for _, gzip := range []bool{false, true} {
		b.Run(fmt.Sprintf("gzip=%v", gzip), func(b *testing.B) {
			m := large(b, false)
			size := 0
			for b.Loop() {
				size = scrape(b, m.Handler(), gzip).Body.Len()
			}
			b.ReportMetric(float64(size), "bytes")
		})
	}
}

// A scrape with 10,000 jobs and 100 pools is below 2 MB and 50 ms: processor time, the best of several, since other
// tests run at the same time.
func TestLargeScrape(t *testing.T) {
	m := large(t, true)
	if n := scrape(t, m.Handler(), false).Body.Len(); n > 2_000_000 {
		t.Errorf("%d bytes", n)
	} else {
		t.Logf("%d bytes", n)
	}
	best := time.Hour
	for range 10 {
		runtime.GC()
		before := used()
		scrape(t, m.Handler(), false)
		best = min(best, used()-before)
	}
	t.Logf("%v of processor time", best)
	if best > limit {
		t.Errorf("a scrape takes %v of processor time, more than %v", best, limit)
	}
}
