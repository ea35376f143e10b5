package store

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/sqlitefile"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// sqliteServer is SQLite, in a file or in memory.
type sqliteServer struct{}

func (sqliteServer) kit() sqlkit.Dialect { return sqlkit.SQLite{} }

func (sqliteServer) check(t *tx) error {
	var version, journal string
	if _, err := t.One("SELECT sqlite_version()", nil, &version); err != nil {
		return fmt.Errorf("this is not SQLite: %w", err)
	}
	if _, err := t.Exec("SELECT 1 FROM lockstep_there_is_no_such_table"); sqlkit.SQLiteCode(err) < 0 {
		return fmt.Errorf("the driver's errors are %T, and must have a Code as those of modernc.org/sqlite: busy and broken could not be told apart", err)
	}
	if _, err := t.One("PRAGMA journal_mode", nil, &journal); err != nil {
		return err
	}
	if journal != "wal" && journal != "memory" {
		return fmt.Errorf("journal_mode is %q, and must be wal (modernc: ?_pragma=journal_mode(WAL))", journal)
	}
	if journal == "wal" {
		for _, want := range sqliteSettings {
			var n string
			if _, err := t.One("PRAGMA "+want.pragma, nil, &n); err != nil {
				return err
			}
			if !slices.Contains(want.values, n) {
				return fmt.Errorf("%s is %s, %s", want.pragma, n, want.why)
			}
		}
	}
	return nil
}

// sqliteSettings are what a database in a file must have.
var sqliteSettings = []struct {
	pragma string
	values []string
	why    string
}{
	{"synchronous", []string{"2", "3"}, "and must be FULL (2): a power loss would undo what was acknowledged (modernc: ?_pragma=synchronous(FULL))"},
	{"locking_mode", []string{"normal"}, "and must be normal: no other connection could open the file (remove ?_pragma=locking_mode(…))"},
	{"query_only", []string{"0"}, "so that nothing can be written (remove ?_pragma=query_only(1))"},
}

// adopt refuses a database in memory with several connections: each would have one of its own.
func (sqliteServer) adopt(t *tx, pool *sql.DB) error {
	var file string // empty: in memory
	_, err := t.One("SELECT COALESCE(file, '') FROM pragma_database_list WHERE name = 'main'", nil, &file)
	switch {
	case err != nil:
		return err
	case file != "":
		t.s.gate = newLogGate(sqlitefile.LogOf(file), t.DB.Timeout, nil)
	case pool.Stats().MaxOpenConnections != 1:
		return errors.New("the database is in memory, and each connection has one of its own: call SetMaxOpenConns(1) on the handle, or use a file")
	}
	return nil
}
