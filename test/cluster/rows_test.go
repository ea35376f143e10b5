package cluster

import (
	"database/sql"
	"strings"
	"testing"
	"time"
)

// row is a row of the ledger, as the store has it.
type row struct {
	job                                   string
	at, until, decided, started, finished time.Time // zero: none
	count                                 int
	cause, outcome, code                  string
	definition                            string // that it was decided under
}

// last is the last due time that it covers.
func (r row) last() time.Time {
	if r.until.IsZero() {
		return r.at
	}
	return r.until
}

// ledgerRows are the rows of due times by their jobs, in the order of their due times.
func ledgerRows(t *testing.T, db *sql.DB) map[string][]row {
	t.Helper()
	all := map[string][]row{}
	query(t, db, `SELECT job, at, until_at, due_count, cause, outcome, reason_code, definition, decided_at, started_at, finished_at
		FROM lockstep_triggers WHERE seq = 0 ORDER BY job, at`, func(rows *sql.Rows) error {
		var r row
		err := rows.Scan(&r.job, (*micros)(&r.at), (*micros)(&r.until), &r.count, &r.cause, &r.outcome, &r.code, &r.definition,
			(*micros)(&r.decided), (*micros)(&r.started), (*micros)(&r.finished))
		all[r.job] = append(all[r.job], r)
		return err
	})
	return all
}

// micros is a time as the store keeps it; 0 is none.
type micros time.Time

func (m *micros) Scan(value any) error {
	var n sql.NullInt64
	if err := n.Scan(value); err != nil {
		return err
	}
	*m = micros{}
	if n.Int64 != 0 {
		*m = micros(time.UnixMicro(n.Int64).UTC())
	}
	return nil
}

// query reads rows, one by one.
func query(t *testing.T, db *sql.DB, statement string, scan func(*sql.Rows) error, args ...any) {
	t.Helper()
	rows, err := db.Query(statement, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

// number reads one number.
func number(t *testing.T, db *sql.DB, statement string, args ...any) (n int64) {
	t.Helper()
	if err := db.QueryRow(statement, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", strings.TrimSpace(statement), err)
	}
	return n
}

// openStore opens the store of a cell beside the replicas.
func openStore(t *testing.T, dialect, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(dialect, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
