package sqlkit

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/migrations"
)

// SQLite is the dialect of SQLite, with any driver whose errors have SQLite's codes: [SQLiteError].
type SQLite struct {
	Turns Turns // nil: the writers of a file take none
	Ends  Ends  // nil: who waits for the file's write lock only looks for it
	// Eager makes BEGIN ask for the write lock every millisecond, whatever the handle's busy_timeout: with that SQLite itself
	// asks less and less often, and may lose for seconds against later writers.
	Eager bool
}

// Turns lets in one writer after the other; leave must be called, and soon.
type Turns interface {
	Enter(ctx context.Context) (leave func(), err error)
}

// SQLiteError is what errors of the driver are, with SQLite's extended code. The kit does not import the driver: who works
// with MySQL alone does not link it.
type SQLiteError interface {
	error
	Code() int
}

// sqliteRows is where an INSERT of more rows stops getting cheaper.
const sqliteRows = 64

// Codes of SQLite.
const (
	sqliteError        = 1
	sqliteBusy         = 5
	sqliteLocked       = 6
	sqliteNoMem        = 7
	sqliteReadOnly     = 8
	sqliteInterrupt    = 9
	sqliteIOErr        = 10
	sqliteFull         = 13
	sqliteCantOpen     = 14
	sqliteProtocol     = 15
	sqliteBusySnapshot = sqliteBusy | 2<<8
)

// SQLiteCode is what SQLite says went wrong, without the details; -1 if it was not SQLite.
func SQLiteCode(err error) int {
	if e, ok := errors.AsType[SQLiteError](err); ok {
		return e.Code() & 0xff
	}
	return -1
}

func (SQLite) Name() migrations.Dialect { return migrations.SQLite }

// A transaction that may write has the whole file from its BEGIN on: no row locks.
func (SQLite) Words() []string {
	return []string{
		"{now}", "NULL", "{for_update}", "", "{skip_locked}", "", "{share}", "", "{insert_ignore}", "INSERT OR IGNORE INTO", "{or_ignore}", "", "{values}", "VALUES ",
		"{by_key}", "", "{delete}", "DELETE FROM", "{index}", " INDEXED BY ", "{end}", "",
		"{walk}", " /* ", "{walked}", " */",
	}
}

func (SQLite) Args(args []any) []any {
	args = slices.Clone(args)
	for i, arg := range args {
		if b, ok := bytesOf(arg); ok {
			args[i] = b
		}
	}
	return args
}

func (SQLite) OnConflict(key string, columns []string) string {
	return " ON CONFLICT (" + key + ") DO UPDATE SET " + assign(columns, "?=excluded.?")
}

// AtOnce is a power of two: so there are few texts, each of which a connection prepares once. To prepare long ones took a seventh of the time of
// transactions with some hundred rows.
func (SQLite) AtOnce(n int) int { return min(1<<(bits.Len(uint(n))-1), sqliteRows) }

// List reads the rows in their order: SQLite reads a CROSS JOIN from left to right, and there is nothing to be locked in order.
func (SQLite) List(columns []Column, n int, update bool) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = fmt.Sprintf("column%d AS %s", i+1, c.Name)
	}
	row := "(" + Marks(len(columns)) + ")"
	list := "(SELECT " + strings.Join(names, ", ") + " FROM (VALUES " + strings.Repeat(row+",", n-1) + row + ")) v"
	if update {
		return " FROM " + list
	}
	return list + " CROSS JOIN "
}

func (SQLite) ListFirst(update bool) bool { return !update }

// ListArgs fills the list up with rows whose key is NULL, which matches no row.
func (SQLite) ListArgs(columns []Column, rows [][]any, n int) ([]any, error) {
	return append(slices.Concat(rows...), make([]any, (n-len(rows))*len(columns))...), nil
}

func (SQLite) ListValue(c Column) string { return "v." + c.Name }

const (
	// sqliteNap is short: a process that looks for the write lock seldom does not get it from processes that write one
	// transaction after the other, and take no turns or come from a handle that has none.
	sqliteNap = 5 * time.Millisecond
	// turnNap is between two looks for the write lock, of one process at a time.
	turnNap = time.Millisecond
	// lockedOut is how long a BEGIN takes that waits for the write lock: nothing else in it takes as long.
	lockedOut = 100 * time.Millisecond

	heldElsewhere = "another connection holds SQLite's write lock, with a transaction that has not ended"
)

// Begin takes the write lock at once: a transaction that reads first and then writes could
// otherwise fail half-way. While the lock is taken it asks again, in its turn.
func (d SQLite) Begin(ctx context.Context, conn *sql.Conn) error {
	if d.Turns != nil {
		leave, err := d.Turns.Enter(ctx)
		if err != nil {
			return err
		}
		defer leave()
	}
	if d.Eager {
		patient, err := eager(ctx, conn)
		if err != nil {
			return err
		}
		defer patient()
	}
	for again := false; ; again = true {
		asked := time.Now()
		_, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE")
		if err == nil {
			return nil
		}
		if SQLiteCode(err) != sqliteBusy {
			if err = begun(ctx, conn, err); ctx.Err() != nil && (again || time.Since(asked) > lockedOut) {
				err = fmt.Errorf("%w: %s", err, heldElsewhere) // with a busy_timeout SQLite waits itself, and does not come to say so
			}
			return err
		}
		if over := d.Ends.wait(ctx); over != nil {
			return fmt.Errorf("%w, after %w: %s", over, err, heldElsewhere)
		}
	}
}

// BeginRead takes no lock: with WAL, the first read decides which moment all others see.
func (SQLite) BeginRead(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, "BEGIN DEFERRED"); err != nil {
		return begun(ctx, conn, err)
	}
	return nil
}

// eager sets the busy_timeout of a connection to 0, and returns what sets it back.
func eager(ctx context.Context, conn *sql.Conn) (patient func(), err error) {
	var timeout int
	if err := conn.QueryRowContext(ctx, `PRAGMA busy_timeout`).Scan(&timeout); err != nil || timeout == 0 {
		return func() {}, err
	}
	patient = func() {
		if _, err := conn.ExecContext(context.WithoutCancel(ctx), fmt.Sprintf(`PRAGMA busy_timeout = %d`, timeout)); err != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // not back to the pool like this
		}
	}
	_, err = conn.ExecContext(ctx, `PRAGMA busy_timeout = 0`)
	if err != nil {
		patient()
	}
	return patient, err
}

// begun undoes a BEGIN that was answered with an error.
func begun(ctx context.Context, conn *sql.Conn, err error) error {
	// It may have begun: the driver returns an error, too, when ctx ended meanwhile. The next user of this
	// connection would keep all others from writing.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if _, undone := conn.ExecContext(ctx, "ROLLBACK"); undone != nil && SQLiteCode(undone) != sqliteError { // no transaction is active
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	return err
}

// Commit does not obey ctx: an interrupted COMMIT would be one more outcome.
func (d SQLite) Commit(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(context.WithoutCancel(ctx), "COMMIT")
	d.Ends.tell()
	if SQLiteCode(err) == sqliteIOErr {
		return fmt.Errorf("%w: %w", ErrUnknownCommit, err)
	}
	return err
}

func (SQLite) LocksRows() bool { return false }

// Alone is a transaction: with WAL, BEGIN IMMEDIATE and BEGIN EXCLUSIVE are the same.
func (SQLite) Alone(ctx context.Context, db *DB, _ string, fn func(t *Tx) error) error {
	return db.Tx(ctx, fn)
}

// InTransaction: SQLite refuses a BEGIN within a transaction. One outside takes no lock, and is undone; neither waits.
func (SQLite) InTransaction(t *Tx) (bool, error) {
	if err := t.Ctx.Err(); err != nil {
		return false, err
	}
	ctx := context.WithoutCancel(t.Ctx)
	_, err := t.Conn.ExecContext(ctx, "BEGIN")
	if SQLiteCode(err) == sqliteError {
		return true, nil
	}
	if err == nil {
		_, err = t.Conn.ExecContext(ctx, "ROLLBACK")
	}
	return false, err
}

// Join takes the write lock before anything is read: a transaction that reads first cannot write any
// more once another process has. While the lock is taken nothing has happened, so that asking again
// is right; unless the caller has read what is old now.
func (SQLite) Join(t *Tx, write string) error {
	for began, n := time.Now(), 0; ; n++ {
		_, err := t.Exec(write)
		if SQLiteCode(err) != sqliteBusy {
			return err
		}
		if e, ok := errors.AsType[SQLiteError](err); ok && e.Code() == sqliteBusySnapshot {
			return fmt.Errorf("the transaction had read before, and others have written since; begin it with BEGIN IMMEDIATE (modernc: ?_txlock=immediate): %w", err)
		}
		if time.Since(began) > t.DB.Timeout || Pause(t.Ctx, n, sqliteNap) != nil {
			return fmt.Errorf("%w: %s", err, heldElsewhere)
		}
	}
}

func (SQLite) Local() bool { return true }

func (SQLite) HasTable(t *Tx, name string) (bool, error) {
	var n int
	return t.One("SELECT 1 FROM sqlite_master WHERE type IN ('table', 'view') AND name = ?", []any{name}, &n)
}

// Now is the machine's clock, which SQLite's own functions read with less precision.
func (SQLite) Now(*Tx) (time.Time, error) { return time.Now().UTC().Truncate(time.Microsecond), nil }

func (SQLite) Fault(err error) Fault {
	switch SQLiteCode(err) {
	case sqliteBusy, sqliteLocked, sqliteProtocol: // the last: too many meet at the WAL
		return FaultConflict
	case sqliteInterrupt, sqliteIOErr, sqliteFull, sqliteCantOpen, sqliteReadOnly, sqliteNoMem:
		return FaultFinal
	}
	return FaultNone
}

// Answer leaves out the extended codes of READONLY: of a file that was moved, or that cannot be recovered or locked.
func (SQLite) Answer(err error) Answer {
	e, ok := errors.AsType[SQLiteError](err)
	switch {
	case !ok:
	case e.Code() == sqliteReadOnly:
		return AnswerReadsOnly
	case e.Code()&0xff != sqliteError:
	case strings.Contains(err.Error(), "no such table"):
		return AnswerNoTable
	case strings.Contains(err.Error(), "duplicate column name"):
		return AnswerHasColumn
	}
	return AnswerOther
}

func (SQLite) Nap() time.Duration { return sqliteNap }
