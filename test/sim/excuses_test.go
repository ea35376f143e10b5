package sim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// small is a world of one replica in which only handlers are random.
func small(seed uint64, due map[string]rule, steps ...step) *plan {
	p := &plan{
		Seed: seed, Replicas: 1, TTL: time.Second, NoLocks: true, WhenDown: scheduler.DownStore, Drain: 15 * time.Second, Slow: true,
		Jobs: map[string]job{}, Pools: map[string]jobs.Pool{naming.DefaultPool: {Workers: 4}}, Steps: steps, Length: 30 * time.Second,
	}
	for name, c := range due {
		ts := times{c}
		p.Jobs[name] = job{Times: ts, Job: jobs.Job{
			Schedules: ts.specs(), Concurrency: jobs.Forbid, OnLost: jobs.LostFails, Timeout: time.Minute, Pool: naming.DefaultPool,
			CatchUp: jobs.CatchUp{Policy: jobs.CatchUpLatest, Grace: 5 * time.Second, Window: time.Hour, Limit: 1},
		}}
	}
	return p
}

// A COMMIT that ends after the last replica has left makes a row that no replica is left to end.
func TestCommitAfterTheLastReplica(t *testing.T) {
	t.Parallel()
	w := simulate(t, small(1, map[string]rule{"a": daily(23, 0)},
		step{At: 8 * time.Second, Kind: stalls, Replica: -1, For: time.Millisecond, P: 1, By: time.Hour},
		step{At: 8 * time.Second, Kind: runs, Name: "a"},
	), nil)
	for _, v := range w.violations {
		t.Error(v.text)
	}
	found := false
	w.db.Look(func(rows memstore.Rows) {
		for k, g := range rows.Triggers {
			found = found || g.Outcome == "" && w.committed[k].After(w.left) && g.DecidedAt <= w.healed.UnixMicro()
		}
	})
	if !found {
		t.Errorf("there is no such row:\n%s", w.story("", 50))
	}
}

// A due time in a drain that outlasts its step is decided by the next replica, late, which is allowed.
func TestLateAfterALongDrain(t *testing.T) {
	t.Parallel()
	found := 0
	for seed := range uint64(20) {
		w := simulate(t, small(seed+1, map[string]rule{"long": hourly(0, 10), "late": hourly(0, 17)},
			step{At: 10500 * time.Millisecond, Kind: drains, For: 10 * time.Millisecond},
		), nil)
		for _, v := range w.violations {
			t.Errorf("seed %d: %s", seed+1, v.text)
		}
		w.db.Look(func(rows memstore.Rows) {
			for k, g := range rows.Triggers {
				if k.Job == "late" && time.Duration(g.DecidedAt-g.At)*time.Microsecond > onTime {
					found++
				}
			}
		})
	}
	if found == 0 {
		t.Error("no drain took so long")
	}
}

// A stop is a fault when it begins, and until the next replica starts.
func TestStopsAreFaultsAtTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(small(1, nil))
		n := w.nodes[0]
		n.now = &replica{}
		time.Sleep(time.Hour)
		began := time.Now()
		n.away(time.Minute, func(*replica) {
			if w.weather.calm(began) {
				t.Error("all is calm while it stops")
			}
			time.Sleep(time.Minute)
		})
		if w.weather.calm(time.Now()) {
			t.Error("all is calm as the next one starts")
		}
		time.Sleep(time.Nanosecond)
		if !w.weather.calm(time.Now()) {
			t.Error("it lasts")
		}
	})
}
