package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// told counts what Metrics is told.
type told struct {
	mu sync.Mutex
	n  map[string]int
}

func (m *told) add(n int, format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.n == nil {
		m.n = map[string]int{}
	}
	m.n[fmt.Sprintf(format, args...)] += n
}

func (m *told) count(what string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.n[what]
}

func (m *told) Decided(t jobs.Trigger) { m.add(t.Count, "%s %s %q", t.Job, t.Cause, t.Outcome) }

func (m *told) Claimed(c jobs.ClaimTry) {
	m.add(1, "claim by %s: %s", c.LockBackend, c.Result)
	m.add(c.Tasks, "claimed in %s", c.Pool)
	if c.Took <= 0 || c.Took > time.Minute {
		m.add(1, "a claim that took %v", c.Took)
	}
}

func (m *told) Started(t jobs.Task, lag time.Duration) {
	m.add(1, "%s%s started", t.Job, t.Kind)
	if lag < 0 || lag > 2*time.Second {
		m.add(1, "%s%s lags by %v", t.Job, t.Kind, lag)
	}
}

func (m *told) Ended(t jobs.Task, end jobs.State, took time.Duration) {
	m.add(1, "%s%s ended: %s", t.Job, t.Kind, end)
	if took < 0 || took > time.Minute {
		m.add(1, "took %v", took)
	}
}

func (m *told) Recorded(t jobs.Task, end jobs.State, late bool) {
	m.add(1, "%s%s recorded %s: %s", t.Job, t.Kind, end, t.State)
	if late {
		m.add(1, "late")
	}
}

func (m *told) HandedBack(jobs.Task) { m.add(1, "handed back") }

func (m *told) Fenced(jobs.Task, jobs.State) { m.add(1, "fenced") }

func (m *told) Reaped(t jobs.Task, replica string) { m.add(1, "reaped from %s: %s", replica, t.State) }

func TestMetricsAreCalled(t *testing.T) {
	st := sqlite(t).open(t)
	m := &told{}
	ok := does(func(context.Context, jobs.Task, io.Writer) error { return nil })
	once := does(func(_ context.Context, t jobs.Task, _ io.Writer) error {
		if t.Attempt == 1 {
			return errors.New("not yet")
		}
		return nil
	})
	set := jobs.Set{
		Pools: map[string]jobs.Pool{"p": {
			Retries: jobs.Retries{Limit: 1, Backoff: time.Millisecond, MaxBackoff: time.Millisecond},
			Kinds:   map[string]jobs.Handler{"once": once},
		}},
		Jobs: map[string]jobs.Job{
			"j":   {Handler: ok},
			"off": {Handler: ok, Schedule: "@every 1s", Suspend: true},
			"on":  {Handler: ok, Schedule: "@every 1s"},
		},
	}
	lk := locker(t, memlock.New())
	r := start(t, st, lk, set, scheduler.Options{ID: "a", Observer: m})
	await.Until(t, "the replica is ready", func() bool { return r.Vitals().Ready })
	if _, _, err := r.RunJob(t.Context(), "j", "ann", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "p", Kind: "once"}); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{
		`j manual ""`, "j started", "j ended: succeeded", "j recorded succeeded: succeeded",
		`off schedule "skipped"`, `on schedule ""`, "on started", "on recorded succeeded: succeeded",
		"claim by memory: took", "claimed in p", "once ended: failed", "once recorded failed: pending", "once recorded succeeded: succeeded",
	} {
		await.Until(t, what, func() bool { return m.count(what) > 0 })
	}
	for _, task := range []string{"on", "once"} {
		if n := m.count(task + " started"); n < 1 {
			t.Errorf("%s started %d times", task, n)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	want := map[string]int{"once started": 2, "claimed in p": 2, "once ended: failed": 1, "once ended: succeeded": 1, "j started": 1}
	got := map[string]int{}
	for what := range want {
		got[what] = m.n[what]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%v", diff, m.n)
	}
	for what := range m.n {
		if strings.Contains(what, "lags by") || strings.Contains(what, "that took") || what == "off started" {
			t.Error(what)
		}
	}
}

// The replica that reaps a task of an expired session reports that; the late result is reported by the replica that had it.
func TestMetricsAreToldOfLosses(t *testing.T) {
	t.Parallel()
	db := sqlite(t)
	a, b := &told{}, &told{}
	frozen := &silent{Store: db.open(t).Sides().Replica}
	release := make(chan struct{})
	h := does(func(context.Context, jobs.Task, io.Writer) error { <-release; return nil })
	retried := func(p *jobs.Pool) { p.OnLost = jobs.LostRetries }
	first := start(t, frozen, nil, pool(h, retried), scheduler.Options{ID: "a", SessionTTL: time.Second, Observer: a})
	st := db.open(t)
	enqueue(t, st, first, 1)
	await.Until(t, "it runs", func() bool { return first.Vitals().Running["p"] == 1 })
	second := start(t, st, nil, pool(h, retried), scheduler.Options{ID: "b", SessionTTL: time.Second, Observer: b})
	await.Until(t, "both live", func() bool { return len(peers(t, st)) == 2 })
	frozen.cut.Store(true)
	await.Until(t, "it is reaped", func() bool { return b.count("reaped from a: pending") == 1 })
	await.Until(t, "it runs there", func() bool { return second.Vitals().Running["p"] == 1 })
	if n := second.Vitals().PeersExpired; n != 1 {
		t.Errorf("%d expired", n)
	}
	frozen.cut.Store(false)
	await.Until(t, "the first one learns that it was declared dead", func() bool { return first.Vitals().SessionsExpired == 1 })
	close(release)
	await.Until(t, "its result is refused", func() bool { return a.count("fenced") == 1 })
	if n := b.count("fenced"); n != 0 {
		t.Errorf("%d results of the second were refused", n)
	}
}

func TestVitals(t *testing.T) {
	st := sqlite(t).open(t)
	set := pool(&starts{}, nil)
	unstarted, err := scheduler.New(st, nil, set, scheduler.Options{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if v := unstarted.Vitals(); v.Ready || v.StoreUp || !v.Now.IsZero() || v.Replica != "a" || v.Backend != "store" {
		t.Errorf("before its start: %+v", v)
	}
	r := start(t, st, nil, set, scheduler.Options{ID: "b", SessionTTL: time.Second})
	await.Until(t, "the replica is ready", func() bool { return r.Vitals().Ready && r.Vitals().Stripes == ledger.Stripes })
	v := r.Vitals()
	if v.RenewalAge > time.Second || v.ClockSkew.Abs() > time.Second || time.Since(v.Now).Abs() > 2*time.Second || !v.StoreUp || !v.LockUp ||
		v.Config != 1 || v.Workers != 64 || v.SessionsExpired+v.PeersExpired+v.ClockRefused+v.Foreign != 0 {
		t.Errorf("%+v", v)
	}
	if err := r.drain(); err != nil {
		t.Fatal(err)
	}
	if v := r.Vitals(); v.Ready || !v.Draining {
		t.Errorf("after its end: %+v", v)
	}
}
