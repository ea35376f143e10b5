package store

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"gorm.io/gorm"
)

// dialect is what differs between the databases; statements are the same, but for the words.
type dialect interface {
	name() Dialect
	// words are replaced in statements: {for_update}, {share}, {insert_ignore}, {values}, {delete}.
	// {now} is the database's time in microseconds, or NULL where only now tells it.
	// {by_key} follows the table whose rows a statement locks or writes: rows are then locked one by
	// one, in the order of the primary key, however small the table is. {index} and {end} stand around
	// the name of the index that a table must be read by, {walk} and {walked} around that of one whose
	// order is the list's: MySQL would rather read a small table whole and sort it, SQLite need not be told.
	words() []string
	gorm(db *sql.DB) gorm.Dialector
	// check fails when server or settings will not do. opened: the settings are ours.
	check(t *tx, opened bool) error
	// checkPool fails when a caller's pool of connections will not do.
	checkPool(t *tx, pool *sql.DB) error
	begin(ctx context.Context, conn *sql.Conn) error
	// commit returns errUnknownCommit when nobody can say whether it happened.
	commit(ctx context.Context, conn *sql.Conn) error
	// single runs fn, each of whose statements may be a transaction of its own.
	single(ctx context.Context, s *Store, conn *sql.Conn, fn func(t *tx) error) error
	// inTransaction reports whether the connection is in a transaction of the caller's.
	inTransaction(t *tx) (bool, error)
	// joined makes a caller's transaction ready to write.
	joined(t *tx) error
	// alone runs fn while no other process runs one, for as long as the schema changes.
	alone(ctx context.Context, s *Store, fn func(t *tx) error) error
	hasTable(t *tx, name string) (bool, error) // or a view
	now(t *tx) (time.Time, error)
	fault(err error) fault
	// readsOnly: the transaction or its handle may not write, which is no trouble of the server.
	readsOnly(err error) bool
	// nap is the longest pause before a transaction that met a passing fault begins again.
	nap() time.Duration
	noTable(err error) bool
	// hasColumn: a column that was to be added is there.
	hasColumn(err error) bool
	// unreachable adds the address that could not be reached.
	unreachable(err error) error
	args(args []any) []any
}

// marks is n placeholders: "?,?,?".
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }

// micros is how times are kept: microseconds since 1970; 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// fromMicros is the inverse of micros, in UTC.
func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// bytesOf gives the bytes of arguments that are bytes: never nil, since no BLOB of ours may be NULL.
func bytesOf(arg any) (b []byte, ok bool) {
	if b, ok = arg.([]byte); ok && b == nil {
		b = []byte{}
	}
	return b, ok
}
