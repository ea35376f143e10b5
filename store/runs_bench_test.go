package store_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// BenchmarkRuns measures what the store does for the runs of jobs that are due together: three replicas take turns, each decides a batch, which
// starts at once, and records the ends. An operation is one run.
func BenchmarkRuns(b *testing.B) {
	for _, d := range []store.Dialect{store.SQLite, store.MySQL} {
		for _, batch := range []int{1, 20, 167, 500} {
			b.Run(fmt.Sprint(d, "/", batch), func(b *testing.B) { benchRuns(b, d, batch) })
		}
	}
}

func benchRuns(b *testing.B, d store.Dialect, most int) {
	const pool = "work"
	dsn := filepath.Join(b.TempDir(), "runs.db")
	if d == store.MySQL {
		dsn = servers.MySQL(b)
	}
	defs := ledger.Definitions{Pools: []ledger.PoolDef{{Name: pool, Hash: "h", MaxAttempts: 1}}}
	var names []string
	for i := range 3000 {
		names = append(names, fmt.Sprintf("job-%06d", i))
		defs.Jobs = append(defs.Jobs, ledger.JobDef{Name: names[i], Hash: "h", Schedule: "s", Stripe: i % 64, Next: func(t time.Time) time.Time { return t.Add(time.Hour) }})
	}
	type replica struct {
		ledger.Store
		session string
	}
	var replicas []replica
	for i := range 3 {
		s, err := store.Open(b.Context(), d, dsn, store.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = s.Close() })
		if err := s.Migrate(b.Context()); err != nil {
			b.Fatal(err)
		}
		r := replica{Store: s.Sides().Replica}
		if r.session, err = r.Join(b.Context(), ledger.Member{Replica: fmt.Sprint("replica-", i), LockService: "x"}); err == nil {
			_, err = r.Load(b.Context(), r.session, defs)
		}
		if err != nil {
			b.Fatal(err)
		}
		replicas = append(replicas, r)
	}
	at := time.Now().UTC().Truncate(time.Second)
	turn := func(n int) (runs int) {
		r := replicas[n%len(replicas)]
		size := most - n*7%(most/2+1) // as they come: no two batches have the same length
		var chosen []string
		for i := range size {
			chosen = append(chosen, names[(n*most+i*7)%len(names)])
		}
		due := at.Add(time.Duration(n) * time.Hour)
		decided, err := r.Decide(b.Context(), ledger.Decide{
			Admission: ledger.Admission{
				Session: r.session, Pools: map[string]ledger.Share{pool: {Hash: "h", Room: most}},
				Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now.Add(time.Hour), true },
			},
			Jobs: chosen, Now: func(database time.Time) (time.Time, error) { return database, nil },
			Decide: func(_ time.Time, states []ledger.JobState) (all []ledger.Decision) {
				for _, s := range states {
					all = append(all, ledger.Decision{
						Job: s.Name, Cursor: due, NextAt: due.Add(time.Hour),
						Triggers: []ledger.Opening{{
							Trigger: jobs.Trigger{Job: s.Name, At: due, Count: 1, Cause: jobs.CauseSchedule},
							Task:    &jobs.Task{ID: uuid.Must(uuid.NewV7()).String(), Pool: pool, MaxAttempts: 1, OnLost: jobs.LostFails},
						}},
					})
				}
				return all
			},
		})
		if err != nil || len(decided.Started) != size {
			b.Fatalf("%d of %d started: %v", len(decided.Started), size, err)
		}
		var results []ledger.Result
		for _, s := range decided.Started {
			results = append(results, ledger.Result{TaskID: s.Task.ID, Token: s.Task.Token, Task: s.Task, Verdict: ledger.Ended, State: jobs.StateSucceeded})
		}
		if _, err := r.Finish(b.Context(), r.session, results); err != nil {
			b.Fatal(err)
		}
		return size
	}
	turn(0)
	b.ResetTimer()
	for done, n := 0, 1; done < b.N; n++ {
		done += turn(n)
	}
}
