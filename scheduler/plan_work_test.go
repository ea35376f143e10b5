package scheduler

import (
	"context"
	"io"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// named is a handler that is told from others by its name.
type named string

func (named) Run(context.Context, jobs.Task, io.Writer) error { return nil }

func (n named) Identity() string { return string(n) }

func planOf(t *testing.T) *plan {
	t.Helper()
	p, err := newPlan(jobs.Set{
		Pools: map[string]jobs.Pool{
			"p":     {Handler: named("p"), Kinds: map[string]jobs.Handler{"x": named("p x")}, Notify: jobs.Notify{Handler: named("tell of p")}},
			"kinds": {Kinds: map[string]jobs.Handler{"x": named("kinds x")}, Timeout: time.Hour, MaxRunning: 7, OnLost: jobs.LostFails, Retries: &jobs.Retries{Limit: 2}},
		},
		Jobs: map[string]jobs.Job{
			"own":       {Handler: named("own"), Schedule: "@hourly", Timeout: time.Minute, Notify: jobs.Notify{Handler: named("tell of own")}},
			"of-pool":   {Pool: "p"},
			"of-kind":   {Pool: "kinds", Kind: "x"},
			"elsewhere": {Handler: named("elsewhere"), RunsOn: map[string]string{"zone": "b"}},
			"here":      {Handler: named("here"), RunsOn: map[string]string{"zone": "a"}, Retries: jobs.Retries{Limit: 3}},
		},
	}, map[string]string{"zone": "a"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A task of a job is run by the job's handler, or that of its kind or its pool; any other task by that of its kind or
// its pool. What is not known here, or is not for a replica with these labels, is not run here.
func TestWhatRunsATask(t *testing.T) {
	p := planOf(t)
	own, pool := (jobs.Notify{}).Kind("job own"), (jobs.Notify{}).Kind("pool p")
	for what, c := range map[string]struct {
		task    jobs.Task
		handler jobs.Handler // nil: it is not run here
		timeout time.Duration
		retries int
	}{
		"a job's own":                      {jobs.Task{Job: "own", Pool: "default"}, named("own"), time.Minute, 0},
		"that of its pool":                 {jobs.Task{Job: "of-pool", Pool: "p"}, named("p"), 24 * time.Hour, 0},
		"that of its kind":                 {jobs.Task{Job: "of-kind", Pool: "kinds", Kind: "x"}, named("kinds x"), 24 * time.Hour, 0},
		"a job for other replicas":         {jobs.Task{Job: "elsewhere", Pool: "default"}, nil, 0, 0},
		"a job for replicas like this one": {jobs.Task{Job: "here", Pool: "default"}, named("here"), 24 * time.Hour, 3},
		"an unknown job":                   {jobs.Task{Job: "gone", Pool: "p"}, nil, 0, 0},
		"a task of a pool":                 {jobs.Task{Pool: "p"}, named("p"), 30 * time.Minute, 10},
		"a task of a kind":                 {jobs.Task{Pool: "p", Kind: "x"}, named("p x"), 30 * time.Minute, 10},
		"an unknown kind":                  {jobs.Task{Pool: "p", Kind: "y"}, nil, 0, 0},
		"a pool without a handler":         {jobs.Task{Pool: "kinds"}, nil, 0, 0},
		"its kind":                         {jobs.Task{Pool: "kinds", Kind: "x"}, named("kinds x"), time.Hour, 2},
		"an unknown pool":                  {jobs.Task{Pool: "gone"}, nil, 0, 0},
		"a notification of a job":          {jobs.Task{Pool: naming.NotificationsPool, Kind: own}, named("tell of own"), time.Minute, 20},
		"a notification of a pool":         {jobs.Task{Pool: naming.NotificationsPool, Kind: pool}, named("tell of p"), time.Minute, 20},
		"one of an earlier configuration":  {jobs.Task{Pool: naming.NotificationsPool, Kind: "earlier"}, forward{p}, time.Minute, 20},
	} {
		w, here := p.work(c.task)
		if here != (c.handler != nil) {
			t.Errorf("%s: it is run here: %t", what, here)
		} else if here && (w.handler != c.handler || w.timeout != c.timeout || w.retries.Limit != c.retries) {
			t.Errorf("%s: by %v in %v, with %d retries; want %v, %v, %d", what, w.handler, w.timeout, w.retries.Limit, c.handler, c.timeout, c.retries)
		}
	}
}

// Who is to be told of an event is said by the kind of the notification, which is that of the job or pool.
func TestANotificationGoesToTheNotifier(t *testing.T) {
	p := planOf(t)
	for what, c := range map[string]struct {
		event ledger.Event
		kind  string
	}{
		"of a job":  {ledger.Event{Event: jobs.EventFailed, Job: "own", TaskID: "7", Hash: p.jobs["own"].hash}, (jobs.Notify{}).Kind("job own")},
		"of a pool": {ledger.Event{Event: jobs.EventFailed, Pool: "p", TaskID: "7", Hash: p.pools["p"].hash}, (jobs.Notify{}).Kind("pool p")},
	} {
		if route := p.route(time.Now(), c.event); route.Task == nil || route.Task.Kind != c.kind {
			t.Errorf("%s: %+v", what, route)
		}
	}
}

// The store is told of each job and pool, in order: what it needs where a replica dies, and which kinds have a
// handler. Notifications are for any replica, whatever their kind.
func TestWhatTheStoreKeepsOfAPlan(t *testing.T) {
	p := planOf(t)
	d := p.definitions()
	var names []string
	for _, j := range d.Jobs {
		names = append(names, j.Name)
		known := p.jobs[j.Name]
		if j.Stripe != ledger.Stripe(j.Name) || j.Hash != known.Hash() || j.Schedule != known.ScheduleHash() {
			t.Errorf("%+v", j)
		}
		if at := j.Next(clockTime("12:10:00")); j.Name == "own" && !at.Equal(clockTime("13:00:00")) || j.Name != "own" && !at.IsZero() {
			t.Errorf("%s is due at %v", j.Name, at)
		}
	}
	if !slices.Equal(names, []string{"elsewhere", "here", "of-kind", "of-pool", "own"}) {
		t.Errorf("jobs %q", names)
	}
	names = nil
	for _, def := range d.Pools {
		names = append(names, def.Name)
		pool := p.pools[def.Name].Pool
		want := ledger.PoolDef{Name: def.Name, Hash: pool.Hash(), MaxAttempts: 11, Retry: true, Kinds: pool.HandlerHashes()}
		kinds := []string{}
		switch def.Name {
		case "p":
			kinds = []string{"", "x"}
		case "kinds":
			kinds, want.MaxRunning, want.MaxAttempts, want.Retry = []string{"x"}, 7, 3, false
		case naming.NotificationsPool:
			want.MaxAttempts, want.Kinds = 21, nil
		}
		if (def.Kinds == nil) != (want.Kinds == nil) || !maps.Equal(def.Kinds, want.Kinds) || len(def.Kinds) != len(kinds) || def.MaxRunning != want.MaxRunning ||
			def.MaxAttempts != want.MaxAttempts || def.Retry != want.Retry || def.Hash != want.Hash {
			t.Errorf("%+v, want %+v", def, want)
		}
	}
	if got := slices.Sorted(maps.Keys(p.pools["p"].hashes)); !slices.Equal(got, []string{"", "x"}) {
		t.Errorf("the pool p has the kinds %q", got)
	}
	if !slices.Equal(names, []string{naming.DefaultPool, "kinds", naming.NotificationsPool, "p"}) {
		t.Errorf("pools %q", names)
	}
}

// Edits are made by the time that decisions are made by: not at all while no clock is believed.
func TestDefinitionsNeedAClock(t *testing.T) {
	s := replicaOn(t, newPicky(nil), blocked{})
	if err := s.members.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	d := s.definitions()
	if at, err := d.Now(now); err != nil || at.Sub(now).Abs() > time.Minute {
		t.Errorf("edits are made at %v, %v", at, err)
	}
	if at, err := d.Now(now.Add(time.Hour)); err == nil {
		t.Errorf("edits are made at %v, by a clock that is not believed", at)
	}
}
