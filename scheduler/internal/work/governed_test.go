package work

import (
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// officePool has tasks without a kind, letters and faxes.
func officePool() jobs.Pool {
	return jobs.Pool{Handler: replicatest.Named("bare"), Kinds: map[string]jobs.Handler{"fax": replicatest.Named("fax"), "mail": replicatest.Named("mail")}}
}

// rowOf is the row of such a pool in a newer configuration.
func rowOf(name string, p jobs.Pool) ledger.OtherPool {
	return ledger.OtherPool{Name: name, Hash: p.Hash(), MaxRunning: p.MaxRunning, Kinds: p.HandlerHashes()}
}

// Among the candidates of a claim, a replica takes the tasks of kinds that are the same in the governing definition, and of
// jobs that are the same as the task says, if they have a handler of their own or the pool's is the same. In a retired pool
// there are none.
func TestWhatAReplicaTakesOfAPool(t *testing.T) {
	s, err := newOn(&memstore.Store{Database: memstore.New()}, nil, jobs.Set{
		Pools: map[string]jobs.Pool{"p": officePool()},
		Jobs: map[string]jobs.Job{
			"own":   {Pool: "p", Handler: replicatest.Named("own"), OnLost: jobs.LostFails, Timeout: time.Hour},
			"faxes": {Pool: "p", Kind: "fax"},
			"mails": {Pool: "p", Kind: "mail", OnLost: jobs.LostRetries},
		},
	}, Options{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	f := s.work.feeder("p")
	newer := officePool()
	newer.Handler, newer.Kinds["fax"] = replicatest.Named("bare 2"), replicatest.Named("fax 2")
	own, other, retired := f.pool.Governs(), f.pool.Under(rowOf("p", newer)), f.pool.Under(ledger.OtherPool{Name: "p"})
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	hash := func(job string) string { return s.plan.Jobs[job].Hash }
	for what, c := range map[string]struct {
		candidate           ledger.Candidate
		own, other, retired bool
		until               time.Time
	}{
		"a kind that is the same":           {ledger.Candidate{Task: jobs.Task{Pool: "p", Kind: "mail"}}, true, true, false, time.Time{}},
		"a kind that is not":                {ledger.Candidate{Task: jobs.Task{Pool: "p", Kind: "fax"}}, true, false, false, time.Time{}},
		"an unknown kind":                   {ledger.Candidate{Task: jobs.Task{Pool: "p", Kind: "sms"}}, false, false, false, time.Time{}},
		"a job with a handler of its own":   {ledger.Candidate{Task: jobs.Task{Pool: "p", Job: "own"}, JobHash: hash("own")}, true, true, false, now.Add(time.Hour)},
		"as it is not here":                 {ledger.Candidate{Task: jobs.Task{Pool: "p", Job: "own"}, JobHash: "other"}, false, false, false, now.Add(time.Hour)},
		"a job of a kind that is the same":  {ledger.Candidate{Task: jobs.Task{Pool: "p", Job: "mails"}, JobHash: hash("mails")}, true, true, false, time.Time{}},
		"a job of a kind that is not":       {ledger.Candidate{Task: jobs.Task{Pool: "p", Job: "faxes"}, JobHash: hash("faxes")}, true, false, false, now.Add(24 * time.Hour)},
		"a job that this replica lacks":     {ledger.Candidate{Task: jobs.Task{Pool: "p", Job: "gone"}, JobHash: hash("own")}, false, false, false, time.Time{}},
		"a job of this pool when it was so": {ledger.Candidate{Task: jobs.Task{Pool: "p", Job: "own", Kind: "sms"}, JobHash: hash("own")}, true, true, false, now.Add(time.Hour)},
	} {
		for name, by := range map[string]struct {
			plan.Governing
			want bool
		}{"own": {own, c.own}, "other": {other, c.other}, "retired": {retired, c.retired}} {
			until, takes := s.plan.Admit(by.Governing, now, c.candidate)
			if takes != by.want || takes && !until.Equal(c.until) && !(c.until.IsZero() && until.IsZero()) {
				t.Errorf("%s, governed by %s: it takes it: %t, until %v", what, name, takes, until)
			}
		}
	}
}

// A feeder that learns the governing definition of its pool asks again for what it left alone, and claims at once if
// the definition changed. What it has passed stays passed while nothing changes.
func TestWhatAFeederLearnsOfItsPool(t *testing.T) {
	f, _ := fed(t)
	newer := officePool()
	other := f.pool.Under(rowOf("p", newer))
	limited := newer
	limited.MaxRunning = 2
	for _, step := range []struct {
		what   string
		g      plan.Governing
		skips  []string
		forget bool // what it left alone
		woken  bool
	}{
		{"as before", f.pool.Governs(), nil, false, false},
		{"as before, and some jobs are left", f.pool.Governs(), []string{"x"}, true, false},
		{"a newer configuration", other, nil, true, true},
		{"still the same one", other, nil, false, false},
		{"the same one says what it has", plan.Governing{Hash: other.Hash, Shared: []string{""}}, nil, true, false},
		{"another limit", f.pool.Under(rowOf("p", limited)), nil, true, true},
		{"retired", f.pool.Under(ledger.OtherPool{Name: "p"}), nil, true, true},
		{"its own again", f.pool.Governs(), []string{"x"}, true, true},
	} {
		_, asked := f.scope()
		f.skipJobs = step.skips
		f.seen.nothing, f.fruitless = true, 3
		f.goBy(step.g)
		if _, now := f.scope(); (now != asked) != step.forget || f.seen.nothing == step.forget || (f.fruitless == 0) != step.forget || step.forget && len(f.skipJobs) > 0 {
			t.Errorf("%s: forgotten: %t", step.what, now != asked)
		}
		if got := f.governed(); got.Hash != step.g.Hash || got.Limited != step.g.Limited || !slices.Equal(got.Shared, step.g.Shared) {
			t.Errorf("%s: it goes by %+v, want %+v", step.what, got, step.g)
		}
		if woken := len(f.wake) > 0; woken != step.woken {
			t.Errorf("%s: woken: %t", step.what, woken)
		}
		for len(f.wake) > 0 {
			<-f.wake
		}
	}
}

// Where the newer configuration shares only some of a pool's kinds, a feeder asks for those alone; with all of
// them it asks for any task, as one that it does not know must be met.
func TestWhichKindsAFeederAsksFor(t *testing.T) {
	p, err := plan.New(jobs.Set{Pools: map[string]jobs.Pool{"p": officePool()}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := newFeeder(nil, p, p.Pools["p"])
	less := officePool()
	delete(less.Kinds, "fax")
	limited := officePool()
	limited.MaxRunning = 2
	for what, c := range map[string]struct {
		row    ledger.OtherPool
		byKind bool // it has met a kind that it does not know
		want   []string
	}{
		"its own":                        {rowOf("p", officePool()), false, nil},
		"its own, and an unknown kind":   {rowOf("p", officePool()), true, []string{"", "fax", "mail"}},
		"all in the same way":            {rowOf("p", limited), false, nil},
		"a kind less":                    {rowOf("p", less), false, []string{"", "mail"}},
		"a kind less, and unknown kinds": {rowOf("p", less), true, []string{"", "mail"}},
	} {
		f.governs, f.byKind = p.Pools["p"].Under(c.row), c.byKind
		if scope, _ := f.scope(); !slices.Equal(scope.Kinds, c.want) || (scope.Kinds == nil) != (c.want == nil) {
			t.Errorf("%s: it asks for %q, want %q", what, scope.Kinds, c.want)
		}
	}
}
