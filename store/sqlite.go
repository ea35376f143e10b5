package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

type sqliteDialect struct {
	turns *turnstile // of a file that Open opened, else nil
}

func (sqliteDialect) name() Dialect { return SQLite }

// A transaction that may write has the whole file from its BEGIN on: no row locks.
func (sqliteDialect) words() []string {
	return []string{
		"{now}", "NULL", "{for_update}", "", "{skip_locked}", "", "{share}", "", "{insert_ignore}", "INSERT OR IGNORE INTO", "{values}", "VALUES ",
		"{by_key}", "", "{delete}", "DELETE FROM", "{index}", " INDEXED BY ", "{end}", "",
		"{walk}", " /* ", "{walked}", " */",
	}
}

func (sqliteDialect) gorm(db *sql.DB) gorm.Dialector { return sqliteDialector{db} }

func (sqliteDialect) check(t *tx, opened bool) error {
	var version, journal string
	if _, err := t.one("SELECT sqlite_version()", nil, &version); err != nil {
		return fmt.Errorf("this is not SQLite: %w", err)
	}
	var e *sqlite.Error
	if _, err := t.exec("SELECT 1 FROM lockstep_there_is_no_such_table"); !errors.As(err, &e) {
		return fmt.Errorf("the driver's errors are %T, and must be those of modernc.org/sqlite: busy and broken could not be told apart", err)
	}
	if _, err := t.one("PRAGMA journal_mode", nil, &journal); err != nil {
		return err
	}
	if journal != "wal" && journal != "memory" {
		return fmt.Errorf("journal_mode is %q, and must be wal (modernc: ?_pragma=journal_mode(WAL))", journal)
	}
	if journal == "wal" {
		for _, want := range sqliteSettings {
			var n string
			if _, err := t.one("PRAGMA "+want.pragma, nil, &n); err != nil {
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

// checkPool refuses a database in memory with several connections: each would have one of its own.
func (sqliteDialect) checkPool(t *tx, pool *sql.DB) error {
	file, err := sqliteFile(t)
	if err == nil && file == "" && pool.Stats().MaxOpenConnections != 1 {
		err = errors.New("the database is in memory, and each connection has one of its own: call SetMaxOpenConns(1) on the handle, or use a file")
	}
	return err
}

// sqliteFile is where the database is; empty if it is in memory.
func sqliteFile(t *tx) (file string, err error) {
	err = t.query("PRAGMA database_list", nil, func(scan func(...any) error) error {
		var seq int
		var name, path string
		err := scan(&seq, &name, &path)
		if name == "main" {
			file = path
		}
		return err
	})
	return file, err
}

// begin takes the write lock at once: a transaction that reads first and then writes could
// otherwise fail half-way. While the lock is taken it asks again, in its turn.
func (d sqliteDialect) begin(ctx context.Context, conn *sql.Conn) error {
	leave, err := d.turns.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	for n := 0; ; n++ {
		asked := time.Now()
		_, err = conn.ExecContext(ctx, "BEGIN IMMEDIATE")
		if err == nil {
			return nil
		}
		if code(err) != lib.SQLITE_BUSY {
			if err = begun(ctx, conn, err); ctx.Err() != nil && (n > 0 || time.Since(asked) > lockedOut) {
				err = fmt.Errorf("%w: %s", err, heldElsewhere) // with a busy_timeout SQLite waits itself, and does not come to say so
			}
			return err
		}
		if over := pause(ctx, n, turnNap); over != nil {
			return fmt.Errorf("%w, after %w: %s", over, err, heldElsewhere)
		}
	}
}

const (
	heldElsewhere = "another connection holds SQLite's write lock, with a transaction that has not ended"
	// lockedOut is how long a BEGIN takes that waits for the write lock: nothing else in it takes as long.
	lockedOut = 100 * time.Millisecond
)

// begun undoes a BEGIN that was answered with an error.
func begun(ctx context.Context, conn *sql.Conn, err error) error {
	// It may have begun: an error is also how the driver says that ctx ended meanwhile. Whoever got
	// this connection next would keep everybody from writing.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if _, undone := conn.ExecContext(ctx, "ROLLBACK"); undone != nil && code(undone) != lib.SQLITE_ERROR { // no transaction is active
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	return err
}

// code is what SQLite says went wrong, without the details; -1 if it was not SQLite.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return -1
}

// commit does not obey ctx: an interrupted COMMIT would be one more outcome.
func (sqliteDialect) commit(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(context.WithoutCancel(ctx), "COMMIT")
	if code(err) == lib.SQLITE_IOERR {
		return fmt.Errorf("%w: %w", errUnknownCommit, err)
	}
	return err
}

// inTransaction: SQLite refuses a BEGIN within a transaction. One outside takes no lock, and is undone; neither waits.
func (sqliteDialect) inTransaction(t *tx) (bool, error) {
	if err := t.ctx.Err(); err != nil {
		return false, err
	}
	ctx := context.WithoutCancel(t.ctx)
	_, err := t.conn.ExecContext(ctx, "BEGIN")
	if code(err) == lib.SQLITE_ERROR {
		return true, nil
	}
	if err == nil {
		_, err = t.conn.ExecContext(ctx, "ROLLBACK")
	}
	return false, err
}

// joined takes the write lock before anything is read: a transaction that reads first cannot write any
// more once somebody else has. While the lock is taken nothing has happened, so that asking again
// is right; unless the caller has read what is old now.
func (sqliteDialect) joined(t *tx) error {
	for began, n := time.Now(), 0; ; n++ {
		_, err := t.exec("UPDATE {meta} SET value = value WHERE 1 = 0")
		var e *sqlite.Error
		if !errors.As(err, &e) || e.Code()&0xff != lib.SQLITE_BUSY {
			return err
		}
		if e.Code() == lib.SQLITE_BUSY_SNAPSHOT {
			return fmt.Errorf("the transaction had read before, and others have written since; begin it with BEGIN IMMEDIATE (modernc: ?_txlock=immediate): %w", err)
		}
		if time.Since(began) > t.s.timeout || pause(t.ctx, n, sqliteNap) != nil {
			return fmt.Errorf("%w: %s", err, heldElsewhere)
		}
	}
}

// sqliteNap is short: who looks for the write lock seldom does not get it from processes that write one
// transaction after the other, and go around the turnstile or come from a handle that has none.
const sqliteNap = 5 * time.Millisecond

func (sqliteDialect) nap() time.Duration { return sqliteNap }

// single is a transaction: its BEGIN waits in its turn, which a write by itself does not.
func (sqliteDialect) single(ctx context.Context, s *Store, conn *sql.Conn, fn func(t *tx) error) error {
	return s.transact(ctx, conn, fn)
}

// alone is a transaction: with WAL, BEGIN IMMEDIATE and BEGIN EXCLUSIVE are the same.
func (sqliteDialect) alone(ctx context.Context, s *Store, fn func(t *tx) error) error {
	return s.tx(ctx, "migrate", fn)
}

func (sqliteDialect) hasTable(t *tx, name string) (bool, error) {
	var n int
	return t.one("SELECT 1 FROM sqlite_master WHERE type IN ('table', 'view') AND name = ?", []any{name}, &n)
}

// now is the machine's clock, which SQLite's own functions read with less precision.
func (sqliteDialect) now(*tx) (time.Time, error) {
	return time.Now().UTC().Truncate(time.Microsecond), nil
}

func (sqliteDialect) noTable(err error) bool {
	return code(err) == lib.SQLITE_ERROR && strings.Contains(err.Error(), "no such table")
}

func (sqliteDialect) hasColumn(err error) bool {
	return code(err) == lib.SQLITE_ERROR && strings.Contains(err.Error(), "duplicate column name")
}

// readsOnly leaves out the extended codes: of a file that was moved, or that cannot be recovered or locked.
func (sqliteDialect) readsOnly(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code() == lib.SQLITE_READONLY
}

func (sqliteDialect) fault(err error) fault {
	switch code(err) {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL: // the last: too many meet at the WAL
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
