package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// However many tasks wait for locks, what is asked of them walks an index: no statement reads the whole table.
func TestWaitsAreServedByIndexes(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *Store) {
		fill(t, s)
		fillWaits(t, s)
		lite := s.db.Dialect.Name() == SQLite
		const firstOfKeys = "the first of each key"
		check := func(name string, run func(t *tx) (found int, err error)) {
			t.Helper()
			p := &planner{t: t, lite: lite}
			found := 0
			err := s.read(t.Context(), "test", func(tx *tx) (err error) {
				p.Conn, p.plans = tx.Conn, nil
				found, err = run(s.within(tx.Ctx, p))
				return err
			})
			if err != nil || found == 0 || len(p.plans) == 0 {
				t.Fatalf("%s: found %d, %v", name, found, err)
			}
			for _, plan := range p.plans {
				columns := strings.Split(plan, " | ")
				scans := slices.Contains(columns, "ALL") && !strings.HasPrefix(columns[2], "<") && columns[2] != "p"
				if lite {
					scans = strings.Contains(plan, "SCAN ") && !strings.HasSuffix(plan, "SCAN k") && !strings.HasSuffix(plan, "SCAN p")
				}
				if scans { // but for k, a page of keys, and p, the pools, of which there are few
					t.Errorf("%s reads a whole table:\n%s", name, strings.Join(p.plans, "\n"))
				}
				byTask := "lockstep_lock_waits_task"
				if found := slices.Contains(columns, byTask) || lite && strings.Contains(plan, byTask); name == firstOfKeys && strings.Contains(plan, " w ") && !found {
					t.Errorf("all that wait for a key are read to find the row of the first:\n%s", strings.Join(p.plans, "\n"))
				}
			}
		}
		check(firstOfKeys, func(t *tx) (int, error) { rows, err := t.firstRows("", nil, 50); return len(rows), err })
		check("those without some work", func(t *tx) (int, error) {
			rows, err := t.firstRows(" AND o.work NOT IN (?,?)", []any{"kind/p1/", "job/none"}, 50)
			return len(rows), err
		})
		check("the first limit", func(t *tx) (int, error) { at, err := t.firstLimit(); return int(micros(at)), err })
		check("limits that are over", func(t *tx) (int, error) {
			ids, err := t.overWaits(time.UnixMicro(100), 50)
			return len(ids), err
		})
		check("the first before others", func(t *tx) (int, error) {
			first, err := t.firstBefore([]string{"id-000003", "id-000005"})
			return len(first), err
		})
		check("keys that are waited for", func(t *tx) (int, error) {
			keys, err := t.waitedFor([]string{"user/k000007", "user/k000008", "user/none"})
			return len(keys), err
		})
	})
}

// fillWaits makes 2,000 waits, two for each key. Every tenth has a limit.
func fillWaits(t *testing.T, s *Store) {
	t.Helper()
	var rows [][]any
	for i := range 2000 {
		until := 0
		if i%10 == 0 {
			until = i + 1
		}
		pool := fmt.Sprint("p", i%7)
		rows = append(rows, []any{fmt.Sprintf("user/k%06d", i/2), 0, i, fmt.Sprintf("id-%06d", i), 1, pool, "kind/" + pool + "/", until})
	}
	err := s.tx(t.Context(), "fill", func(t *tx) error {
		for part := range slices.Chunk(rows, 500) {
			if _, err := t.Insert("{lock_waits} (lock_key, rank_order, run_at, task_id, key_count, pool, work, until_at)", part); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	analyze := "ANALYZE {lock_waits}"
	if s.db.Dialect.Name() == MySQL {
		analyze = "ANALYZE TABLE {lock_waits}"
	}
	if err := s.autocommit(t.Context(), "analyze", func(t *tx) error {
		return t.Query(analyze, nil, func(func(...any) error) error { return nil })
	}); err != nil {
		t.Fatal(err)
	}
}
