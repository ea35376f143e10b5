package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// overrideCases are about limits that the API sets in place of those of a definition.
var overrideCases = []Case{
	{"Overrides/Claim", overrideClaims},
	{"Overrides/Decide", overrideDecides},
	{"Overrides/Together", overrideTogether},
	{"Overrides/Fields", overrideFields},
	{"Overrides/Load", overrideLoads},
	{"Overrides/Rate", overrideRate},
}

func (s *scene) override(pool string, o *wire.PoolLimits) {
	s.t.Helper()
	must(s.t, s.Store.LimitPool(s.ctx(), pool, "ann", o))
}

// limits checks what a pool's view shows.
func (s *scene) limits(pool string, want ledger.Limits, override *wire.PoolLimits, by string) {
	s.t.Helper()
	all, err := s.Store.Pools(s.ctx())
	must(s.t, err)
	for _, p := range all {
		if p.Name != pool {
			continue
		}
		got := ledger.PoolStatus{Limits: p.Limits, Override: p.Override, LimitsBy: p.LimitsBy}
		if d := cmp.Diff(ledger.PoolStatus{Limits: want, Override: override, LimitsBy: by}, got); d != "" {
			s.t.Errorf("pool %s: %s", pool, d)
		}
	}
}

// claimUnaware is a claim of a replica that does not know of the pool's limits.
func (s *scene) claimUnaware(pool string, room int) claimed {
	s.t.Helper()
	got, err := tasksOf(s.Store.Claim(s.ctx(), s.claiming(pool, room)))
	must(s.t, err)
	return got
}

// An override holds for the next claim, also of a replica that has not learned of it: the claim says that the pool is limited.
func overrideClaims(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 20)
	claim := func(when string, tasks int, full, limited bool) {
		t.Helper()
		got := s.claimUnaware("work", 4)
		if len(got.Tasks) != tasks || got.Full != full || got.Limited != limited {
			t.Errorf("%s: claimed %d, full %v, limited %v", when, len(got.Tasks), got.Full, got.Limited)
		}
	}
	claim("without limits", 4, false, false)
	s.ready("without limits", "work")
	s.override("work", &wire.PoolLimits{MaxRunning: new(5)})
	s.ready("with room for one", "work")
	claim("with room for one", 1, false, true)
	s.ready("as many run as may")
	claim("as many run as may", 0, true, true)
	s.limit("work", 9)
	claim("below that of the definition", 0, true, true)
	s.ready("below that of the definition")
	s.override("work", &wire.PoolLimits{MaxRunning: new(6)})
	claim("one more", 1, false, true)
	s.override("work", nil)
	claim("that of the definition", 3, false, true)
	s.ready("that of the definition")
	s.override("work", &wire.PoolLimits{MaxRunning: new(0)})
	s.ready("no limit in place of one", "work")
	claim("no limit in place of one", 4, false, false)
	s.override("work", &wire.PoolLimits{Rate: &jobs.Rate{Count: 1, Per: time.Minute}, Burst: new(2)})
	claim("with a rate", 2, false, true)
	claim("with an empty bucket", 0, true, true)
	s.override("work", &wire.PoolLimits{Rate: new(jobs.Rate)})
	claim("no rate in place of one", 4, false, false)
	s.wantInt(19, "SELECT COUNT(*) FROM {tasks} WHERE state=2")
}

// In a pool with an override of which the replica does not know, a decision makes nothing running, as it has not locked the row.
func overrideDecides(t *testing.T, b *Bench) {
	s := newScene(t, b)
	for n, o := range []*wire.PoolLimits{{MaxRunning: new(9)}, {Rate: &jobs.Rate{Count: 50, Per: time.Second}}} {
		s.override("default", o)
		request := s.opening(n+1, 0, 9, "a", "b")
		request.Pools = map[string]ledger.Share{"default": {Hash: hash, Room: 9}}
		if got, err := decidedOf(s.Store.Decide(s.ctx(), request)); err != nil || len(got.Started) > 0 || len(got.Opened) != 2 {
			t.Errorf("%d: %+v, %v", n, got, err)
		}
		if got, err := decidedOf(s.Store.Decide(s.ctx(), s.opening(n+10, 5, 9, "a", "b"))); err != nil || len(got.Started) != 2 {
			t.Errorf("%d: by a replica that knows of it: %+v, %v", n, got, err)
		}
		s.override("default", nil)
		s.DB.Exec(t, "DELETE FROM {tasks}")
	}
	request := s.opening(20, 0, 9, "a", "b")
	request.Pools = map[string]ledger.Share{"default": {Hash: hash, Room: 9}}
	if got, err := decidedOf(s.Store.Decide(s.ctx(), request)); err != nil || len(got.Started) != 2 {
		t.Errorf("after the reset: %+v, %v", got, err)
	}
}

// An override of max_running is exact over replicas that do not know of it.
func overrideTogether(t *testing.T, b *Bench) {
	s := newScene(t, b)
	const claimers, limit, tasks = 6, 3, 40
	s.override("work", &wire.PoolLimits{MaxRunning: new(limit)})
	s.enqueue("work", tasks)
	replicas := make([]*scene, claimers)
	for i := range replicas {
		replicas[i] = s.second(string(rune('A' + i)))
	}
	Together(t, claimers, func(ctx context.Context, i int) error {
		me := replicas[i]
		for {
			got, err := tasksOf(me.Store.Claim(ctx, me.claiming("work", 2)))
			if err != nil {
				return err
			}
			if n := s.DB.Int(t, "SELECT COUNT(*) FROM {tasks} WHERE state=2"); n > limit || !got.Limited {
				t.Errorf("%d tasks run at once, %d are allowed; limited %v", n, limit, got.Limited)
			}
			if len(got.Tasks) == 0 && !got.Full && !got.More {
				return nil
			}
			var results []ledger.Result
			for _, task := range got.Tasks {
				results = append(results, result(task, ledger.Ended, jobs.StateSucceeded))
			}
			if _, err := me.Store.Finish(ctx, me.session, results); err != nil {
				return err
			}
		}
	})
	s.wantInt(tasks, "SELECT COUNT(*) FROM {done}")
}

// A later override replaces what it has, and leaves the rest; nil clears all. Views show the limits that hold.
func overrideFields(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.limit("work", 5)
	s.rate("work", "50/s", 7)
	own := ledger.Limits{MaxRunning: 5, Rate: jobs.Rate{Count: 50, Per: time.Second}, Burst: 7}
	s.limits("work", own, nil, "")
	s.limits("default", ledger.Limits{}, nil, "")
	s.override("work", &wire.PoolLimits{MaxRunning: new(8)})
	s.limits("work", ledger.Limits{MaxRunning: 8, Rate: own.Rate, Burst: 7}, &wire.PoolLimits{MaxRunning: new(8)}, "ann")
	hourly := jobs.Rate{Count: 1, Per: time.Hour}
	must(t, b.Store.LimitPool(s.ctx(), "work", "bob", &wire.PoolLimits{Rate: &hourly}))
	s.limits("work", ledger.Limits{MaxRunning: 8, Rate: hourly, Burst: 7}, &wire.PoolLimits{MaxRunning: new(8), Rate: &hourly}, "bob")
	s.override("work", &wire.PoolLimits{Burst: new(0)})
	s.limits("work", ledger.Limits{MaxRunning: 8, Rate: hourly}, &wire.PoolLimits{MaxRunning: new(8), Rate: &hourly, Burst: new(0)}, "ann")
	s.override("work", &wire.PoolLimits{MaxRunning: new(0), Rate: new(jobs.Rate), Burst: new(9)})
	s.limits("work", ledger.Limits{Burst: 9}, &wire.PoolLimits{MaxRunning: new(0), Rate: new(jobs.Rate), Burst: new(9)}, "ann")
	s.limits("default", ledger.Limits{}, nil, "")
	s.override("work", nil)
	s.limits("work", own, nil, "")
	s.override("work", nil)
	s.limits("work", own, nil, "")
	for _, o := range []*wire.PoolLimits{nil, {MaxRunning: new(1)}} {
		for _, pool := range []string{"none", "Work", ""} {
			if err := b.Store.LimitPool(s.ctx(), pool, "ann", o); !errors.Is(err, jobs.ErrNotFound) {
				t.Errorf("pool %q: %v", pool, err)
			}
		}
	}
}

// An override holds over a new definition, and while no configuration has the pool it cannot be changed.
func overrideLoads(t *testing.T, b *Bench) {
	s := newScene(t, b)
	minutely := jobs.Rate{Count: 2, Per: time.Minute}
	o := &wire.PoolLimits{MaxRunning: new(3), Rate: &minutely}
	s.override("work", o)
	d := definitions()
	d.Pools[2].Hash, d.Pools[2].MaxRunning, d.Pools[2].Rate, d.Pools[2].Burst = "2", 7, jobs.Rate{Count: 9, Per: time.Second}, 4
	load(t, b, s.session, d)
	s.limits("work", ledger.Limits{MaxRunning: 3, Rate: minutely, Burst: 4}, o, "ann")
	without := definitions()
	without.Pools = without.Pools[:2]
	load(t, b, s.session, without)
	for _, o := range []*wire.PoolLimits{nil, o} {
		if err := b.Store.LimitPool(s.ctx(), "work", "ann", o); !errors.Is(err, jobs.ErrNotFound) {
			t.Errorf("of a retired pool: %v", err)
		}
	}
	load(t, b, s.session, d)
	s.limits("work", ledger.Limits{MaxRunning: 3, Rate: minutely, Burst: 4}, o, "ann")
	s.override("work", nil)
	s.limits("work", ledger.Limits{MaxRunning: 7, Rate: jobs.Rate{Count: 9, Per: time.Second}, Burst: 4}, nil, "")
}

// After a change of the limits as many starts lack in the bucket as before: what a slow rate held may start by a faster one, and a slower
// one lets nothing start that the other did not.
func overrideRate(t *testing.T, b *Bench) {
	s := newScene(t, b)
	for what, c := range map[string]struct {
		o                    wire.PoolLimits
		took, atOnce, minute int // of a burst of 2 how many have started, how many may start at once, and how many a minute later
	}{
		"a faster rate":                {wire.PoolLimits{Rate: &jobs.Rate{Count: 1, Per: time.Minute}}, 2, 0, 1},
		"a faster rate, with one left": {wire.PoolLimits{Rate: &jobs.Rate{Count: 1, Per: time.Minute}}, 1, 1, 1},
		"a slower rate":                {wire.PoolLimits{Rate: &jobs.Rate{Count: 1, Per: 24 * time.Hour}}, 2, 0, 0},
		"a slower rate, with one left": {wire.PoolLimits{Rate: &jobs.Rate{Count: 1, Per: 24 * time.Hour}}, 1, 1, 0},
		"a larger burst":               {wire.PoolLimits{Burst: new(4)}, 2, 2, 0},
		"a smaller burst":              {wire.PoolLimits{Burst: new(1)}, 1, 0, 0},
		"no rate":                      {wire.PoolLimits{Rate: new(jobs.Rate)}, 2, 7, 0},
	} {
		s.rate("work", "1/h", 2)
		s.enqueue("work", 9)
		if got := s.limitedClaim("work", c.took); len(got.Tasks) != c.took {
			t.Fatalf("claimed %d", len(got.Tasks))
		}
		s.override("work", &c.o)
		if got := s.limitedClaim("work", 9); len(got.Tasks) != c.atOnce || c.minute > 0 && (got.OpensIn <= 0 || got.OpensIn > time.Minute) {
			t.Errorf("%s: claimed %d at once, opens in %v", what, len(got.Tasks), got.OpensIn)
		}
		s.pass("work", time.Minute)
		if got := s.limitedClaim("work", 9); len(got.Tasks) != c.minute {
			t.Errorf("%s: claimed %d after a minute", what, len(got.Tasks))
		}
		s.override("work", nil)
		s.DB.Exec(t, "DELETE FROM {tasks}")
	}
}
