package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

// The first task of each key is found by the places of that key, also where there are few tasks and one key has most of them: no statement
// reads all tasks for it.
func TestTheFirstOfKeysIsFoundByItsPlace(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *Store) {
		fillPlaces(t, s, 4000)
		lite := s.db.Dialect.Name() == SQLite
		p := &planner{t: t, lite: lite}
		keys := func() *poolKeys { return &poolKeys{ordered: true, rows: map[string]*keyRow{}} }
		candidates, looked := keys(), keys()
		looked.looked = []string{"k0", "k1"}
		var waiting []openTask
		err := s.read(t.Context(), "test", func(tx *tx) error {
			p.Conn, p.plans = tx.Conn, nil
			_, err := candidates.candidates(s.within(tx.Ctx, p), nil, "{index}{tasks}_claim{end}", " WHERE state=4 AND t.pool=? ORDER BY rank_order, run_at, id LIMIT 2", "p")
			if err == nil {
				for _, key := range looked.looked {
					looked.row(key)
				}
				waiting, err = looked.waiting(s.within(tx.Ctx, p), "p", ledger.Scope{}, 10)
			}
			return err
		})
		if err != nil || candidates.row("k0").first != "id-000002" || len(waiting) != 1 || waiting[0].ID != "id-000002" || len(p.plans) == 0 {
			t.Fatalf("the first is %q, of those that wait %v, %v", candidates.row("k0").first, waiting, err)
		}
		for _, plan := range p.plans {
			columns := strings.Split(plan, " | ")
			scans := (slices.Contains(columns, "ALL") || slices.Contains(columns, "index")) && !strings.HasPrefix(columns[2], "<")
			if lite {
				scans = strings.Contains(plan, "SCAN ") && !strings.HasSuffix(plan, "SCAN w") // the list of firsts
			}
			if scans {
				t.Errorf("a whole table is read:\n%s", strings.Join(p.plans, "\n"))
			}
		}
	})
}

// fillPlaces gives tasks places, nearly all of them of one key. The first of it has ended. There are three tasks that have not.
func fillPlaces(t *testing.T, s *Store, n int) {
	t.Helper()
	err := s.tx(t.Context(), "fill", func(t *tx) error {
		if _, err := t.Insert("{sequences} (pool, task_key, last_place)", [][]any{{"p", "k0", n}, {"p", "k1", n}}); err != nil {
			return err
		}
		var places [][]any
		for i := range n {
			places = append(places, []any{"p", fmt.Sprint("k", max(0, i-n+3)), i, 0, 0, fmt.Sprintf("id-%06d", i), ""})
		}
		for part := range slices.Chunk(places, 500) {
			if _, err := t.Insert("{key_waits} (pool, task_key, place, rank_order, run_at, task_id, kind)", part); err != nil {
				return err
			}
		}
		var tasks [][]any
		for i := 2; i < 5; i++ {
			tasks = append(tasks, []any{fmt.Sprintf("id-%06d", i), "p", "", "k0", 4, 0, 0, 1, "fail", 1, []byte{}, []byte{}, []byte{}, 0, ""})
		}
		_, err := t.Insert("{tasks} (id, pool, kind, task_key, state, rank_order, run_at, max_attempts, on_lost, lost_limit, payload, tags, error, created_at, made_by)", tasks)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"{key_waits}", "{tasks}", "{sequences}"} {
		analyze := "ANALYZE " + table
		if s.db.Dialect.Name() == MySQL {
			analyze = "ANALYZE TABLE " + table
		}
		if err := s.autocommit(t.Context(), "analyze", func(t *tx) error {
			return t.Query(analyze, nil, func(func(...any) error) error { return nil })
		}); err != nil {
			t.Fatal(err)
		}
	}
}
