//go:build linux

package arena

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// columns are the fields of history.Row, with the column or expression of each table. {r} is the row.
var columns = map[string][][2]string{
	"jobs": {
		{"Job", "{r}.name"}, {"Fence", "{r}.fence"}, {"Cursor", "{r}.cursor_at"}, {"Schedule", "{r}.schedule"}, {"SkipNext", "{r}.skip_next"},
	},
	"pools": {
		{"Pool", "{r}.name"}, {"Paused", "COALESCE({r}.paused, 0)"}, {"By", "{r}.paused_by"}, {"Window", "{r}.pause_window"},
	},
	"triggers": {
		{"Job", "{r}.job"},
		{"At", "{r}.at"},
		{"Seq", "{r}.seq"},
		{"Until", "{r}.until_at"},
		{"Count", "{r}.due_count"},
		{"Cause", "{r}.cause"},
		{"Outcome", "{r}.outcome"},
		{"Reason", "{r}.reason"}, {"Code", "{r}.reason_code"},
		{"Result", "{r}.result"},
		{"TaskID", "{r}.task_id"},
		{"Replica", "{r}.replica"},
		{"DecidedAt", "{r}.decided_at"},
		{"StartedAt", "{r}.started_at"},
		{"FinishedAt", "{r}.finished_at"},
	},
	"tasks": append([][2]string{
		{"State", "CASE {r}.state WHEN 0 THEN 'ready' WHEN 1 THEN 'waits' WHEN 3 THEN 'locked' WHEN 4 THEN 'keyed' WHEN 5 THEN 'queued' ELSE 'running' END"}, {"Until", "{r}.may_run_until"}, {"Cancel", "{r}.cancel"},
	}, task...),
	"done": append([][2]string{
		{"State", "{r}.state"}, {"FinishedAt", "{r}.finished_at"}, {"Late", "{r}.late"}, {"RetriedAs", "{r}.retried_as"}, {"Code", "{r}.reason_code"}, {"Until", "{r}.may_run_until"},
	}, task...),
	"attempts": {
		{"TaskID", "{r}.task_id"},
		{"Attempt", "{r}.attempt"},
		{"State", "{r}.state"},
		{"Reason", "{r}.reason"},
		{"Token", "{r}.token"},
		{"Replica", "{r}.replica"},
		{"StartedAt", "{r}.started_at"},
		{"FinishedAt", "{r}.finished_at"},
	},
	"outputs": {
		{"TaskID", "{r}.task_id"}, {"Attempt", "{r}.attempt"}, {"Output", "{r}.output"},
	},
	"idempotency": {
		{"TaskID", "{r}.task_id"}, {"Pool", "{r}.pool"}, {"IdemKey", "{r}.idem_key"},
	},
	"sessions": {
		{"ID", "{r}.id"}, {"Replica", "{r}.replica"}, {"Dead", "{r}.dead"}, {"Beat", "{r}.beat"},
	},
}

var task = [][2]string{
	{"ID", "{r}.id"},
	{"Job", "{r}.job"},
	{"Pool", "{r}.pool"},
	{"Key", "{r}.task_key"}, {"Kind", "{r}.kind"},
	{"At", "{r}.trigger_at"},
	{"Seq", "{r}.trigger_seq"},
	{"Attempt", "{r}.attempt"},
	{"Token", "{r}.token"},
	{"Session", "{r}.session_id"},
	{"Replica", "{r}.replica"},
	{"IdemKey", "{r}.idem_key"},
	{"RetryOf", "{r}.retry_of"},
	{"RunAt", "{r}.run_at"},
	{"ExpiresAt", "{r}.expires_at"},
	{"CreatedAt", "{r}.created_at"},
	{"StartedAt", "{r}.started_at"},
	{"Reason", "{r}.reason"},
}

// auditTable has no prefix of the product's.
const auditTable = "chaos_audit"

// dialect is the SQL of one kind of store.
type dialect struct {
	table string // statement that makes the audit's
	now   string // µs since 1970
	text  string // a column of bytes as text; %s
	// snapshot is the statements that begin a transaction whose reads see one moment.
	snapshot []string
}

var dialects = map[string]dialect{
	"mysql": {
		table: "CREATE TABLE " + auditTable + " (seq BIGINT AUTO_INCREMENT PRIMARY KEY, at BIGINT NOT NULL, name VARCHAR(16) NOT NULL, was MEDIUMTEXT, became MEDIUMTEXT) ENGINE=InnoDB CHARACTER SET utf8mb4",
		now:   "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)", text: "CONVERT(%s USING utf8mb4)",
		snapshot: []string{"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT"},
	},
	"sqlite": {
		table: "CREATE TABLE " + auditTable + " (seq INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, name TEXT NOT NULL, was TEXT, became TEXT)",
		now:   "CAST(unixepoch('subsec') * 1000000 AS INTEGER)", text: "CAST(%s AS TEXT)",
		snapshot: []string{"BEGIN", "SELECT 1 FROM sqlite_schema LIMIT 1"}, // the first read begins it
	},
}

// object is the row r of a table as history.Row in JSON.
func (d dialect) object(table, r string) string {
	var args []string
	for _, c := range columns[table] {
		value := strings.ReplaceAll(c[1], "{r}", r)
		switch c[0] {
		case "ID", "Job", "Pool", "Key", "Cause", "Outcome", "Reason", "Result", "TaskID", "State", "Session", "Replica", "IdemKey", "Output", "RetryOf", "By", "Window", "Code", "Cancel", "Schedule":
			value = fmt.Sprintf(d.text, value)
		}
		args = append(args, "'"+c[0]+"', "+value)
	}
	return "JSON_OBJECT(" + strings.Join(args, ", ") + ")"
}

// triggers are statements that copy each change of a table.
func (d dialect) triggers(table string) (statements []string) {
	for _, on := range []struct{ event, was, became string }{
		{"INSERT", "NULL", d.object(table, "NEW")},
		{"UPDATE", d.object(table, "OLD"), d.object(table, "NEW")},
		{"DELETE", d.object(table, "OLD"), "NULL"},
	} {
		statements = append(statements, fmt.Sprintf(
			"CREATE TRIGGER chaos_%s_%s AFTER %s ON %s%s FOR EACH ROW BEGIN INSERT INTO %s (at, name, was, became) VALUES (%s, '%s', %s, %s); END",
			table, strings.ToLower(on.event), on.event, prefix, table, auditTable, d.now, table, on.was, on.became))
	}
	return statements
}

// installAudit makes the triggers. They take no lock that the product takes: a new row at the end of a table of
// their own.
func (a *Arena) installAudit(ctx context.Context) error {
	return a.database(func(db *sql.DB, d dialect) error {
		statements := []string{d.table}
		for table := range columns {
			statements = append(statements, d.triggers(table)...)
		}
		for _, s := range statements {
			if _, err := db.ExecContext(ctx, s); err != nil {
				return fmt.Errorf("audit: %s: %w", s, err)
			}
		}
		return nil
	})
}

// exportAudit writes audit.jsonl, but for the removal of rows that were older than their retention.
// It returns those rows.
func (a *Arena) exportAudit(ctx context.Context, db *sql.Conn) (swept map[string][]history.Row, err error) {
	log, err := history.OpenLog[history.Change](a.Dir, history.AuditFile)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	rows, err := db.QueryContext(ctx, "SELECT seq, at, name, was, became FROM "+auditTable+" ORDER BY seq")
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	defer rows.Close()
	swept = map[string][]history.Row{}
	for rows.Next() {
		var c history.Change
		var was, became []byte
		if err := rows.Scan(&c.Seq, &c.At, &c.Table, &was, &became); err != nil {
			return nil, fmt.Errorf("audit: %w", err)
		}
		if c.Before, err = rowOf(was); err != nil {
			return nil, err
		}
		if c.After, err = rowOf(became); err != nil {
			return nil, err
		}
		if a.outlived(c) {
			swept[c.Table] = append(swept[c.Table], *c.Before)
			continue
		}
		if err := log.Add(c); err != nil {
			return nil, err
		}
	}
	return swept, rows.Err()
}

// outlived reports whether c removes a row that was older than its retention. Earlier attempts, outputs and
// idempotency keys go with their task.
func (a *Arena) outlived(c history.Change) bool {
	if a.retention == 0 || c.After != nil {
		return false
	}
	switch c.Table {
	case "attempts", "outputs", "idempotency":
		return true
	case "done":
		return c.At-c.Before.FinishedAt >= a.retention.Microseconds()
	case "triggers":
		return c.Before.Outcome != "" && c.At-max(c.Before.DecidedAt, c.Before.At) >= a.retention.Microseconds()
	}
	return false
}

func rowOf(text []byte) (*history.Row, error) {
	if text == nil {
		return nil, nil
	}
	r := &history.Row{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("audit: %s: %w", text, err)
	}
	return r, nil
}
