package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// planner explains every query before it runs it.
type planner struct {
	sqlkit.Conn
	t     *testing.T
	lite  bool
	plans []string
}

func (p *planner) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	explain := "EXPLAIN QUERY PLAN "
	if !p.lite {
		explain = Explain(p.t, p.Conn)
	}
	plans, err := p.explain(ctx, explain+query, args...)
	if err != nil {
		return nil, err
	}
	p.plans = append(p.plans, plans...)
	return p.Conn.QueryContext(ctx, query, args...)
}

// explain is what the database says of a statement, a row a line.
func (p *planner) explain(ctx context.Context, statement string, args ...any) (plans []string, err error) {
	rows, err := p.Conn.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, _ := rows.Columns()
	for rows.Next() {
		values := make([]sql.NullString, len(columns))
		dest := make([]any, len(columns))
		for i := range values {
			dest[i] = &values[i]
		}
		if err := rows.Scan(dest...); err != nil {
			return nil, err
		}
		var row []string
		for _, v := range values {
			row = append(row, v.String)
		}
		plans = append(plans, strings.Join(row, " | "))
	}
	return plans, rows.Err()
}

// tables is one entry for each table that a plan reads.
func (p *planner) tables() (lines []string) {
	for _, plan := range p.plans {
		if strings.Contains(plan, "lockstep_") {
			lines = append(lines, plan)
		}
	}
	return lines
}

// The last success of a job is an end of a range of its index, however many runs of the job have failed since.
func TestLastSuccessesAreFoundByTheirIndex(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *Store) {
		fill(t, s)
		p := &planner{t: t, lite: s.db.Dialect.Name() == SQLite}
		err := s.read(t.Context(), "test", func(tx *tx) error {
			p.Conn = tx.Conn
			return s.within(tx.Ctx, p).lastSuccesses(nil, map[string]*ledger.JobStatus{})
		})
		if err != nil {
			t.Fatal(err)
		}
		if plans := strings.Join(p.plans, "\n"); !strings.Contains(plans, "lockstep_triggers_result") {
			t.Errorf("not by the index of results:\n%s", plans)
		}
	})
}

// Lists walk an index, in its order: no page reads the whole table, or sorts it.
func TestListsAreServedByIndexes(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *Store) {
		fill(t, s)
		lite := s.db.Dialect.Name() == SQLite
		cursor := []string{"id-001000"}
		check := func(name string, indexes []string, run func(t *tx) error) {
			t.Helper()
			p := &planner{t: t, lite: lite}
			err := s.read(t.Context(), "test", func(tx *tx) error {
				p.Conn, p.plans = tx.Conn, nil
				return run(s.within(tx.Ctx, p))
			})
			if err != nil {
				t.Fatal(err)
			}
			used := 0
			for _, plan := range p.plans {
				few := strings.Contains(plan, "lockstep_triggers_result |") // MySQL 9 sorts one job's failures rather than walk back
				few = few || strings.HasPrefix(name, "counts of")           // groups have no index of theirs, and few rows
				few = few || name == "what a worker runs"
				few = few || name == "what waits for nobody" && (strings.Contains(plan, "<derived") || strings.Contains(plan, "TEMP B-TREE FOR GROUP BY")) // 5,000 rows at most
				if (strings.Contains(plan, "filesort") || strings.Contains(plan, "TEMP B-TREE")) && !few {
					t.Errorf("%s is sorted:\n%s", name, strings.Join(p.plans, "\n"))
				}
				if slices.ContainsFunc(indexes, func(index string) bool {
					return strings.Contains(plan+" ", "INDEX lockstep_"+index+" ") || strings.Contains(plan, " | lockstep_"+index+" | ") ||
						strings.Contains(plan, " | lockstep_"+index+"|") || // with a rowid filter
						index == "primary" && (strings.Contains(plan, "INDEX sqlite_autoindex") || strings.Contains(plan, "USING PRIMARY KEY") || strings.Contains(plan, "USING INTEGER PRIMARY KEY") || strings.Contains(plan, " | PRIMARY | "))
				}) {
					used++
				}
			}
			tables := len(p.tables())
			if strings.HasPrefix(name, "kinds of") {
				tables = len(p.plans) // SQLite's plan has the alias alone
			}
			if used < tables {
				t.Errorf("%s does not use %s:\n%s", name, indexes, strings.Join(p.plans, "\n"))
			}
		}
		for _, pool := range []string{"", "p1"} {
			for _, job := range []string{"", "j1"} {
				for _, state := range []jobs.State{"", jobs.StatePending, jobs.StateRunning, jobs.StateFailed} {
					f := wire.TaskFilter{Pool: pool, Job: job, State: state}
					indexes := []string{"primary"}
					switch {
					case job != "": // with a pool too, one is as good as the other
						indexes = []string{"tasks_job", "done_job", "tasks_pool", "done_pool"}
					case pool != "":
						indexes = []string{"tasks_pool", "done_pool"}
					case state == jobs.StateFailed:
						indexes = []string{"done_list"}
					}
					if state == jobs.StateRunning {
						indexes = append(indexes, "tasks_claim")
					}
					check(fmt.Sprintf("tasks %+v", f), indexes, func(t *tx) error { _, err := t.taskIDs(f, cursor, 51); return err })
				}
			}
		}
		for _, state := range []jobs.State{"", jobs.StateFailed, jobs.StateRunning} {
			f := wire.TaskFilter{Pool: "p1", State: state, Fingerprint: "f1"}
			check(fmt.Sprintf("tasks %+v", f), []string{"done_dead"}, func(t *tx) error { _, err := t.taskIDs(f, cursor, 51); return err })
		}
		for _, pool := range []string{"", "p1"} {
			check(fmt.Sprintf("dead letters of %q", pool), []string{"done_dead", "primary"}, func(t *tx) error {
				groups, _, err := t.deadGroups(pool, []string{"p1", "e"}, 5)
				if err == nil {
					err = t.countDead(append(groups, deadGroup{Pool: "p1", Fingerprint: "f1"}))
				}
				if err == nil {
					_, err = t.deadExamples(append(groups, deadGroup{Pool: "p1", Fingerprint: "f1", N: 1, ID: "id-001000"}))
				}
				return err
			})
		}
		for _, c := range []struct {
			wire.TriggerFilter
			indexes []string
		}{
			{wire.TriggerFilter{}, []string{"triggers_at"}},
			{wire.TriggerFilter{Job: "j1"}, []string{"primary"}},
			{wire.TriggerFilter{Outcome: jobs.Missed}, []string{"triggers_outcome"}},
			{wire.TriggerFilter{Result: jobs.StateFailed}, []string{"triggers_ended"}},
			{wire.TriggerFilter{Job: "j1", Result: jobs.StateFailed}, []string{"triggers_result", "primary"}},
			{wire.TriggerFilter{Since: time.UnixMicro(1000)}, []string{"triggers_at"}},
		} {
			f := c.TriggerFilter
			if !lite {
				c.indexes = c.indexes[:1] // SQLite chooses
			}
			f.Cursor = triggerCursor(ledgerKey{"j1", 1800, 0})
			check(fmt.Sprintf("triggers %+v", f), c.indexes, func(t *tx) error { _, err := t.triggerPage(f, 5); return err })
		}
		check("audit", []string{"audit_at"}, func(t *tx) error { _, err := t.auditPage(auditCursor(1800, "id-001800"), 51); return err })
		check("next due", []string{"jobs_next"}, func(t *tx) error { _, err := t.nextDue(time.Now(), 10); return err })
		check("missed of an overview", []string{"triggers_outcome", "done_state"}, func(t *tx) error {
			_, err := t.troubles(10, []ledger.TroubleCount{{State: "failed", Job: "j9", Pool: "p9", Last: time.UnixMicro(1900)}})
			return err
		})
		check("counts of what went wrong", []string{"done_state"}, func(t *tx) error { _, err := t.wrong(time.UnixMicro(1500)); return err })
		check("unmet due times", []string{"primary"}, func(t *tx) error {
			return t.firstUnmet([]*ledger.JobStanding{{Name: "j1"}, {Name: "j2", LastSuccess: time.UnixMicro(1900)}})
		})
		check("reasons of jobs", []string{"primary"}, func(t *tx) error {
			_, err := t.reasons([]ledger.FailingJob{{Job: "j1"}, {Job: "j3"}})
			return err
		})
		check("job standings", []string{"primary", "standings"}, func(t *tx) error { _, _, err := t.jobStandings(); return err })
		check("ready pools", []string{"primary", "tasks_claim", "tasks_due", "keys_pool", "keys_look", "jobs_next", "orders_next"}, func(t *tx) error {
			_, err := t.ready(func(now time.Time) (time.Time, error) { return now, nil })
			return err
		})
		for _, most := range []int{5, 5000} {
			check("a look", []string{"tasks_claim"}, func(t *tx) error {
				l := ledger.Look{Scope: ledger.Scope{Kinds: []string{"", "k"}, SkipJobs: []string{"j1", "j8"}}, Past: map[int]time.Time{0: time.UnixMicro(10)}, Most: most}
				if _, _, err := t.nextRank("p1", -101); err != nil {
					return err
				}
				return t.lookAt("p1", 0, l, &ledger.Seen{Past: map[int]time.Time{}})
			})
		}
		check("pools", []string{"tasks_claim"}, func(t *tx) error { return t.countSome(poolsByName{"p1": {}, "p2": {}}) })
		check("all of pools", []string{"primary", "tasks_claim"}, func(t *tx) error { return t.countAll(nil) })
		check("the oldest of pools", []string{"tasks_claim"}, func(t *tx) error {
			text, args := firstQuery([]poolState{{"p1", rowReady, -101}, {"p2", rowKeyed, 5}})
			return t.Query(text, args, func(scan func(...any) error) error { return nil })
		})
		check("kinds of an enqueue", []string{"primary"}, func(t *tx) error {
			_, _, err := t.fillPools([]*newTask{{task: jobs.Task{Pool: "p1"}}, {task: jobs.Task{Pool: "p2"}}})
			return err
		})
		check("kinds of live replicas", []string{"sessions_dead", "primary"}, func(t *tx) error { _, _, _, err := t.liveKinds(); return err })
		check("what waits for nobody", []string{"tasks_claim"}, func(t *tx) error {
			text, args := unrunnableQuery([]string{"p1", "p2"})
			return t.Query(text, args, func(scan func(...any) error) error { return nil })
		})
		check("lost attempts", []string{"done_job"}, func(t *tx) error { _, err := t.lostTasks(time.Now(), []string{"j3", "j8"}); return err })
		named := "tasks_job" // of jobs alone, however many tasks have none
		if lite {
			named = "tasks_job (job>?)"
		}
		check("counts of open tasks", []string{named}, func(t *tx) error { return t.countOpen(nil, nil) })
		check("counts of open tasks of some", []string{"tasks_job"}, func(t *tx) error { return t.countOpen([]string{"j1", "j2"}, nil) })
		ofPool := "tasks_claim | 67 | const,const" // by the first two columns of the index
		if lite {
			ofPool = "tasks_claim (state=? AND pool=?)"
		}
		check("what a worker runs", []string{ofPool, "primary"}, func(t *tx) error { _, err := t.heldBy("s1", "", 10); return err })
		check("overdue", []string{"jobs_next"}, func(t *tx) error {
			return each(rowsOf(t.overdue(time.UnixMicro(1000), 100)), func(*jobModel) {})
		})
	})
}

// fill makes 2,000 rows of each kind.
func fill(t *testing.T, s *Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const n = 2000
	err := s.tx(ctx, "fill", func(t *tx) error {
		var tasks, done, triggers, defined, audit [][]any
		for i := range n {
			id, pool, job := fmt.Sprintf("id-%06d", i), fmt.Sprint("p", i%7), fmt.Sprint("j", i%50)
			state := 0
			if i%200 == 0 {
				state = 2
			}
			tasks = append(tasks, []any{id, pool, job, state, i, []byte{}, []byte{}, []byte{}, i})
			end := []string{"succeeded", "failed", "cancelled", "lost", "succeeded"}[i%5]
			group := ""
			if end == "failed" || end == "lost" {
				group = fmt.Sprint("f", i%3)
			}
			done = append(done, []any{"d" + id, pool, "", job, 0, 0, end, 0, i, 1, 0, 0, 1, "fail", 1, "", "", "", []byte{}, []byte{}, "", "", []byte{}, i, i, i, group})
			outcome, result := "ran", "succeeded"
			switch {
			case i%40 == 0:
				outcome, result = "missed", ""
			case i%2 == 1:
				result = "failed"
			}
			triggers = append(triggers, []any{job, i, 0, "schedule", outcome, result, "r", i})
			audit = append(audit, []any{id, i, "w", "admin", "", "POST /x", "o", 200})
			defined = append(defined, []any{id, i % 64, "h", "s", 1, i, i + 1})
		}
		var sessions, kinds, pools [][]any
		for i := range n { // all but a few have ended long ago
			var live any
			dead := 1
			if i%200 == 0 {
				live, dead = 1, 0
			}
			sessions = append(sessions, []any{fmt.Sprint("s", i), fmt.Sprint("r", i), live, dead, i + 1, "", "", "", 0, 0, "", "", 1, []byte("{}"), i, i})
			kinds = append(kinds, []any{fmt.Sprint("p", i%7), i / 7, encoded[handled]{handled{"h", map[string]string{"k": "h"}}}})
		}
		for i := range 7 {
			pools = append(pools, []any{fmt.Sprint("p", i), "h", 1, 0, 1, "fail"})
		}
		for into, rows := range map[string][][]any{
			`{pools} (name, hash, config, max_running, max_attempts, on_lost)`: pools,
			`{kinds} (pool, config, kinds)`:                                    kinds,
			`{sessions} (id, replica, live, dead, config, lock_service, host, boot_id, pid, pid_start, version, address, workers, labels, joined_at, seen_at)`: sessions,
			`{tasks} (id, pool, job, state, run_at, payload, tags, error, created_at)`:                                                                         tasks,
			`{done} (id, pool, kind, job, trigger_at, trigger_seq, state, rank_order, run_at, attempt, failures, losses, max_attempts, on_lost, token,
				session_id, replica, idem_key, payload, tags, retry_of, reason, error, created_at, started_at, finished_at, fingerprint)`: done,
			`{triggers} (job, at, seq, cause, outcome, result, replica, decided_at)`: triggers,
			`{audit} (id, at, who, role, remote, action, object, status)`:            audit,
			`{jobs} (name, stripe, hash, schedule, config, cursor_at, next_at)`:      defined,
		} {
			if _, err := t.Insert(into, rows); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"tasks", "done", "triggers", "jobs", "audit", "sessions", "kinds", "pools"} {
		analyze := `ANALYZE {` + table + `}`
		if s.db.Dialect.Name() == MySQL {
			analyze = `ANALYZE TABLE {` + table + `}`
		}
		if err := s.autocommit(t.Context(), "analyze", func(t *tx) error {
			return t.Query(analyze, nil, func(func(...any) error) error { return nil })
		}); err != nil {
			t.Fatal(err)
		}
	}
}
