package store_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// What unique tasks cost is a number of statements for each call, whatever number of tasks it has. Their claims, ends and other enqueues cost
// nothing.
func TestStatementsOfUniqueTasks(t *testing.T) {
	for _, d := range []store.Dialect{store.SQLite, store.MySQL} {
		t.Run(string(d), func(t *testing.T) {
			s, _, r := recordedStore(t, d)
			ctx := t.Context()
			check := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			session, err := s.Sides().Replica.Join(ctx, ledger.Member{Replica: "r", LockService: "x"})
			check(err)
			_, err = s.Sides().Replica.Load(ctx, session, ledger.Definitions{Pools: []ledger.PoolDef{{Name: "1", Hash: "h", MaxAttempts: 5}, {Name: "2", Hash: "h", MaxAttempts: 5}, {Name: "100", Hash: "h", MaxAttempts: 5}}})
			check(err)
			sent := func() (all []string) {
				for _, c := range r.take() {
					if !strings.HasPrefix(c.text, "SET TRANSACTION") { // not with Open
						all = append(all, c.text)
					}
				}
				return all
			}
			enqueue := func(what string, n, want int, u *jobs.Unique) {
				t.Helper()
				var batch []jobs.NewTask
				for i := range n {
					batch = append(batch, jobs.NewTask{Pool: strconv.Itoa(n), Payload: i, Unique: u})
				}
				r.take()
				_, err := s.Enqueue(ctx, batch...)
				check(err)
				if got := sent(); len(got) != want {
					t.Errorf("%s, %d tasks: %d statements, want %d:\n%s", what, n, len(got), want, strings.Join(got, "\n"))
				}
			}
			for _, n := range []int{1, 2, 100} {
				const begins, commits, pools, insert = 1, 1, 1, 1
				const makes, locks, reads, writes, answers = 1, 1, 1, 1, 2
				u := &jobs.Unique{}
				enqueue("not unique", n, begins+pools+insert+commits, nil)
				enqueue("new", n, begins+pools+makes+locks+insert+commits, u)
				enqueue("kept", n, begins+pools+makes+locks+reads+answers+commits, u)
				enqueue("replaced", n, begins+pools+makes+locks+reads+reads+writes+writes+answers+commits, &jobs.Unique{OnConflict: jobs.ConflictReplaces})
				r.take()
				got, err := s.Sides().Replica.Claim(ctx, ledger.Claim{
					Admission: ledger.Admission{
						Session: session, Replica: "r", Pools: map[string]ledger.Share{strconv.Itoa(n): {Hash: "h", Room: 2 * n}},
						Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now.Add(time.Minute), true },
					},
					Pool: strconv.Itoa(n), ID: newID(), Now: func(now time.Time) (time.Time, error) { return now, nil },
				})
				check(err)
				var results []ledger.Result
				for _, task := range tasksOf(got.Tasks) {
					results = append(results, ledger.Result{TaskID: task.ID, Token: task.Token, Verdict: ledger.Ended, State: jobs.StateSucceeded, Task: &task})
				}
				_, err = s.Sides().Replica.Finish(ctx, session, results)
				check(err)
				for _, text := range sent() {
					if strings.Contains(text, "unique_tasks") {
						t.Errorf("a claim or an end sends %s", text)
					}
				}
				if len(results) != 2*n {
					t.Fatalf("%d tasks ended, want %d", len(results), 2*n)
				}
				enqueue("after the end", n, begins+pools+makes+locks+reads+writes+insert+commits, u)
				hour := &jobs.Unique{By: []string{"payload"}, For: time.Hour}
				enqueue("for a time", n, begins+pools+makes+locks+insert+commits, hour)
				enqueue("for a time, kept", n, begins+pools+makes+locks+answers+commits, hour)
			}
		})
	}
}
