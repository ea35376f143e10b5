package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"
	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

type sqliteDialect struct{}

func (sqliteDialect) name() Dialect { return SQLite }

// A transaction that may write has the whole file from its BEGIN on: no row locks.
func (sqliteDialect) words() []string {
	return []string{
		"{for_update}", "", "{share}", "", "{insert_ignore}", "INSERT OR IGNORE INTO", "{values}", "VALUES ",
		"{by_key}", "", "{delete}", "DELETE FROM", "{index}", " INDEXED BY ", "{end}", "",
	}
}

func (sqliteDialect) gorm(db *sql.DB) gorm.Dialector { return sqliteDialector{db} }

func (sqliteDialect) check(t *tx, opened bool) error {
	var version, journal string
	if _, err := t.one("SELECT sqlite_version()", nil, &version); err != nil {
		return fmt.Errorf("this is not SQLite: %w", err)
	}
	if _, err := t.one("PRAGMA journal_mode", nil, &journal); err != nil {
		return err
	}
	if journal != "wal" && journal != "memory" {
		return fmt.Errorf("journal_mode is %q, and must be wal (modernc: ?_pragma=journal_mode(WAL))", journal)
	}
	var synchronous int
	if _, err := t.one("PRAGMA synchronous", nil, &synchronous); err != nil {
		return err
	}
	if synchronous < 2 && journal == "wal" {
		return fmt.Errorf("synchronous is %d, and must be FULL (2): a power loss would undo what was acknowledged (modernc: ?_pragma=synchronous(FULL))", synchronous)
	}
	return nil
}

// begin takes the write lock at once: a transaction that reads first and then writes could
// otherwise fail half-way.
func (sqliteDialect) begin(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE")
	return err
}

// commit does not obey ctx: an interrupted COMMIT would be one more outcome.
func (sqliteDialect) commit(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(context.WithoutCancel(ctx), "COMMIT")
	var e *sqlite.Error
	if errors.As(err, &e) && e.Code()&0xff == lib.SQLITE_IOERR {
		return fmt.Errorf("%w: %w", errUnknownCommit, err)
	}
	return err
}

// alone is a transaction: with WAL, BEGIN IMMEDIATE and BEGIN EXCLUSIVE are the same.
func (sqliteDialect) alone(ctx context.Context, s *Store, fn func(t *tx) error) error {
	return s.tx(ctx, "migrate", fn)
}

func (sqliteDialect) hasTable(t *tx, name string) (bool, error) {
	var n int
	return t.one("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", []any{name}, &n)
}

// now is the machine's clock, which SQLite's own functions read with less precision.
func (sqliteDialect) now(*tx) (time.Time, error) {
	return time.Now().UTC().Truncate(time.Microsecond), nil
}

func (sqliteDialect) fault(err error) fault {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return faultNone
	}
	switch e.Code() & 0xff {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return faultPassing
	case lib.SQLITE_INTERRUPT, lib.SQLITE_IOERR, lib.SQLITE_FULL, lib.SQLITE_CANTOPEN, lib.SQLITE_READONLY, lib.SQLITE_NOMEM:
		return faultFinal
	}
	return faultNone
}

func (sqliteDialect) unreachable(err error) error { return err }

func (sqliteDialect) args(args []any) []any {
	args = slices.Clone(args)
	for i, arg := range args {
		if b, ok := bytesOf(arg); ok {
			args[i] = b
		}
	}
	return args
}
