package store_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// The end of attempts in a pool with pause_on costs two statements, both by the primary key, and in another pool none.
func TestStatementsOfPauseOn(t *testing.T) {
	for _, d := range []store.Dialect{store.SQLite, store.MySQL} {
		t.Run(string(d), func(t *testing.T) {
			s, db, r := recordedStore(t, d)
			ctx := t.Context()
			session, err := s.Sides().Replica.Join(ctx, ledger.Member{Replica: "r", LockService: "x"})
			if err == nil {
				_, err = s.Sides().Replica.Load(ctx, session, ledger.Definitions{Pools: []ledger.PoolDef{{Name: "p", Hash: "h", MaxAttempts: 1}}})
			}
			if err != nil {
				t.Fatal(err)
			}
			finish := func(on jobs.PauseOn) (n int) {
				t.Helper()
				if _, err := s.Enqueue(ctx, slices.Repeat([]jobs.NewTask{{Pool: "p"}}, 3)...); err != nil {
					t.Fatal(err)
				}
				got, err := s.Sides().Replica.Claim(ctx, ledger.Claim{
					Admission: ledger.Admission{
						Session: session, Replica: "r", Pools: map[string]ledger.Share{"p": {Hash: "h", Room: 3}}, Locks: lockless,
						Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now.Add(time.Minute), true },
					},
					Pool: "p", ID: newID(), Now: func(now time.Time) (time.Time, error) { return now, nil },
				})
				if err != nil || len(got.Tasks) != 3 {
					t.Fatalf("%d tasks, %v", len(got.Tasks), err)
				}
				var results []ledger.Result
				for _, is := range got.Tasks {
					results = append(results, ledger.Result{
						TaskID: is.Task.ID, Token: is.Task.Token, Verdict: ledger.Ended, State: jobs.StateSucceeded, Task: is.Task, PauseOn: ledger.PauseOn{Pool: "p", PauseOn: on},
					})
				}
				r.take()
				if _, err := s.Sides().Replica.Finish(ctx, session, results); err != nil {
					t.Fatal(err)
				}
				for _, c := range r.take() {
					if strings.HasPrefix(c.text, "SET TRANSACTION") { // not with Open
						continue
					}
					n++
					if d == store.MySQL && strings.Contains(c.text, "lockstep_pools") {
						for _, p := range plan(t, db, c) {
							if p.key != "PRIMARY" {
								t.Errorf("%s %s for %s", p.kind, p.key, c.text)
							}
						}
					}
				}
				return n
			}
			plain := finish(jobs.PauseOn{})
			if on := finish(jobs.PauseOn{Failures: 50, Of: 100}); on != plain+2 {
				t.Errorf("%d statements with pause_on, %d without", on, plain)
			}
			if again := finish(jobs.PauseOn{}); again != plain {
				t.Errorf("%d statements without pause_on, %d before", again, plain)
			}
		})
	}
}
