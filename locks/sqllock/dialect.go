package sqllock

import (
	"context"
	"database/sql"
	_ "embed"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/migrations"
)

// Dialect is which kind of database a handle speaks to.
type Dialect = migrations.Dialect

const (
	MySQL  = migrations.MySQL
	SQLite = migrations.SQLite
)

// dialect is what the databases say differently here, besides what sqlkit knows.
type dialect struct {
	kit   sqlkit.Dialect
	words []string
	// mint sets the mark of a namespace and returns it; 0 if it is gone.
	mint func(t *sqlkit.Tx, namespace string, n int) (last int64, err error)
	// write runs what a session writes where no transaction is needed.
	write func(ctx context.Context, db *sqlkit.DB, once func(t *sqlkit.Tx) error) error
	// settle prepares a session for what its handle is.
	settle func(ctx context.Context, s *leaseSession) error
	rows   bool // it locks rows: mode row
}

var dialects = map[Dialect]dialect{
	MySQL: {
		kit: sqlkit.MySQL{Isolation: "READ COMMITTED"},
		words: []string{
			"{now}", "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)",
			"{key}", "VARBINARY(200)", "{text}", "VARBINARY(512)", "{int}", "BIGINT", "{engine}", "ENGINE=InnoDB",
			"{of_session}", ", KEY of_session (session_id)", "{first}", "(", // of a UNION: SQLite lets no part have a LIMIT of its own
		},
		mint: mintMySQL, write: writeMySQL, settle: settleMySQL, rows: true,
	},
	SQLite: {
		kit: sqlkit.SQLite{Eager: true},
		words: []string{
			"{now}", "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
			"{key}", "TEXT", "{text}", "TEXT", "{int}", "INTEGER", "{engine}", "WITHOUT ROWID", "{of_session}", "", "{first}", "SELECT * FROM (",
		},
		mint: mintSQLite, write: writeSQLite, settle: settleSQLite,
	},
}

// open is the database as sqlkit has it.
func (d dialect) open(pool *sql.DB, prefix string) *sqlkit.DB {
	// Tables of the first edition have the names without the 2.
	words := append(slices.Clone(d.words), "{sessions}", prefix+"lock_sessions2", "{leases}", prefix+"lock_leases2")
	db := sqlkit.New(pool, d.kit, prefix+"lock_", []string{"places", "marks", "rows", "holds", "anchors"}, words...)
	db.Refused = func(ctx context.Context, err error) error { return full(ctx, pool, err) }
	return db
}

//go:embed tables.sql
var tables string

//go:embed tables_row.sql
var rowTables string

//go:embed tables_sqlite.sql
var sqliteTables string

// tables are the statements that make what is missing.
func (d dialect) tables() []string {
	if d.rows {
		return append(statements(tables), statements(rowTables)...)
	}
	return append(statements(tables), statements(sqliteTables)...)
}

func statements(script string) []string {
	return strings.SplitAfter(strings.TrimSpace(script), ";\n")
}
