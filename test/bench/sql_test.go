package bench

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func onMariaDB(tb testing.TB) []contestant {
	tb.Helper()
	db := openMySQL(tb, servers.MySQL(tb))
	prepare(tb, db, "CREATE TABLE raw_leases (name VARBINARY(200) NOT NULL PRIMARY KEY, owner VARBINARY(36) NOT NULL) ENGINE=InnoDB",
		"CREATE TABLE raw_rows (name VARBINARY(200) NOT NULL PRIMARY KEY) ENGINE=InnoDB")
	conn, err := db.Conn(tb.Context())
	if err == nil { // it is silent while the others take their turns
		_, err = conn.ExecContext(tb.Context(), "SET SESSION wait_timeout = 28800")
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	const (
		leases = "MariaDB: INSERT a row, DELETE it"
		rows   = "MariaDB: BEGIN, SELECT … FOR UPDATE, ROLLBACK"
	)
	return []contestant{
		{name: leases, take: func(ctx context.Context, keys []string) (func() error, error) { return insertRows(ctx, db, keys) }},
		ours(tb, "**sqllock lease** on MariaDB, Lockstep", leases, sqllock.New(db, sqllock.MySQL, sqllock.Options{})),
		{name: rows, take: func(ctx context.Context, keys []string) (func() error, error) { return lockRows(ctx, db, keys) }},
		ours(tb, "**sqllock row** on MariaDB, Lockstep", rows, sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row})),
		{name: "MariaDB: GET_LOCK, RELEASE_LOCK", take: func(ctx context.Context, keys []string) (func() error, error) {
			return nameLocks(ctx, conn, keys)
		}},
	}
}

// openMySQL opens the server as programs do: all contestants have the same handle.
func openMySQL(tb testing.TB, dsn string) *sql.DB {
	tb.Helper()
	db, err := sqllock.Open(dsn, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	return db
}

func onSQLite(tb testing.TB) []contestant {
	tb.Helper()
	open := func(name string) *sql.DB { return openSQLite(tb, filepath.Join(tb.TempDir(), name)) }
	db := open("raw.db")
	prepare(tb, db, "CREATE TABLE raw_leases (name TEXT NOT NULL PRIMARY KEY, owner TEXT NOT NULL) WITHOUT ROWID")
	const raw = "SQLite: INSERT a row, DELETE it"
	return []contestant{
		{name: raw, take: func(ctx context.Context, keys []string) (func() error, error) { return insertRows(ctx, db, keys) }},
		ours(tb, "**sqllock** on SQLite, Lockstep", raw, sqllock.New(open("ours.db"), sqllock.SQLite, sqllock.Options{})),
	}
}

func openSQLite(tb testing.TB, path string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	return db
}

func prepare(tb testing.TB, db *sql.DB, statements ...string) {
	tb.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(tb.Context(), s); err != nil {
			tb.Fatal(err)
		}
	}
}

// insertRows is the simplest lease row: two statements, two commits, no expiry.
func insertRows(ctx context.Context, db *sql.DB, keys []string) (func() error, error) {
	_, err := db.ExecContext(ctx, "INSERT INTO raw_leases (name, owner) VALUES "+times(len(keys), "(?, 'me')"), texts(keys)...)
	return func() error {
		_, err := db.ExecContext(ctx, "DELETE FROM raw_leases WHERE owner = 'me' AND name IN ("+times(len(keys), "?")+")", texts(keys)...)
		return err
	}, err
}

// lockRows locks in one transaction rows that can then only be released together.
func lockRows(ctx context.Context, db *sql.DB, keys []string) (func() error, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	found, err := rowsOf(ctx, tx, keys)
	if err == nil && found < len(keys) { // the first time
		if _, err = tx.ExecContext(ctx, "INSERT IGNORE INTO raw_rows (name) VALUES "+times(len(keys), "(?)"), texts(keys)...); err == nil {
			return tx.Commit, nil
		}
	}
	if err != nil {
		_ = tx.Rollback()
		return nil, err
	}
	return tx.Rollback, nil
}

func rowsOf(ctx context.Context, tx *sql.Tx, keys []string) (n int, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT name FROM raw_rows WHERE name IN ("+times(len(keys), "?")+") ORDER BY name FOR UPDATE", texts(keys)...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		n++
	}
	return n, rows.Err()
}

// nameLocks asks for all keys in one statement.
func nameLocks(ctx context.Context, conn *sql.Conn, keys []string) (func() error, error) {
	ask := func(call string) error {
		var n int
		query := "SELECT " + strings.Repeat(call+" + ", len(keys)-1) + call
		if err := conn.QueryRowContext(ctx, query, texts(keys)...).Scan(&n); err != nil {
			return err
		}
		if n != len(keys) {
			return errHeld
		}
		return nil
	}
	err := ask("GET_LOCK(?,0)")
	return func() error { return ask("RELEASE_LOCK(?)") }, err
}

func times(n int, s string) string { return strings.Repeat(s+", ", n-1) + s }

func texts(keys []string) []any {
	args := make([]any, len(keys))
	for i, key := range keys {
		args[i] = key
	}
	return args
}
