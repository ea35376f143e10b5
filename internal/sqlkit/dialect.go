package sqlkit

import (
	"context"
	"database/sql"
	"time"

	"github.com/lockstep-scheduler/lockstep/migrations"
)

// Dialect is what databases say or do differently. Its zero value is of a handle that a program opened.
type Dialect interface {
	Name() migrations.Dialect
	// Words are replaced in statements, in pairs: {for_update}, {skip_locked}, {share}, {values}, {delete}. {insert_ignore} begins, and
	// {or_ignore} ends, an INSERT that leaves out rows whose key is there. {now} is the database's time in microseconds, or NULL where only Now tells it.
	// {by_key} follows the table whose rows a statement locks or writes: rows are then locked one by
	// one, in the order of the primary key, however small the table is. {index} and {end} stand around
	// the name of the index that a table must be read by, {walk} and {walked} around that of one whose
	// order is the list's: MySQL would rather read a small table whole and sort it, SQLite need not be told.
	Words() []string
	// Args makes parameters what the driver sends as they are.
	Args(args []any) []any
	// OnConflict ends an INSERT so that a row whose key is there takes the columns.
	OnConflict(key string, columns []string) string
	// AtOnce is how many of n rows one INSERT writes, from 1 to n.
	AtOnce(n int) int

	// List is the table v of a statement for many rows, as it stands before the name of the table that it is joined with, or
	// before WHERE, as ListFirst says of an UPDATE or of another statement. It has room for n rows; ListArgs are its parameters.
	List(columns []Column, n int, update bool) string
	ListFirst(update bool) bool
	ListArgs(columns []Column, rows [][]any, n int) ([]any, error)
	// ListValue is a value in that table.
	ListValue(c Column) string

	// Begin opens a transaction that may write.
	Begin(ctx context.Context, conn *sql.Conn) error
	// BeginRead opens a transaction that only reads, all of whose statements see one moment. It waits for no writer, and none for it.
	BeginRead(ctx context.Context, conn *sql.Conn) error
	// Commit returns ErrUnknownCommit when it cannot be said whether it happened.
	Commit(ctx context.Context, conn *sql.Conn) error
	// LocksRows reports whether a transaction locks rows: else it has the whole database from Begin on, and a
	// statement outside of a transaction has no turn to write.
	LocksRows() bool
	// Alone runs fn while no other process runs one under that name, for as long as the schema changes.
	Alone(ctx context.Context, db *DB, name string, fn func(t *Tx) error) error
	// InTransaction reports whether the connection is in a transaction of the caller's.
	InTransaction(t *Tx) (bool, error)
	// Join makes a caller's transaction ready to write; write is a statement that writes nothing.
	Join(t *Tx, write string) error

	// Local reports whether the database is a file of this machine, which has no accounts.
	Local() bool
	HasTable(t *Tx, name string) (bool, error) // or a view
	Now(t *Tx) (time.Time, error)

	// Fault is what an error of the driver means; see [DB.Fault].
	Fault(err error) Fault
	Answer(err error) Answer
	// Nap is the longest pause before a transaction that met a passing fault begins again.
	Nap() time.Duration
}

// Fault is what an error means for the transaction that met it.
type Fault int

const (
	FaultNone     Fault = iota // an answer, if not the one that was hoped for
	FaultConflict              // the database undid it because of another one
	FaultLost                  // the connection was lost, or the server goes away, before COMMIT was sent
	FaultFinal                 // nothing is known, and no further try
)

// Answer is why the database refused a statement, as far as callers branch on it.
type Answer int

const (
	AnswerOther     Answer = iota
	AnswerNoTable          // there is no such table
	AnswerHasColumn        // a column that was to be added is there
	AnswerReadsOnly        // the transaction or its handle may not write, which is no trouble of the server
)

// micros is the time of a count of microseconds since 1970, in UTC.
func micros(n int64) time.Time { return time.UnixMicro(n).UTC() }

// bytesOf gives the bytes of parameters that are bytes: never nil, since no BLOB of ours may be NULL.
func bytesOf(arg any) (b []byte, ok bool) {
	if b, ok = arg.([]byte); ok && b == nil {
		b = []byte{}
	}
	return b, ok
}
