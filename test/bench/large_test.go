package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// BenchmarkLarge measures a store that has been in use for long: claims beside what is ended and pending, lists, and retention.
func BenchmarkLarge(b *testing.B) {
	z := sized()
	var large []*largeSite
	for _, k := range kinds {
		large = append(large, grow(b, k))
	}
	claims := newTable(b, fmt.Sprintf("Claim to finish of %s tasks beside %s ended and %s pending ones, 1 replica, %d workers",
		count(float64(z.tasks)), count(float64(z.ended)), count(float64(z.pending)), drainWorkers),
		"", "tasks/s in an empty store (min – max)", "tasks/s (min – max)", "× empty")
	empty, full := make([]samples, len(large)), make([]samples, len(large))
	takeTurns(b, 2*len(large), func(r *round, i int) {
		s := large[i/2]
		if i%2 == 0 {
			empty[i/2] = append(empty[i/2], drainFirst(r, s.kind.open(r), z.tasks))
		} else {
			full[i/2] = append(full[i/2], drainFirst(r, s.site, z.tasks))
		}
	})
	for i, s := range large {
		claims.add(s.kind.name, empty[i].spread(count), full[i].spread(count), count(full[i].per(empty[i]).median()))
	}
	claims.print()
	for _, s := range large {
		s.lists(b)
	}
	sweeps := newTable(b, fmt.Sprintf("Retention beside %s ended tasks: how many one replica deletes, which rests as long as a batch takes", count(float64(z.ended))),
		"", "tasks/s (min – max)")
	deleted := make([]samples, len(large))
	takeTurns(b, len(large), func(r *round, i int) { deleted[i] = append(deleted[i], large[i].sweep(r)) })
	for i, s := range large {
		sweeps.add(s.kind.name, deleted[i].spread(count))
	}
	sweeps.print()
	for _, s := range large {
		s.whole.end()
	}
}

// largeSite is a site with many tasks, for all rounds.
type largeSite struct {
	*site
	kind  kind
	whole *round
	store *store.Store
}

// drainFirst is how many tasks a second a replica ends, of n with a higher priority than what is there.
func drainFirst(r *round, s *site, n int) float64 {
	m := &meter{finished: newMark(n)}
	set := drainSet(m)
	st := s.store(r)
	s.define(r, st, set)
	for left := n; left > 0; left -= bulk {
		tasks := make([]jobs.NewTask, min(left, bulk))
		for i := range tasks {
			tasks[i] = jobs.NewTask{Pool: drainPool, Priority: 1}
		}
		if _, err := st.Enqueue(r.Context(), tasks...); err != nil {
			r.Fatal(err)
		}
	}
	replica := s.replica(r, "replica", m, set, drainWorkers)
	began := time.Now()
	stop := run(r, replica)
	m.wait(r, "tasks done", &m.finished)
	stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	return float64(n) / m.finished.at.Sub(began).Seconds()
}

func drainSet(m *meter) jobs.Set {
	return jobs.Set{Pools: map[string]jobs.Pool{drainPool: {
		Workers: drainWorkers,
		Handler: jobs.Func(func(context.Context, jobs.Task, struct{}) error { m.start(); return nil }),
	}}}
}

// lists measures each list by its first page, and by one from the middle where there are many.
func (s *largeSite) lists(b *testing.B) {
	t := newTable(b, fmt.Sprintf("Lists of %s ended and %s pending tasks, %s", count(float64(sized().ended)), count(float64(sized().pending)), s.kind.name), "", "p50", "p99")
	ended := time.Now().Add(-time.Hour)
	middle := func(f wire.TaskFilter) wire.TaskFilter {
		f.Limit = 500
		_, next, err := s.store.Tasks(b.Context(), f)
		if err != nil {
			b.Fatal(err)
		}
		f.Cursor = next
		return f
	}
	filters := []struct {
		name string
		wire.TaskFilter
	}{
		{"tasks", wire.TaskFilter{}},
		{"tasks, the second page", middle(wire.TaskFilter{})},
		{"tasks of a pool", wire.TaskFilter{Pool: "p13"}},
		{"tasks of a pool, pending", wire.TaskFilter{Pool: drainPool, State: jobs.StatePending}},
		{"tasks of a pool, failed", wire.TaskFilter{Pool: "p13", State: jobs.StateFailed}},
		{"tasks of a job", wire.TaskFilter{Job: "job-7"}},
		{"tasks that failed", wire.TaskFilter{State: jobs.StateFailed}},
		{"tasks of a kind", wire.TaskFilter{TaskDetails: wire.TaskDetails{Kind: "k3"}}},
		{"tasks with a key", wire.TaskFilter{TaskDetails: wire.TaskDetails{Key: "tenant-77"}}},
		{"tasks with a rare tag", wire.TaskFilter{TaskDetails: wire.TaskDetails{Tag: "rare"}}},
		{"tasks of a pool since an hour", wire.TaskFilter{Pool: "p13", TaskDetails: wire.TaskDetails{Since: ended}}},
		{"tasks of a group of failures", wire.TaskFilter{Pool: "p13", Fingerprint: "fingerprint-0003"}},
	}
	for _, f := range filters {
		s.list(b, t, f.name, func(ctx context.Context) error { _, _, err := s.store.Tasks(ctx, f.TaskFilter); return err })
	}
	for name, pool := range map[string]string{"dead letters": "", "dead letters of a pool": "p13"} {
		s.list(b, t, name, func(ctx context.Context) error {
			groups, _, err := s.store.DeadLetters(ctx, wire.DeadLetterFilter{Pool: pool})
			if err == nil && len(groups) == 0 {
				err = errors.New("there are none")
			}
			return err
		})
	}
	api := s.store.Sides().API
	s.list(b, t, "pools", func(ctx context.Context) error { _, err := api.Pools(ctx); return err })
	s.list(b, t, "overview of the page", func(ctx context.Context) error { _, err := api.Overview(ctx, 10); return err })
	s.list(b, t, "triggers", func(ctx context.Context) error { _, _, err := s.store.Triggers(ctx, wire.TriggerFilter{}); return err })
	s.list(b, t, "jobs", func(ctx context.Context) error { _, err := api.Jobs(ctx); return err })
	t.print()
}

// list calls one list many times, at most for some seconds.
func (s *largeSite) list(b *testing.B, t *table, name string, read func(ctx context.Context) error) {
	b.Helper()
	var took samples
	for end := time.Now().Add(sized().locking * 10); len(took) < 200 && (time.Now().Before(end) || len(took) < 3); {
		began := time.Now()
		if err := read(b.Context()); err != nil {
			b.Fatalf("%s: %v", name, err)
		}
		took = append(took, time.Since(began).Seconds())
	}
	slices.Sort(took)
	t.add(name, lasting(took.median()), lasting(took[len(took)*99/100]))
}

// sweep is how many tasks a second one replica deletes: it rests as long as a batch takes.
func (s *largeSite) sweep(r *round) float64 {
	const batch = 1000
	began, batches := time.Now(), 0
	for time.Since(began) < sized().locking*5 {
		more, err := s.store.Sides().Replica.Sweep(r.Context(), func(time.Time) (time.Time, error) { return time.Now(), nil }, jobs.Retention{Succeeded: time.Hour}, batch)
		if err != nil {
			r.Fatal(err)
		}
		if !more {
			break
		}
		batches++
	}
	return float64(batches*batch) / time.Since(began).Seconds() / 2
}

// grow opens a site with many tasks: of 20 pools, 10 kinds, 1,000 jobs and 1,000 keys, ended in the last day; the pending ones are in the pool
// that is drained, half of them due and half due tomorrow.
func grow(b *testing.B, k kind) *largeSite {
	b.Helper()
	whole := &round{TB: b}
	s := &largeSite{site: k.open(whole), kind: k, whole: whole}
	s.store = s.site.store(whole)
	set := drainSet(&meter{})
	for i := range 20 {
		set.Pools[fmt.Sprint("p", i)] = set.Pools[drainPool]
	}
	s.define(whole, s.store, set)
	driver, dsn, id, numbers, analyze := "sqlite", s.DSN, "printf('019%05x-%04x-7000-8000-%012x', i/65536, i%65536, i)",
		"(WITH RECURSIVE n(i) AS (SELECT %[1]d UNION ALL SELECT i+1 FROM n WHERE i<%[2]d) SELECT i FROM n) n", "ANALYZE "
	text := func(parts ...string) string { return strings.Join(parts, "||") }
	if s.Driver == "mysql" {
		driver, id, analyze = "mysql", "CONCAT('019', LPAD(HEX(i DIV 65536),5,'0'), '-', LPAD(HEX(i%65536),4,'0'), '-7000-8000-', LPAD(HEX(i),12,'0'))", "ANALYZE TABLE "
		numbers = "(SELECT seq AS i FROM seq_%[1]d_to_%[2]d) n"
		text = func(parts ...string) string { return "CONCAT(" + strings.Join(parts, ",") + ")" }
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	exec := func(statement string, args ...any) {
		b.Helper()
		if _, err := db.ExecContext(b.Context(), statement, args...); err != nil {
			b.Fatalf("%v: %s", err, statement)
		}
	}
	now := time.Now()
	day := now.Add(-24 * time.Hour).UnixMicro()
	const part = 250_000
	for from := 1; from <= sized().ended; from += part {
		exec(`INSERT INTO lockstep_done (id, pool, kind, job, trigger_at, trigger_seq, state, rank_order, run_at, attempt, failures, losses, max_attempts, on_lost, token,
			session_id, replica, idem_key, payload, tags, retry_of, reason, reason_code, error, created_at, started_at, finished_at, made_by, task_key, fingerprint)
			SELECT `+id+`, `+text("'p'", "(i%20)")+`, `+text("'k'", "(i%10)")+`, CASE WHEN i%2=0 THEN '' ELSE `+text("'job-'", "(i%1000)")+` END, i, 0,
			CASE WHEN i%100<90 THEN 'succeeded' WHEN i%100<97 THEN 'failed' WHEN i%100<98 THEN 'lost' ELSE 'cancelled' END, 0, ?+i, 1, 0, 0, 3, 'retry', 1,
			'session', 'replica-1', '', '{"user": 12345678, "template": "welcome", "language": "en"}', CASE WHEN i%100000=0 THEN '["rare"]' ELSE '["a","b"]' END, '', '', '',
			CASE WHEN i%100 BETWEEN 90 AND 96 THEN 'connection refused by the mail server' ELSE '' END, ?+i, ?+i, ?+i, 'somebody', `+text("'tenant-'", "(i%1000)")+`,
			CASE WHEN i%100 BETWEEN 90 AND 96 THEN `+text("'fingerprint-000'", "(i%10)")+` ELSE '' END FROM `+fmt.Sprintf(numbers, from, min(from+part-1, sized().ended)),
			day, day, day, day+int64(24*time.Hour/time.Microsecond)*int64(from)/int64(sized().ended))
	}
	for from := 1; from <= sized().pending; from += part {
		exec(`INSERT INTO lockstep_tasks (id, pool, state, run_at, max_attempts, payload, tags, error, created_at)
			SELECT `+strings.Replace(id, "'019", "'018", 1)+`, ?, i%2, CASE WHEN i%2=0 THEN ?+i ELSE ?+i END, 10, '{"user": 12345678, "template": "welcome"}', '', '', ?+i
			FROM `+fmt.Sprintf(numbers, from, min(from+part-1, sized().pending)), drainPool, day, now.Add(24*time.Hour).UnixMicro(), day)
	}
	for _, t := range []string{"done", "tasks"} {
		exec(analyze + "lockstep_" + t)
	}
	return s
}
