package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/paging"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Each statement of Why begins at a place of an index and ends by its range or its limit: none reads a table or an index as a whole, and none sorts,
// but for the sessions that live.
func TestWhyReadsByIndexes(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *Store) {
		fill(t, s)
		fillWhy(t, s)
		lite := s.db.Dialect.Name() == SQLite
		row := &openTask{Task: jobs.Task{ID: "id-001000", Pool: "p1", Key: "k7", RunAt: time.UnixMicro(1000), CreatedAt: time.UnixMicro(1000)}}
		pool := &poolModel{Name: "p1", KeyMaxRunning: 2, KeyOrder: "key"}
		jobFacts := func() *ledger.JobFacts {
			return &ledger.JobFacts{At: time.UnixMicro(2000), About: time.UnixMicro(1000), Job: ledger.JobStatus{Job: wire.Job{Name: "j1", Suspended: true}}}
		}
		facts := func() *ledger.Facts { return &ledger.Facts{At: time.UnixMicro(2000)} }
		for name, part := range map[string]struct {
			indexes []string
			run     func(t *tx) error
		}{
			"an ended task":  {[]string{"primary"}, func(t *tx) error { return t.whyEnded("did-000001", facts()) }},
			"a running task": {[]string{"primary"}, func(t *tx) error { return t.whyRunning("s1", facts()) }},
			"an open task":   {[]string{"primary"}, func(t *tx) error { _, err := t.openTasks(taskFacts, " WHERE id=?", "id-001000"); return err }},
			"last attempt":   {[]string{"primary"}, func(t *tx) error { return t.lastAttempt("id-001000", facts()) }},
			"pool":           {[]string{"primary"}, func(t *tx) error { _, err := t.whyPool("p1", facts()); return err }},
			"pause":          {[]string{"audit_at"}, func(t *tx) error { _, err := t.pausedAt("p1"); return err }},
			"live replicas":  {[]string{"sessions_dead", "primary", "tasks_claim"}, func(t *tx) error { _, err := t.whyLive("p1"); return err }},
			"running":        {[]string{"tasks_claim"}, func(t *tx) error { _, err := t.runningOf("p1", ""); return err }},
			"running of key": {[]string{"tasks_claim"}, func(t *tx) error { _, err := t.runningOf("p1", " AND task_key=?", "k7"); return err }},
			"ahead":          {[]string{"tasks_claim"}, func(t *tx) error { _, err := t.aheadOf(row); return err }},
			"pace":           {[]string{"done_state"}, func(t *tx) error { _, err := t.pace("p1", time.UnixMicro(2000)); return err }},
			"key":            {[]string{"primary", "tasks_claim", "key_waits_task"}, func(t *tx) error { return t.whyKey(row, pool, facts()) }},
			"first of key":   {[]string{"primary"}, func(t *tx) error { return t.firstOfKey(row, &ledger.KeyFacts{}) }},
			"row of a job":   {[]string{"primary"}, func(t *tx) error { return t.whyJobRow("id-000001", jobFacts()) }},
			"rows beside":    {[]string{"primary"}, func(t *tx) error { return t.whyRows(jobFacts()) }},
			"definition":     {[]string{"primary", "definitions_since"}, func(t *tx) error { return t.whyDefinition(jobFacts()) }},
			"of a row": {[]string{"primary", "definitions_since"}, func(t *tx) error {
				f := jobFacts()
				f.Row = &ledger.DecidedRow{Trigger: jobs.Trigger{Definition: "d1"}}
				return t.whyDefinition(f)
			}},
			"task": {[]string{"primary"}, func(t *tx) error { _, err := t.whyTask("did-000001"); return err }},
			"pause of everything": {[]string{"audit_at"}, func(t *tx) error {
				return t.pausedOver(time.UnixMicro(1000), &ledger.Quiet{Until: time.UnixMicro(2000)})
			}},
			"suspension": {[]string{"audit_at"}, func(t *tx) error { _, err := t.suspension("o", time.UnixMicro(1000)); return err }},
			"quiet": {[]string{"triggers_at", "sessions_dead"}, func(t *tx) error {
				_, err := t.quiet(time.UnixMicro(1000), &ledger.DecidedRow{Trigger: jobs.Trigger{DecidedAt: time.UnixMicro(1500)}})
				return err
			}},
			"next": {[]string{"tasks_job", "primary"}, func(t *tx) error { return t.whyNext(ledger.JobQuestion{Job: "j1", Pool: "p1"}, jobFacts()) }},
			"history": {[]string{"definitions_since"}, func(t *tx) error {
				_, err := t.historyPage("j1", wire.Page{}, 50)
				return err
			}},
			"history, goes on": {[]string{"definitions_since"}, func(t *tx) error {
				_, err := t.historyPage("j1", wire.Page{Cursor: paging.Cursor("history", "1000", "d1")}, 50)
				return err
			}},
			"locks": {[]string{"primary", "lock_waits_task"}, func(t *tx) error { _, err := t.whyLocks(row, nil); return err }},
		} {
			p := &planner{t: t, lite: lite}
			err := s.read(t.Context(), "test", func(tx *tx) error {
				p.Conn, p.plans = tx.Conn, nil
				return part.run(s.within(tx.Ctx, p))
			})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			reads := 0
			for _, plan := range p.plans {
				switch wrong := whole(plan, lite); {
				case wrong != "" && !(name == "pause" && strings.Contains(plan, "latest")) && !strings.Contains(plan, "<derived"): // a thousand rows; what the parts have counted
					t.Errorf("%s: %s: %s", name, wrong, plan)
				case usesOne(plan, part.indexes):
					reads++
				}
			}
			if reads == 0 {
				t.Errorf("%s does not use %v:\n%s", name, part.indexes, strings.Join(p.plans, "\n"))
			}
		}
	})
}

// whole says what of a plan reads or sorts more than a range of an index; "" if nothing does.
func whole(plan string, lite bool) string {
	if lite {
		switch {
		case strings.Contains(plan, "TEMP B-TREE") && !strings.Contains(plan, "GROUP BY"):
			return "sorts"
		case strings.Contains(plan, "SCAN ") && !strings.Contains(plan, "CONSTANT ROW") && !strings.Contains(plan, "lockstep_audit_at"):
			for _, part := range []string{"SCAN a", "SCAN b", "SCAN c", "SCAN d", "SCAN r", "SCAN latest"} { // what a part has counted
				if strings.HasSuffix(plan, part) || strings.Contains(plan, part+" |") {
					return ""
				}
			}
			return "reads all"
		}
		return ""
	}
	columns := strings.Split(plan, " | ")
	switch {
	case len(columns) > 3 && (columns[3] == "ALL" || columns[3] == "index" && !strings.Contains(plan, "lockstep_audit_at")):
		return "reads all"
	case strings.Contains(plan, "filesort"):
		return "sorts"
	}
	return ""
}

// usesOne reports whether a plan uses one of the indexes.
func usesOne(plan string, indexes []string) bool {
	for _, index := range indexes {
		if strings.Contains(plan+" ", "INDEX lockstep_"+index+" ") || strings.Contains(plan, "lockstep_"+index+" | ") ||
			index == "primary" && (strings.Contains(plan, "sqlite_autoindex") || strings.Contains(plan, "USING PRIMARY KEY") || strings.Contains(plan, " | PRIMARY | ")) {
			return true
		}
	}
	return false
}

// fillWhy makes rows of keys and locks: most of them of one key, and of one lock.
func fillWhy(t *testing.T, s *Store) {
	t.Helper()
	var keys, places, waits, attempts, definitions [][]any
	for i := range 2000 {
		id, key := fmt.Sprintf("id-%06d", i), "k7"
		if i%20 == 0 {
			key = fmt.Sprint("k", i)
		}
		keys = append(keys, []any{fmt.Sprint("p", i%7), fmt.Sprint("k", i)})
		places = append(places, []any{"p1", key, i, 0, 0, id, ""})
		waits = append(waits, []any{"user/" + key, 0, i, id, 1, "p1", "kind/p1/", 0})
		definitions = append(definitions, []any{fmt.Sprint("j", i%50), fmt.Sprint("h", i), fmt.Sprint("d", i), 1, i, i, i, []byte("{}")})
		attempts = append(attempts, []any{id, 1, "failed", 1, "r", 1, 2, []byte{}})
	}
	err := s.tx(t.Context(), "fill", func(t *tx) error {
		for into, rows := range map[string][][]any{
			"{keys} (pool, task_key)": keys,
			"{definitions} (job, hash, definition, config, first_at, since_at, until_at, body)":     definitions,
			"{key_waits} (pool, task_key, place, rank_order, run_at, task_id, kind)":                places,
			"{lock_waits} (lock_key, rank_order, run_at, task_id, key_count, pool, work, until_at)": waits,
			"{attempts} (task_id, attempt, state, token, replica, started_at, finished_at, error)":  attempts,
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
}
