package store_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// A pool with a rate costs a claim and a decision two statements: the time, under the lock, and what the bucket has then. A max_running
// costs one, the count. Where the replica does not know of the limits, the pool's row is read a second time. A pool without limits costs
// nothing.
func TestStatementsOfLimits(t *testing.T) {
	for _, d := range []store.Dialect{store.SQLite, store.MySQL} {
		t.Run(string(d), func(t *testing.T) { statementsOfLimits(t, d) })
	}
}

func statementsOfLimits(t *testing.T, d store.Dialect) {
	s, db, r := recordedStore(t, d)
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	session, err := s.Sides().Replica.Join(ctx, ledger.Member{Replica: "r", LockService: "x"})
	check(err)
	rate := jobs.Rate{Count: 1000, Per: time.Second}
	_, err = s.Sides().Replica.Load(ctx, session, ledger.Definitions{
		Jobs: []ledger.JobDef{{Name: "j", Hash: "h", Schedule: "s", Next: hourly}},
		Pools: []ledger.PoolDef{
			{Name: "both", Hash: "h", MaxAttempts: 1, MaxRunning: 100, Rate: rate}, {Name: "counted", Hash: "h", MaxAttempts: 1, MaxRunning: 100},
			{Name: "overridden", Hash: "h", MaxAttempts: 1}, {Name: "plain", Hash: "h", MaxAttempts: 1}, {Name: "rated", Hash: "h", MaxAttempts: 1, Rate: rate},
		},
	})
	check(err)
	check(s.Sides().API.LimitPool(ctx, "overridden", "me", &wire.PoolLimits{Rate: &rate}))
	admission := func(pool string) ledger.Admission {
		limited := pool != "plain" && pool != "overridden"
		return ledger.Admission{
			Session: session, Replica: "r", Pools: map[string]ledger.Share{pool: {Hash: "h", Limited: limited, Room: 2}},
			Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now.Add(time.Minute), true },
			Locks: lockless,
		}
	}
	same := func(now time.Time) (time.Time, error) { return now, nil }
	at := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	sent := func(do func() error) int {
		t.Helper()
		r.take()
		check(do())
		calls := slices.DeleteFunc(r.take(), func(c call) bool { return strings.HasPrefix(c.text, "SET TRANSACTION") }) // not with Open
		for _, c := range calls {
			if d == store.MySQL && strings.HasPrefix(c.text, "UPDATE lockstep_pools") {
				for _, p := range plan(t, db, c) {
					if p.key != "PRIMARY" {
						t.Errorf("%s %s for %s", p.kind, p.key, c.text)
					}
				}
			}
		}
		return len(calls)
	}
	claim := func(pool string) int {
		t.Helper()
		_, err := s.Enqueue(ctx, jobs.NewTask{Pool: pool}, jobs.NewTask{Pool: pool}, jobs.NewTask{Pool: pool})
		check(err)
		return sent(func() error {
			got, err := s.Sides().Replica.Claim(ctx, ledger.Claim{Admission: admission(pool), Pool: pool, ID: newID(), Now: same})
			if len(got.Tasks) != 2 {
				t.Errorf("claimed %d of %s", len(got.Tasks), pool)
			}
			return err
		})
	}
	decide := func(pool string) int {
		t.Helper()
		at = at.Add(time.Second)
		return sent(func() error {
			got, err := s.Sides().Replica.Decide(ctx, ledger.Decide{
				Admission: admission(pool), Jobs: []string{"j"}, Now: same,
				Decide: func(time.Time, []ledger.JobState) []ledger.Decision {
					return []ledger.Decision{{Job: "j", Cursor: at, NextAt: at.Add(time.Hour), Triggers: []ledger.Opening{{
						Trigger: jobs.Trigger{Job: "j", At: at, Cause: jobs.CauseSchedule},
						Task:    &jobs.Task{ID: newID(), Pool: pool, Priority: 1},
					}}}}
				},
			})
			if started := len(got.Started) == 1; started != (pool != "overridden") {
				t.Errorf("started in %s: %v", pool, started)
			}
			return err
		})
	}
	now := map[store.Dialect]int{store.SQLite: 0, store.MySQL: 1}[d] // SQLite's time is that of the process
	claims, decisions := claim("plain"), decide("plain")
	for pool, more := range map[string]int{"plain": 0, "counted": 1, "rated": 1 + now, "both": 2, "overridden": 2 + now} {
		if n := claim(pool); n != claims+more {
			t.Errorf("%s: a claim sends %d statements, want %d and %d more", pool, n, claims, more)
		}
		n := decide(pool)
		if pool == "overridden" { // nothing starts
			continue
		}
		if pool != "plain" {
			more++ // it looks at the pending tasks that go before
		}
		if n != decisions+more {
			t.Errorf("%s: a decision sends %d statements, want %d and %d more", pool, n, decisions, more)
		}
	}
}
