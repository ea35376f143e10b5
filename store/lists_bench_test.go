package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// What the lists of BenchmarkLists read from.
const (
	benchDone     = 100_000
	benchOpen     = 5_000
	benchTriggers = 20_000
	benchJobs     = 1_000
	benchPools    = 20
	benchAudit    = 2_000
	benchSessions = 8
)

// BenchmarkLists measures each list in a store that has been in use for a while.
func BenchmarkLists(b *testing.B) {
	for _, d := range []store.Dialect{store.SQLite, store.MySQL} {
		b.Run(string(d), func(b *testing.B) {
			s, defs := benchStore(b, d)
			list := func(name string, read func(ctx context.Context) (n int, err error)) {
				b.Run(name, func(b *testing.B) {
					var each []time.Duration
					for b.Loop() {
						start := time.Now()
						if n, err := read(b.Context()); err != nil || n == 0 {
							b.Fatal(n, err)
						}
						each = append(each, time.Since(start))
					}
					slices.Sort(each) // the median is steadier on a machine with other load
					b.ReportMetric(float64(each[len(each)/2].Nanoseconds()), "p50-ns/op")
				})
			}
			middle := fmt.Sprintf("done-%06d", benchDone/2)
			for name, f := range map[string]wire.TaskFilter{
				"all": {}, "pool": {Pool: "p3"}, "job": {Job: "j00007"}, "failed": {State: jobs.StateFailed},
				"pool failed": {Pool: "p3", State: jobs.StateFailed}, "pending": {State: jobs.StatePending}, "running": {State: jobs.StateRunning},
			} {
				for _, limit := range []int{50, 500} {
					f.Limit = limit
					list(fmt.Sprintf("tasks %s/%d", name, limit), func(ctx context.Context) (int, error) {
						rows, _, err := s.Tasks(ctx, f)
						return len(rows), err
					})
				}
			}
			list("task", func(ctx context.Context) (int, error) {
				_, earlier, err := s.Task(ctx, middle)
				return len(earlier) + 1, err
			})
			for name, id := range map[string]string{"done": middle, "open": "open-000777", "running": "open-000700"} {
				list("why "+name, func(ctx context.Context) (int, error) {
					f, err := s.Sides().API.Why(ctx, id)
					return 1 + f.Ahead.N, err
				})
			}
			list("task row", func(ctx context.Context) (int, error) {
				_, err := s.Sides().Replica.TaskRow(ctx, middle)
				return 1, err
			})
			list("output", func(ctx context.Context) (int, error) {
				out, err := s.Sides().API.Output(ctx, middle, 0)
				return len(out), err
			})
			for name, f := range map[string]wire.TriggerFilter{
				"all": {}, "job": {Job: "j00007"}, "missed": {Outcome: jobs.Missed}, "failed": {Result: jobs.StateFailed}, "since": {Since: time.UnixMicro(benchTriggers / 2)},
			} {
				for _, limit := range []int{50, 500} {
					f.Limit = limit
					list(fmt.Sprintf("triggers %s/%d", name, limit), func(ctx context.Context) (int, error) {
						rows, _, err := s.Triggers(ctx, f)
						return len(rows), err
					})
				}
			}
			for _, limit := range []int{50, 500} {
				list(fmt.Sprintf("audit/%d", limit), func(ctx context.Context) (int, error) {
					rows, _, err := s.Sides().Audit.AuditEntries(ctx, wire.Page{Limit: limit})
					return len(rows), err
				})
			}
			list("jobs", func(ctx context.Context) (int, error) { rows, err := s.Sides().API.Jobs(ctx); return len(rows), err })
			list("job", func(ctx context.Context) (int, error) {
				rows, err := s.Sides().API.Jobs(ctx, "j00007")
				return len(rows), err
			})
			list("job names", func(ctx context.Context) (int, error) {
				rows, err := s.Sides().API.JobNames(ctx, "j0", "j00500", false, 100)
				return len(rows), err
			})
			list("job standings", func(ctx context.Context) (int, error) {
				rows, err := s.Sides().API.JobStandings(ctx)
				return len(rows), err
			})
			list("pools", func(ctx context.Context) (int, error) {
				rows, err := s.Sides().API.Pools(ctx)
				return len(rows), err
			})
			list("replicas", func(ctx context.Context) (int, error) {
				rows, err := s.Sides().API.Replicas(ctx)
				return len(rows), err
			})
			list("overview", func(ctx context.Context) (int, error) { o, err := s.Sides().API.Overview(ctx, 10); return o.Jobs, err })
			list("upcoming", func(ctx context.Context) (int, error) {
				rows, err := s.Sides().Replica.Upcoming(ctx, []int{1, 2, 3, 4, 5, 6, 7, 8})
				return len(rows), err
			})
			session, err := s.Sides().Replica.Join(b.Context(), ledger.Member{Replica: "bench", LockService: "x"})
			if err == nil {
				_, err = s.Sides().Replica.Load(b.Context(), session, defs)
			}
			if err != nil {
				b.Fatal(err)
			}
			list("assert", func(ctx context.Context) (int, error) {
				_, err := s.Sides().Replica.Assert(ctx, session, defs)
				return 1, err
			})
			list("assert of changes", func(ctx context.Context) (int, error) {
				for i := range 100 {
					defs.Jobs[i].Hash += "x"
					defs.Jobs[i].Hash = defs.Jobs[i].Hash[max(0, len(defs.Jobs[i].Hash)-40):]
				}
				defs.Jobs[0].Schedule, defs.Pools[0].MaxRunning = defs.Jobs[0].Hash, defs.Pools[0].MaxRunning+1
				_, err := s.Sides().Replica.Assert(ctx, session, defs)
				return 1, err
			})
		})
	}
}

// benchStore has the rows that the constants say, and the definitions of its jobs and pools.
func benchStore(b *testing.B, d store.Dialect) (*store.Store, ledger.Definitions) {
	b.Helper()
	dsn := filepath.Join(b.TempDir(), "lists.db")
	if d == store.MySQL {
		dsn = servers.MySQL(b)
	}
	s, err := store.Open(b.Context(), d, dsn, store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	defs := ledger.Definitions{}
	for i := range benchPools {
		defs.Pools = append(defs.Pools, ledger.PoolDef{Name: fmt.Sprint("p", i), Hash: "h", MaxAttempts: 3, Kinds: map[string]string{"mail": "m", "": "m"}})
	}
	for i := range benchJobs {
		defs.Jobs = append(defs.Jobs, ledger.JobDef{
			Name: fmt.Sprintf("j%05d", i), Hash: "h", Schedule: "s", Stripe: i % 64, Next: func(t time.Time) time.Time { return t.Add(time.Hour) },
		})
	}
	for i := range benchSessions {
		session, err := s.Sides().Replica.Join(b.Context(), ledger.Member{Replica: fmt.Sprint("r", i), LockService: "x"})
		if err == nil {
			_, err = s.Sides().Replica.Load(b.Context(), session, defs)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	db := openRaw(b, d, dsn)
	defer db.Close()
	small, large := bytes.Repeat([]byte("p"), 200), bytes.Repeat([]byte("P"), 20_000)
	ends, now := []string{"succeeded", "succeeded", "succeeded", "failed", "cancelled", "lost"}, time.Now().UnixMicro()
	payload := func(i int) []byte {
		if i%50 == 0 {
			return large
		}
		return small
	}
	job := func(i int) string {
		if i%2 == 0 {
			return ""
		}
		return fmt.Sprintf("j%05d", i/2%benchJobs)
	}
	benchInsert(b, db, "lockstep_done (id, pool, kind, job, trigger_at, trigger_seq, state, rank_order, run_at, attempt, failures, losses, max_attempts, on_lost, token, session_id, replica, "+
		"idem_key, payload, tags, retry_of, reason, reason_code, error, created_at, started_at, finished_at, made_by)", benchDone, func(i int) []any {
		end, reason, failure := ends[i%len(ends)], "", []byte{}
		if end == "failed" || end == "lost" {
			reason, failure = "exit code 1", bytes.Repeat([]byte("e"), 150)
		}
		return []any{
			fmt.Sprintf("done-%06d", i), fmt.Sprint("p", i%benchPools), "mail", job(i), i, 0, end, 0, i, 1, 0, 0, 3, "fail", 7, "s", "replica-1",
			"", payload(i), []byte(`["a","b"]`), "", reason, "", failure, i + 1, i + 2, now - int64(benchDone-i)*1e6, "somebody",
		}
	})
	benchInsert(b, db, "lockstep_tasks (id, pool, kind, job, state, run_at, attempt, payload, tags, error, created_at, started_at, replica)", benchOpen, func(i int) []any {
		state := 0
		if i%100 == 0 {
			state = 2
		}
		return []any{fmt.Sprintf("open-%06d", i), fmt.Sprint("p", i%benchPools), "mail", job(i), state, i, 1, payload(i), []byte{}, []byte{}, i + 1, i + 2, "replica-1"}
	})
	benchInsert(b, db, "lockstep_attempts (task_id, attempt, state, token, replica, started_at, finished_at, exit_code, error)", benchDone/10, func(i int) []any {
		return []any{fmt.Sprintf("done-%06d", i*10), 1, "failed", 3, "replica-1", i, i + 1, 1, []byte("oh no")}
	})
	benchInsert(b, db, "lockstep_outputs (task_id, attempt, output, created_at)", benchDone/10, func(i int) []any {
		return []any{fmt.Sprintf("done-%06d", i*10), 1, small, i}
	})
	benchInsert(b, db, "lockstep_triggers (job, at, seq, cause, by_whom, outcome, reason, reason_code, result, task_id, replica, decided_at, started_at, finished_at)", benchTriggers, func(i int) []any {
		outcome, result := "ran", "succeeded"
		switch {
		case i%40 == 0:
			outcome, result = "missed", ""
		case i%3 == 0:
			result = "failed"
		}
		return []any{fmt.Sprintf("j%05d", i%benchJobs), i + 1, 0, "schedule", "", outcome, "a reason", "", result, fmt.Sprintf("done-%06d", i), "replica-1", i, i + 1, i + 2}
	})
	benchInsert(b, db, "lockstep_standings (kind, name, failing, last_success_at, last_end_at)", benchJobs, func(i int) []any {
		return []any{"job", fmt.Sprintf("j%05d", i), i % 10 / 9, benchTriggers - i%5000, benchTriggers}
	})
	benchInsert(b, db, "lockstep_audit (id, at, who, role, remote, action, object, status)", benchAudit, func(i int) []any {
		return []any{fmt.Sprintf("audit-%06d", i), i / 3, "somebody", "admin", "127.0.0.1", "POST /jobs/{name}/run", "j00007", 200}
	})
	for _, table := range []string{"tasks", "done", "triggers", "jobs", "audit", "sessions", "kinds", "pools", "standings", "attempts", "outputs"} {
		analyze := "ANALYZE "
		if d == store.MySQL {
			analyze = "ANALYZE TABLE "
		}
		if _, err := db.ExecContext(b.Context(), analyze+"lockstep_"+table); err != nil {
			b.Fatal(err)
		}
	}
	return s, defs
}

// benchInsert writes n rows, some hundred with a statement.
func benchInsert(b *testing.B, db *sql.DB, into string, n int, row func(i int) []any) {
	b.Helper()
	tx, err := db.BeginTx(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	const most = 250
	for i := 0; i < n; {
		var args []any
		var rows []string
		for ; i < n && len(rows) < most; i++ {
			values := row(i)
			rows = append(rows, "("+strings.TrimSuffix(strings.Repeat("?,", len(values)), ",")+")")
			args = append(args, values...)
		}
		if _, err := tx.ExecContext(b.Context(), "INSERT INTO "+into+" VALUES "+strings.Join(rows, ","), args...); err != nil {
			b.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
}
