package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// A transaction that ends pending tasks in several states locks the standings once, after all other rows.
func TestStandingsAreLockedLast(t *testing.T) {
	for _, d := range []store.Dialect{store.SQLite, store.MySQL} {
		t.Run(string(d), func(t *testing.T) {
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
			_, err = s.Sides().Replica.Load(ctx, session, ledger.Definitions{
				Pools: []ledger.PoolDef{{Name: "p", Hash: "h", MaxAttempts: 1}},
				Jobs:  []ledger.JobDef{{Name: "j", Hash: "h", Schedule: "s", Next: hourly}},
			})
			check(err)
			at := time.Now().Add(time.Hour).Truncate(time.Microsecond)
			var made []ledger.Opening
			for i, state := range []int{0, 1, 3, 4} {
				at := at.Add(time.Duration(i) * time.Minute)
				made = append(made, ledger.Opening{
					Trigger: jobs.Trigger{Job: "j", At: at, Cause: jobs.CauseSchedule}, Task: &jobs.Task{ID: newID(), Pool: "p"},
				})
				_, err := s.Sides().Replica.Decide(ctx, ledger.Decide{
					Admission: ledger.Admission{Session: session, Replica: "r", Pools: map[string]ledger.Share{"p": {Hash: "h"}}, Locks: lockless},
					Jobs:      []string{"j"}, Now: asIs,
					Decide: func(time.Time, []ledger.JobState) []ledger.Decision {
						return []ledger.Decision{{Job: "j", Cursor: at, NextAt: at.Add(time.Hour), Triggers: made[i:]}}
					},
				})
				check(err)
				_, err = db.ExecContext(ctx, "UPDATE lockstep_tasks SET state=? WHERE id=?", state, made[i].Task.ID)
				check(err)
			}
			r.take()
			got, err := s.ChangeTasks(ctx, wire.BulkCancel, wire.Bulk{TaskMatch: wire.TaskMatch{Pool: "p"}})
			check(err)
			if got.Done != len(made) {
				t.Fatalf("%+v", got)
			}
			standings, writes := 0, func(text, table string) bool {
				text = strings.TrimPrefix(text, "INSERT INTO lockstep_done") // which selects from the tasks
				return !strings.HasPrefix(text, "SELECT") && strings.Contains(text, table)
			}
			for _, c := range r.take() {
				switch {
				case writes(c.text, "lockstep_standings"):
					standings++
				case standings > 0 && (writes(c.text, "lockstep_tasks") || writes(c.text, "lockstep_triggers") || writes(c.text, "lockstep_key_waits")):
					t.Errorf("after the standings: %.100s", c.text)
				}
			}
			if standings != 2 { // the row is made, and written
				t.Errorf("the standings are written with %d statements", standings)
			}
		})
	}
}

// A retry takes the place of the new task in the order of its key before it adds the task, as an enqueue does.
func TestARetryTakesItsPlaceFirst(t *testing.T) {
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
			check(s.AddPools(ctx, map[string]jobs.Pool{"p": {Order: jobs.OrderKey}}))
			made, err := s.Enqueue(ctx, jobs.NewTask{Pool: "p", Key: "a"}, jobs.NewTask{Pool: "p", Key: "b"})
			check(err)
			for _, m := range made {
				_, err := s.Cancel(ctx, m.ID, "")
				check(err)
			}
			for what, retry := range map[string]func() error{
				"of one": func() error { _, err := s.Retry(ctx, made[0].ID, "", true); return err },
				"of a batch": func() error {
					_, err := s.ChangeTasks(ctx, wire.BulkRetry, wire.Bulk{TaskMatch: wire.TaskMatch{IDs: []string{made[1].ID}, State: jobs.StateCancelled}, Force: true})
					return err
				},
			} {
				r.take()
				check(retry())
				added, placed := 0, 0
				for i, c := range r.take() {
					switch {
					case strings.HasPrefix(c.text, "INSERT INTO lockstep_tasks"):
						added = i
					case strings.HasPrefix(c.text, "UPDATE") && strings.Contains(c.text, "lockstep_sequences"):
						placed = i
					}
				}
				if placed == 0 || added < placed {
					t.Errorf("%s: the place is taken by statement %d, and the task added by %d", what, placed, added)
				}
			}
		})
	}
}

// A transaction locks rows of jobs in one round, sorted: that of a result that comes late, beside one that may suspend its job, and that of tasks which a
// dead replica and a dead worker had. Two that lock them in other orders would wait for each other.
func TestJobsAreLockedInOneRound(t *testing.T) {
	for _, d := range []store.Dialect{store.SQLite, store.MySQL} {
		t.Run(string(d), func(t *testing.T) {
			s, db, r := recordedStore(t, d)
			ctx, side := t.Context(), s.Sides().Replica
			check := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			join := func(name string) string {
				t.Helper()
				session, err := side.Join(ctx, ledger.Member{Replica: name, LockService: "x"})
				check(err)
				return session
			}
			lives, dies := join("lives"), join("dies")
			_, err := side.Load(ctx, lives, ledger.Definitions{
				Pools: []ledger.PoolDef{{Name: "p", Hash: "h", MaxAttempts: 1}},
				Jobs: []ledger.JobDef{
					{Name: "a", Hash: "h", Schedule: "s", Next: hourly, SuspendAfter: 3}, {Name: "b", Hash: "h", Schedule: "s", Next: hourly, SuspendAfter: 3},
				},
			})
			check(err)
			at := time.Now().Add(time.Hour).Truncate(time.Microsecond)
			run := func(job, session string) jobs.Task {
				t.Helper()
				at = at.Add(time.Minute)
				task := &jobs.Task{ID: newID(), Pool: "p", Job: job}
				_, err := side.Decide(ctx, ledger.Decide{
					Admission: ledger.Admission{Session: lives, Replica: "lives", Pools: map[string]ledger.Share{"p": {Hash: "h"}}, Locks: lockless},
					Jobs:      []string{job}, Now: asIs,
					Decide: func(time.Time, []ledger.JobState) []ledger.Decision {
						return []ledger.Decision{{Job: job, Cursor: at, NextAt: at.Add(time.Hour), Triggers: []ledger.Opening{
							{Trigger: jobs.Trigger{Job: job, At: at, Cause: jobs.CauseSchedule}, Task: task},
						}}}
					},
				})
				check(err)
				_, err = db.ExecContext(ctx, "UPDATE lockstep_tasks SET state=2, token=7, attempt=1, session_id=? WHERE id=?", session, task.ID)
				check(err)
				got, _, err := s.Task(ctx, task.ID)
				check(err)
				return got
			}
			inOneRound := func(what string) {
				t.Helper()
				for _, c := range r.take() {
					if !strings.HasPrefix(c.text, "SELECT") || !strings.Contains(c.text, "FROM lockstep_jobs") {
						continue
					}
					has := map[string]bool{}
					for _, arg := range c.args {
						has[fmt.Sprintf("%s", arg)] = true
					}
					if has["a"] && has["b"] {
						return
					}
				}
				t.Errorf("%s: no statement locks the rows of both jobs", what)
			}

			lost, own := run("a", dies), run("b", lives)
			check(side.Leave(ctx, dies))
			_, err = side.Reap(ctx, 10)
			check(err)
			r.take()
			finished, err := side.Finish(ctx, lives, []ledger.Result{
				{TaskID: own.ID, Token: 7, Verdict: ledger.Ended, State: jobs.StateFailed, Task: &own, SuspendAfter: true},
				{TaskID: lost.ID, Token: 7, Verdict: ledger.Ended, State: jobs.StateSucceeded, Task: &lost},
			})
			check(err)
			if finished[0].Finish != ledger.Recorded || finished[1].Finish != ledger.Late {
				t.Fatalf("%+v", finished)
			}
			inOneRound("a late result beside one that counts")

			worker, replica := join("worker"), join("replica")
			run("a", worker)
			run("b", replica)
			_, err = db.ExecContext(ctx, "UPDATE lockstep_sessions SET pool='p' WHERE id=?", worker)
			check(err)
			check(side.Leave(ctx, worker))
			check(side.Leave(ctx, replica))
			r.take()
			reaped, err := side.Reap(ctx, 10)
			check(err)
			if len(reaped) != 2 {
				t.Fatalf("reaped %+v", reaped)
			}
			calls := r.take()
			for i, c := range calls {
				if strings.HasPrefix(c.text, "SELECT") && strings.Contains(c.text, "FROM lockstep_jobs") {
					r.mu.Lock()
					r.calls = calls[i : i+1] // the first that locks
					r.mu.Unlock()
					break
				}
			}
			inOneRound("a reap of a replica's task and a worker's")
		})
	}
}
