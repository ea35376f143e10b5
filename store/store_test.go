package store_test

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "modernc.org/sqlite"

	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/store/storetest"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) {
	servers.MySQLArgs = []string{"--max-allowed-packet=3M"} // the least that the store takes
	os.Exit(servers.Main(m))
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "test.db")
	storetest.Run(t, func(t *testing.T) *storetest.Bench { return bench(t, store.SQLite, file) })
}

func TestMySQL(t *testing.T) {
	t.Parallel()
	dsn := servers.MySQL(t)
	storetest.Run(t, func(t *testing.T) *storetest.Bench { return bench(t, store.MySQL, dsn) })
}

// A program's own handle, without any of the flags that Open sets.
func TestMySQLHandle(t *testing.T) {
	t.Parallel()
	dsn := servers.MySQL(t)
	storetest.Run(t, func(t *testing.T) *storetest.Bench {
		b := bench(t, store.MySQL, dsn)
		db := b.DB.(rows).db
		own, err := store.New(db, store.MySQL, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		b.Store = storetest.Of(own)
		b.Open = func(t *testing.T) storetest.Store { return storetest.Of(own) }
		return b
	})
}

func bench(t *testing.T, d store.Dialect, dsn string) *storetest.Bench {
	t.Helper()
	b := &storetest.Bench{Dialect: d, DB: rows{openRaw(t, d, dsn)}}
	b.Open = func(t *testing.T) storetest.Store {
		t.Helper()
		s, err := store.Open(t.Context(), d, dsn, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return storetest.Of(s)
	}
	b.Store = b.Open(t)
	if err := b.SQL().Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	empty(t, b.DB)
	return b
}

// empty takes out what the case before left, which is faster than another database.
func empty(t *testing.T, db storetest.DB) {
	t.Helper()
	for _, table := range []string{"sessions", "pools", "jobs", "triggers", "tasks", "done", "attempts", "outputs", "idempotency", "events", "standings", "audit", "lock_waits", "keys", "key_waits", "sequences", "unique_tasks", "results", "chunks", "definitions", "configurations", "kinds", "expectations", "orders"} {
		db.Exec(t, `DELETE FROM {`+table+`}`)
	}
	db.Exec(t, `UPDATE {meta} SET value = '0' WHERE name = 'config_counter'`)
}

func openRaw(t testing.TB, d store.Dialect, dsn string) *sql.DB {
	t.Helper()
	if d == store.SQLite {
		dsn = "file://" + (&url.URL{Path: dsn}).EscapedPath() + "?_pragma=busy_timeout(5000)"
	}
	db, err := sql.Open(string(d), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// rows is the database behind the store's back.
type rows struct{ db *sql.DB }

func (r rows) Handle() *sql.DB { return r.db }

var word = regexp.MustCompile(`\{(\w+)\}`)

func (r rows) Exec(t *testing.T, text string, args ...any) int64 {
	t.Helper()
	result, err := r.db.ExecContext(t.Context(), word.ReplaceAllString(text, "lockstep_$1"), args...)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := result.RowsAffected()
	return n
}

func (r rows) Int(t *testing.T, text string, args ...any) (n int64) {
	t.Helper()
	if err := r.db.QueryRowContext(t.Context(), word.ReplaceAllString(text, "lockstep_$1"), args...).Scan(&n); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", text, err))
	}
	return n
}

func (r rows) Text(t *testing.T, text string, args ...any) (v string) {
	t.Helper()
	err := r.db.QueryRowContext(t.Context(), word.ReplaceAllString(text, "lockstep_$1"), args...).Scan(&v)
	if err != nil && err != sql.ErrNoRows {
		t.Fatal(fmt.Errorf("%s: %w", text, err))
	}
	return v
}
