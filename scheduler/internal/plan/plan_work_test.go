package plan

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

func planOf(t *testing.T) *Plan {
	t.Helper()
	p, err := New(jobs.Set{
		Pools: map[string]jobs.Pool{
			"p":     {Handler: replicatest.Named("p"), Kinds: map[string]jobs.Handler{"x": replicatest.Named("p x")}, Notify: jobs.Notify{Handler: replicatest.Named("tell of p")}},
			"kinds": {Kinds: map[string]jobs.Handler{"x": replicatest.Named("kinds x")}, Timeout: time.Hour, MaxRunning: 7, LostLimit: 9, OnLost: jobs.LostFails, Retries: jobs.Retries{Limit: 2}},
		},
		Jobs: map[string]jobs.Job{
			"own":       {Handler: replicatest.Named("own"), Schedule: "@hourly", Timeout: time.Minute, Notify: jobs.Notify{Handler: replicatest.Named("tell of own")}},
			"of-pool":   {Pool: "p"},
			"of-kind":   {Pool: "kinds", Kind: "x"},
			"elsewhere": {Handler: replicatest.Named("elsewhere"), RunsOn: map[string]string{"zone": "b"}},
			"here":      {Handler: replicatest.Named("here"), RunsOn: map[string]string{"zone": "a"}, Retries: jobs.Retries{Limit: 3}},
		},
	}, map[string]string{"zone": "a"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A task of a job is run by the job's handler, or that of its kind or its pool; any other task by that of its kind or
// its pool. A task that is not known here, or whose labels this replica lacks, is not run here.
func TestWhatRunsATask(t *testing.T) {
	p := planOf(t)
	own, pool := (jobs.Notify{}).Kind("job own"), (jobs.Notify{}).Kind("pool p")
	for what, c := range map[string]struct {
		task    jobs.Task
		handler jobs.Handler // nil: it is not run here
		timeout time.Duration
		retries int
	}{
		"a job's own":                      {jobs.Task{Job: "own", Pool: "default"}, replicatest.Named("own"), time.Minute, 0},
		"that of its pool":                 {jobs.Task{Job: "of-pool", Pool: "p"}, replicatest.Named("p"), 24 * time.Hour, 0},
		"that of its kind":                 {jobs.Task{Job: "of-kind", Pool: "kinds", Kind: "x"}, replicatest.Named("kinds x"), 24 * time.Hour, 0},
		"a job for other replicas":         {jobs.Task{Job: "elsewhere", Pool: "default"}, nil, 0, 0},
		"a job for replicas like this one": {jobs.Task{Job: "here", Pool: "default"}, replicatest.Named("here"), 24 * time.Hour, 3},
		"an unknown job":                   {jobs.Task{Job: "gone", Pool: "p"}, nil, 0, 0},
		"a task of a pool":                 {jobs.Task{Pool: "p"}, replicatest.Named("p"), 30 * time.Minute, 10},
		"a task of a kind":                 {jobs.Task{Pool: "p", Kind: "x"}, replicatest.Named("p x"), 30 * time.Minute, 10},
		"an unknown kind":                  {jobs.Task{Pool: "p", Kind: "y"}, nil, 0, 0},
		"a pool without a handler":         {jobs.Task{Pool: "kinds"}, nil, 0, 0},
		"its kind":                         {jobs.Task{Pool: "kinds", Kind: "x"}, replicatest.Named("kinds x"), time.Hour, 2},
		"an unknown pool":                  {jobs.Task{Pool: "gone"}, nil, 0, 0},
		"a notification of a job":          {jobs.Task{Pool: naming.NotificationsPool, Kind: own}, replicatest.Named("tell of own"), time.Minute, 20},
		"a notification of a pool":         {jobs.Task{Pool: naming.NotificationsPool, Kind: pool}, replicatest.Named("tell of p"), time.Minute, 20},
		"one of an earlier configuration":  {jobs.Task{Pool: naming.NotificationsPool, Kind: "earlier"}, forward{p}, time.Minute, 20},
	} {
		w, here := p.Execution(c.task)
		if here != (c.handler != nil) {
			t.Errorf("%s: it is run here: %t", what, here)
		} else if here && (w.Handler != c.handler || w.Timeout != c.timeout || w.Retries.Limit != c.retries) {
			t.Errorf("%s: by %v in %v, with %d retries; want %v, %v, %d", what, w.Handler, w.Timeout, w.Retries.Limit, c.handler, c.timeout, c.retries)
		}
	}
}

// The kind of a notification says which notifier sends it: that of the job or of the pool.
func TestANotificationGoesToTheNotifier(t *testing.T) {
	p := planOf(t)
	for what, c := range map[string]struct {
		event ledger.Event
		kind  string
	}{
		"of a job":  {ledger.Event{Notification: jobs.Notification{Event: jobs.EventFailed, Job: "own", TaskID: "7"}, Hash: p.Jobs["own"].Hash}, (jobs.Notify{}).Kind("job own")},
		"of a pool": {ledger.Event{Notification: jobs.Notification{Event: jobs.EventFailed, Pool: "p", TaskID: "7"}, Hash: p.Pools["p"].Hash}, (jobs.Notify{}).Kind("pool p")},
	} {
		if route := p.Route(time.Now(), c.event); route.Task == nil || route.Task.Kind != c.kind {
			t.Errorf("%s: %+v", what, route)
		}
	}
}

// The store gets each job and pool, in order: what it needs to reap their tasks, and which kinds have a
// handler. Notifications are for any replica, whatever their kind.
func TestWhatTheStoreKeepsOfAPlan(t *testing.T) {
	p := planOf(t)
	d := p.Definitions()
	var names []string
	for _, j := range d.Jobs {
		names = append(names, j.Name)
		known := p.Jobs[j.Name]
		if j.Stripe != ledger.Stripe(j.Name) || j.Hash != known.Job.Hash() || j.Schedule != known.ScheduleHash() {
			t.Errorf("%+v", j)
		}
		if at := j.Next(replicatest.Time("12:10:00")); j.Name == "own" && !at.Equal(replicatest.Time("13:00:00")) || j.Name != "own" && !at.IsZero() {
			t.Errorf("%s is due at %v", j.Name, at)
		}
	}
	if !slices.Equal(names, []string{"elsewhere", "here", "of-kind", "of-pool", "own"}) {
		t.Errorf("jobs %q", names)
	}
	names = nil
	for _, def := range d.Pools {
		names = append(names, def.Name)
		pool := p.Pools[def.Name].Pool
		want := ledger.PoolDef{Name: def.Name, Hash: pool.Hash(), MaxAttempts: 11, Retry: true, LostLimit: 3, Kinds: pool.HandlerHashes()}
		kinds := []string{}
		switch def.Name {
		case "p":
			kinds = []string{"", "x"}
		case "kinds":
			kinds, want.MaxRunning, want.MaxAttempts, want.Retry, want.LostLimit = []string{"x"}, 7, 3, false, 9
		case naming.NotificationsPool:
			want.MaxAttempts, want.Kinds = 21, nil
		}
		if (def.Kinds == nil) != (want.Kinds == nil) || !maps.Equal(def.Kinds, want.Kinds) || len(def.Kinds) != len(kinds) || def.MaxRunning != want.MaxRunning ||
			def.MaxAttempts != want.MaxAttempts || def.Retry != want.Retry || def.LostLimit != want.LostLimit || def.Hash != want.Hash {
			t.Errorf("%+v, want %+v", def, want)
		}
	}
	if got := slices.Sorted(maps.Keys(p.Pools["p"].KindHashes)); !slices.Equal(got, []string{"", "x"}) {
		t.Errorf("the pool p has the kinds %q", got)
	}
	if !slices.Equal(names, []string{naming.DefaultPool, "kinds", naming.NotificationsPool, "p"}) {
		t.Errorf("pools %q", names)
	}
}
