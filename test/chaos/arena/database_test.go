//go:build linux

package arena

import (
	"database/sql"
	"strings"
	"testing"
	"time"
)

// Rows of each table that has a retention are missed when they stay, and so is what belongs to a task that
// is gone.
func TestOverdue(t *testing.T) {
	a := Open(t, Cell{SQLite, SQLite}, t.TempDir(), Options{Replicas: 1, Retention: time.Minute})
	if err := a.Replicas[0].KillGroup(); err != nil { // or it would sweep
		t.Fatal(err)
	}
	overdue := func() int {
		t.Helper()
		n, err := a.overdue(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := overdue(); n != 0 {
		t.Fatalf("%d rows at the beginning", n)
	}
	old, young := time.Now().Add(-time.Hour).UnixMicro(), time.Now().UnixMicro()
	for i, c := range []struct {
		table string
		row   map[string]any
	}{
		{"done", map[string]any{"finished_at": old}},
		{"triggers", map[string]any{"outcome": "ran", "at": old, "decided_at": old, "finished_at": old}},
		{"outputs", map[string]any{"created_at": old}},
		{"audit", map[string]any{"at": old}},
		{"events", map[string]any{"happened_at": old}},
		{"attempts", map[string]any{"finished_at": old, "task_id": "gone"}},
		{"idempotency", map[string]any{"created_at": old, "task_id": "gone"}},
	} {
		a.insert(t, c.table, c.row)
		if n := overdue(); n != i+1 {
			t.Errorf("%d rows with that of %s, want %d", n, c.table, i+1)
		}
	}
	was := overdue()
	for table, row := range map[string]map[string]any{
		"done":        {"id": "kept", "finished_at": young},
		"triggers":    {"job": "kept", "outcome": "ran", "at": old, "decided_at": young, "finished_at": young},
		"outputs":     {"task_id": "kept", "created_at": young},
		"attempts":    {"task_id": "kept", "finished_at": old},
		"idempotency": {"task_id": "kept", "idem_key": "kept", "created_at": old},
	} {
		a.insert(t, table, row)
	}
	if n := overdue(); n != was {
		t.Errorf("%d rows, want %d: what is kept counts", n, was)
	}
}

// insert adds a row that has something in every column.
func (a *Arena) insert(t *testing.T, table string, row map[string]any) {
	t.Helper()
	err := a.database(func(db *sql.DB, _ dialect) error {
		rows, err := db.QueryContext(t.Context(), "SELECT name, type FROM pragma_table_info(?)", prefix+table)
		if err != nil {
			return err
		}
		defer rows.Close()
		var names []string
		var values []any
		for rows.Next() {
			var name, kind string
			if err := rows.Scan(&name, &kind); err != nil {
				return err
			}
			value, given := row[name]
			switch {
			case given:
			case kind == "INTEGER":
				value = 0
			default:
				value = "x"
			}
			names, values = append(names, name), append(values, value)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		_, err = db.ExecContext(t.Context(), "INSERT INTO "+prefix+table+" ("+strings.Join(names, ", ")+") VALUES (?"+
			strings.Repeat(", ?", len(names)-1)+")", values...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
