package plan

import (
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// admission is a plan whose pool p has kind r for replicas and kind w for workers, each with a job, and a job with a handler of its own.
func admission(t *testing.T) *Plan {
	t.Helper()
	return must(t, jobs.Set{
		Pools: map[string]jobs.Pool{"p": {
			Timeout: 20 * time.Minute, Kinds: map[string]jobs.Handler{"r": replicatest.Named("r"), "w": jobs.Worker{}}, Notify: jobs.Notify{Handler: replicatest.Named("tell")},
		}},
		Jobs: map[string]jobs.Job{
			"of-r":  {Pool: "p", Kind: "r", SuspendAfter: 3},
			"of-w":  {Pool: "p", Kind: "w", Timeout: time.Minute},
			"other": {Pool: "p", Handler: replicatest.Named("other"), Schedule: "@hourly", Timeout: 2 * time.Hour},
		},
	})
}

// A replica, or a worker, starts a task if it has what runs it and the configuration that governs has the same: that of the pool, and for a task of a
// job that of the job, too.
func TestAdmit(t *testing.T) {
	p := admission(t)
	now := time.Date(2026, 11, 30, 8, 30, 0, 0, time.UTC)
	pool := p.Pools["p"]
	other := func(kinds ...string) Governing {
		hashes := map[string]string{}
		for _, kind := range kinds {
			hashes[kind] = pool.KindHashes[kind]
		}
		return pool.Under(ledger.OtherPool{Name: "p", Hash: "newer", Kinds: hashes})
	}
	gone := pool.Under(ledger.OtherPool{Name: "p"})
	task, workers := jobs.Task{Pool: "p", Kind: "r"}, jobs.Task{Pool: "p", Kind: "w"}
	job := func(name, kind string) ledger.Candidate {
		return ledger.Candidate{Task: jobs.Task{Job: name, Pool: "p", Kind: kind}, JobHash: p.Jobs[name].Hash}
	}
	edited := job("of-r", "r")
	edited.JobHash = "newer"
	editedForWorkers := job("of-w", "w")
	editedForWorkers.JobHash = "newer"
	const never = -1
	for what, c := range map[string]struct {
		g               Governing
		candidate       ledger.Candidate
		replica, worker time.Duration // for how long it may run there, 0: as long as its session; never: it is not started there
	}{
		"a task":                      {pool.Governs(), ledger.Candidate{Task: task}, 0, never},
		"for workers":                 {pool.Governs(), ledger.Candidate{Task: workers}, never, 20 * time.Minute},
		"of an unknown kind":          {pool.Governs(), ledger.Candidate{Task: jobs.Task{Pool: "p", Kind: "x"}}, never, never},
		"the newer pool has its kind": {other("r", "w"), ledger.Candidate{Task: task}, 0, never},
		"the newer pool has its kind for workers":   {other("r", "w"), ledger.Candidate{Task: workers}, never, 20 * time.Minute},
		"the newer pool has it no more":             {other("w"), ledger.Candidate{Task: task}, never, never},
		"the newer pool has it no more for workers": {other("r"), ledger.Candidate{Task: workers}, never, never},
		"of a job":                                {pool.Governs(), job("of-r", "r"), 24 * time.Hour, never},
		"of a job for workers":                    {pool.Governs(), job("of-w", "w"), never, time.Minute},
		"of a job with a handler":                 {other(), job("other", ""), 30 * time.Minute, never},
		"of a job whose kind is gone":             {other("w"), job("of-r", "r"), never, never},
		"of a job for workers whose kind is gone": {other("r"), job("of-w", "w"), never, never},
		"of a job that was edited":                {pool.Governs(), edited, never, never},
		"of a job for workers that was edited":    {pool.Governs(), editedForWorkers, never, never},
		"of a job whose pool is gone":             {gone, job("other", ""), never, never},
		"of a job that is not known":              {pool.Governs(), ledger.Candidate{Task: jobs.Task{Job: "x", Pool: "p", Kind: "r"}}, never, never},
	} {
		for by, admit := range map[string]func() (time.Time, bool){
			"replica": func() (time.Time, bool) { return p.Admit(c.g, now, c.candidate) },
			"worker":  func() (time.Time, bool) { return p.AdmitByWorker(c.g, []string{"w", "r"}, now, c.candidate) },
		} {
			want := map[string]time.Duration{"replica": c.replica, "worker": c.worker}[by]
			until, ok := admit()
			if ok != (want != never) {
				t.Errorf("%s: a %s starts it: %v", what, by, ok)
			} else if ok && (want == 0) != until.IsZero() || ok && want > 0 && !until.Equal(now.Add(want)) {
				t.Errorf("%s: a %s runs it until %v, want %v", what, by, until, want)
			}
		}
	}
	for _, c := range []ledger.Candidate{{Task: workers}, job("of-w", "w")} {
		if _, ok := p.AdmitByWorker(pool.Governs(), []string{"r"}, now, c); ok {
			t.Errorf("a worker without its kind starts %+v", c.Task)
		}
	}
	same := other("r")
	same.Hash = "newest"
	if same.Equal(other("r")) || pool.Governs().Equal(other("r")) || !other("r").Equal(other("r")) || other("r").Equal(other("w")) {
		t.Error("what governs is the same, or is not")
	}
	if kinds := other("r", "w").KindsOf(pool); !slices.Equal(kinds, []string{"r"}) {
		t.Errorf("by handlers of the pool it runs %q", kinds)
	}
}

// A pool has limits as a whole or by key, by its own definition or by that which governs.
func TestWhatGovernsHasLimits(t *testing.T) {
	h := replicatest.Nothing{}
	p := must(t, jobs.Set{Pools: map[string]jobs.Pool{
		"none": {Handler: h}, "whole": {Handler: h, MaxRunning: 1}, "rate": {Handler: h, Rate: jobs.Rate{Count: 1, Per: time.Second}},
		"key": {Handler: h, PerKey: jobs.KeyLimits{MaxRunning: 1}}, "order": {Handler: h, Order: jobs.OrderKey},
	}})
	for name, pool := range p.Pools {
		if want := name != "none" && name != "default" && name != naming.NotificationsPool; pool.Governs().Limited != want {
			t.Errorf("pool %s is limited: %v", name, !want)
		}
	}
	for row, want := range map[*ledger.OtherPool]bool{
		{Hash: "x"}: false, {Hash: "x", MaxRunning: 1}: true, {Hash: "x", Rate: jobs.Rate{Count: 1, Per: time.Second}}: true, {Hash: "x", ByKey: true}: true,
	} {
		if got := p.Pools["whole"].Under(*row).Limited; got != want {
			t.Errorf("under %+v it is limited: %v", *row, got)
		}
	}
	if got := p.Pools["none"].Under(ledger.OtherPool{Hash: p.Pools["none"].Hash, MaxRunning: 1}); got.Limited || !got.own {
		t.Errorf("under its own definition: %+v", got)
	}
}

// What pauses a pool is that of its definition; a pool that is not known is paused by nothing.
func TestPauseOn(t *testing.T) {
	on := jobs.PauseOn{Failures: 50, Of: 100}
	p := must(t, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: replicatest.Nothing{}, PauseOn: on}, "q": {Handler: replicatest.Nothing{}}}})
	if p.PauseOn("p") != on || p.PauseOn("q") != (jobs.PauseOn{}) || p.PauseOn("x") != (jobs.PauseOn{}) {
		t.Errorf("p by %+v, q by %+v, an unknown one by %+v", p.PauseOn("p"), p.PauseOn("q"), p.PauseOn("x"))
	}
}

// A worker leaves the jobs of its pool that replicas run, and those of kinds that it does not have.
func TestNotByWorker(t *testing.T) {
	p := admission(t)
	for _, c := range []struct {
		pool  string
		kinds []string
		want  []string
	}{
		{"p", []string{"w"}, []string{"of-r", "other"}},
		{"p", []string{"r"}, []string{"of-r", "of-w", "other"}},
		{"p", nil, []string{"of-r", "of-w", "other"}},
		{"default", nil, nil},
	} {
		if got := p.NotByWorker(c.pool, c.kinds); !slices.Equal(got, c.want) {
			t.Errorf("a worker of %s with kinds %q leaves %q, want %q", c.pool, c.kinds, got, c.want)
		}
	}
}

// Who has no plan suspends nothing and tells nothing.
func TestPoliciesOfATask(t *testing.T) {
	p := admission(t)
	for task, want := range map[string]bool{"of-r": true, "of-w": false, "x": false, "": false} {
		if got := p.SuspendsAfter(jobs.Task{Job: task}); got != want {
			t.Errorf("job %q is suspended when it fails: %v", task, got)
		}
	}
	if !p.Tells(jobs.Task{Pool: "p"}, jobs.EventFailed) || p.Tells(jobs.Task{Pool: "p"}, jobs.EventSucceeded) || p.Tells(jobs.Task{Job: "other", Pool: "p"}, jobs.EventFailed) || p.TellsStart() != nil {
		t.Error("it tells of other events than the pool wants, of its own tasks")
	}
	var none *Plan
	if none.SuspendsAfter(jobs.Task{Job: "of-r"}) || none.Tells(jobs.Task{Pool: "p"}, jobs.EventFailed) || none.LimitsKind(jobs.Task{Pool: "p", Kind: "r"}) {
		t.Error("no plan has policies")
	}
	for what, set := range map[string]jobs.Set{
		"both": {
			Jobs:  map[string]jobs.Job{"a": {Handler: replicatest.Nothing{}, Notify: jobs.Notify{Handler: replicatest.Nothing{}, On: []jobs.Event{jobs.EventStarted}}}, "z": {Handler: replicatest.Nothing{}}},
			Pools: map[string]jobs.Pool{"z": {Handler: replicatest.Nothing{}}},
		},
		"a job":  {Jobs: map[string]jobs.Job{"j": {Handler: replicatest.Nothing{}, Notify: jobs.Notify{Handler: replicatest.Nothing{}, On: []jobs.Event{jobs.EventStarted}}}}},
		"a pool": {Pools: map[string]jobs.Pool{"q": {Handler: replicatest.Nothing{}, Notify: jobs.Notify{Handler: replicatest.Nothing{}, On: []jobs.Event{jobs.EventStarted}}}}},
	} {
		tells := must(t, set).TellsStart()
		if tells == nil || tells(jobs.Task{Pool: "p"}) || tells(jobs.Task{Job: "j"}) != (what == "a job") || tells(jobs.Task{Pool: "q"}) != (what == "a pool") {
			t.Errorf("%s that wants to know of starts is told, or another one", what)
		}
	}
}

// What a task has of its own takes the place of what its pool has, and a longer pause that of the longest.
func TestATasksOwnPolicy(t *testing.T) {
	p := must(t, jobs.Set{Pools: map[string]jobs.Pool{"p": {
		Handler: replicatest.Nothing{}, Timeout: time.Hour, Retries: jobs.Retries{Limit: 2, Backoff: time.Second, MaxBackoff: time.Minute},
	}}})
	for what, c := range map[string]struct {
		task           jobs.Task
		timeout        time.Duration
		limit          int
		pause, longest time.Duration
	}{
		"nothing":      {jobs.Task{}, time.Hour, 2, time.Second, time.Minute},
		"attempts":     {jobs.Task{OwnAttempts: 1}, time.Hour, 0, time.Second, time.Minute},
		"a timeout":    {jobs.Task{Timeout: jobs.Duration(time.Millisecond)}, time.Millisecond, 2, time.Second, time.Minute},
		"a pause":      {jobs.Task{Backoff: jobs.Duration(3 * time.Second)}, time.Hour, 2, 3 * time.Second, time.Minute},
		"a long pause": {jobs.Task{Backoff: jobs.Duration(time.Hour)}, time.Hour, 2, time.Hour, time.Hour},
	} {
		c.task.Pool = "p"
		e, ok := p.Execution(c.task)
		if r := e.Retries; !ok || e.Timeout != c.timeout || r.Limit != c.limit || r.Backoff != c.pause || r.MaxBackoff != c.longest {
			t.Errorf("%s: %+v", what, e)
		}
	}
}
