package store

import (
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// The settings hold on every connection, also on those that were made later, whatever their values in the DSN.
func TestConnectionSettings(t *testing.T) {
	t.Run("mysql", func(t *testing.T) {
		dsn := servers.MySQL(t)
		if dsn += "?"; strings.Count(dsn, "?") > 1 {
			dsn = strings.TrimSuffix(dsn, "?") + "&"
		}
		s := migrated(t, "mysql", dsn+"clientFoundRows=false&multiStatements=true&collation=latin1_swedish_ci", Options{MaxConns: 4})
		pool := s.db.Pool
		ask := `SELECT CONCAT_WS(' ', @@wait_timeout, @@innodb_lock_wait_timeout, @@autocommit + 0, @@tx_isolation, @@character_set_connection, @@idle_transaction_timeout)`
		if version := text(t, s, `SELECT VERSION()`); version[0] == '8' || version[0] == '9' {
			ask = `SELECT CONCAT_WS(' ', @@wait_timeout, @@innodb_lock_wait_timeout, @@autocommit + 0, @@transaction_isolation, @@character_set_connection, 1)`
		}
		for range 2 {
			crowd(t, pool, 4, func(conn *sql.Conn) {
				var got string
				if err := conn.QueryRowContext(t.Context(), ask).Scan(&got); err != nil {
					t.Fatal(err)
				}
				if want := "5 2 1 READ-COMMITTED utf8mb4 1"; got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
			pool.SetMaxIdleConns(0) // the next ones are new
		}
		// Found rows, not changed ones.
		n := int64(-1)
		err := s.tx(t.Context(), "test", func(t *tx) (err error) {
			n, err = t.Exec(`UPDATE {meta} SET value = value WHERE name = ?`, "namespace")
			return err
		})
		if err != nil || n != 1 {
			t.Errorf("a row that was found and not changed counts %d, %v", n, err)
		}
		if err := s.autocommit(t.Context(), "test", func(t *tx) error { _, err := t.Exec(`SELECT 1; SELECT 2`); return err }); err == nil {
			t.Error("one text may be two statements")
		}
		for name, c := range map[string]struct {
			handle *sql.DB
			most   int
		}{"work": {s.db.Pool, 4}, "beats": {s.vital, vitalConns}, "views": {s.views, viewConns}} {
			if pool := c.handle; pool.Stats().MaxOpenConnections != c.most {
				t.Errorf("%s: %d connections, want %d", name, pool.Stats().MaxOpenConnections, c.most)
			}
		}
	})
	t.Run("sqlite", func(t *testing.T) {
		s := migrated(t, "sqlite", filepath.Join(t.TempDir(), "a.db"), Options{})
		writer := s.db.Pool
		readers := s.readers
		if n := writer.Stats().MaxOpenConnections; n != 1 {
			t.Errorf("%d writers", n)
		}
		check := func(wait, query string) func(conn *sql.Conn) {
			return func(conn *sql.Conn) {
				got := ""
				for _, pragma := range []string{"journal_mode", "synchronous", "busy_timeout", "foreign_keys", "query_only", "temp_store"} {
					var v string
					if err := conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&v); err != nil {
						t.Fatal(err)
					}
					got += v + " "
				}
				if want := "wal 2 " + wait + " 0 " + query + " 2 "; got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			}
		}
		crowd(t, writer, 1, check("0", "0"))
		crowd(t, readers, 4, check("250", "1"))
		views := s.views
		vital := s.vital
		if views.Stats().MaxOpenConnections != viewConns || views == readers || vital.Stats().MaxOpenConnections != 1 || vital == writer {
			t.Error("views or beats have no connections of their own")
		}
		look, err := OpenReadOnly(t.Context(), sqlitePath(t, s), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer look.Close()
		if pool := look.readers; pool.Stats().MaxOpenConnections != 2 { // one of which does nothing
			t.Errorf("a look takes %d connections", pool.Stats().MaxOpenConnections)
		}
		if n := readers.Stats(); n.MaxOpenConnections != 4 || n.Idle != 4 {
			t.Errorf("readers have %d connections, and keep %d open", n.MaxOpenConnections, n.Idle)
		}
	})
}

// Close leaves no connection of what Open opened.
func TestCloseClosesEachHandle(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		handles := map[string]*sql.DB{"writers": s.db.Pool, "readers": s.readers, "vital": s.vital, "views": s.views}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if d, ok := s.db.Dialect.(sqlkit.SQLite); ok {
			if err := d.Turns.(io.Closer).Close(); !errors.Is(err, os.ErrClosed) {
				t.Errorf("the file of turns is open: %v", err)
			}
		}
		for name, handle := range handles {
			pool := handle
			if err := pool.PingContext(t.Context()); err == nil || pool.Stats().OpenConnections > 0 {
				t.Errorf("%s is open", name)
			}
		}
	})
	memory := migrated(t, "sqlite", ":memory:", Options{})
	pool := memory.db.Pool
	if err := errors.Join(memory.Close(), pool.PingContext(t.Context())); err == nil {
		t.Error("a database in memory is open")
	}
}

type ending func() error

func (c ending) Close() error { return c() }

// If one part cannot be closed, the others are closed, and Close returns all errors.
func TestCloseClosesAllAndSaysWhatFailed(t *testing.T) {
	one, other, closed := errors.New("one"), errors.New("other"), 0
	ends := func(err error) io.Closer { return ending(func() error { closed++; return err }) }
	err := (&Store{opened: closers{ends(one), ends(nil), ends(other)}}).Close()
	if !errors.Is(err, one) || !errors.Is(err, other) || closed != 3 {
		t.Errorf("%d closed: %v", closed, err)
	}
}

func text(t *testing.T, s *Store, query string) (v string) {
	t.Helper()
	err := s.read(t.Context(), "test", func(t *tx) error { _, err := t.One(query, nil, &v); return err })
	if err != nil {
		t.Fatal(err)
	}
	return v
}
