package sqllock

import (
	"context"
	"database/sql"

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
	// write runs a single write of a session.
	write func(ctx context.Context, db *sqlkit.DB, once func(t *sqlkit.Tx) error) error
	rows  bool // it locks rows: mode row
}

var dialects = map[Dialect]dialect{
	MySQL: {
		kit: sqlkit.MySQL{Isolation: "READ COMMITTED"},
		words: []string{
			"{now}", "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)",
			"{key}", "VARBINARY(200)", "{text}", "VARBINARY(512)", "{int}", "BIGINT", "{engine}", "ENGINE=InnoDB",
		},
		mint: mintMySQL, write: writeMySQL, rows: true,
	},
	SQLite: {
		kit: sqlkit.SQLite{},
		words: []string{
			"{now}", "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
			"{key}", "TEXT", "{text}", "TEXT", "{int}", "INTEGER", "{engine}", "WITHOUT ROWID",
		},
		mint: mintSQLite, write: writeSQLite,
	},
}

// open is the database as sqlkit has it.
func (d dialect) open(pool *sql.DB, prefix string) *sqlkit.DB {
	db := sqlkit.New(pool, d.kit, prefix+"lock_", []string{"sessions", "leases", "marks", "rows", "anchors"}, d.words...)
	db.Refused = func(ctx context.Context, err error) error { return full(ctx, pool, err) }
	return db
}

// tables are the statements that make what is missing. Times are µs of the database's clock.
func (d dialect) tables() []string {
	all := []string{
		`CREATE TABLE IF NOT EXISTS {marks} (
		  namespace {key} NOT NULL PRIMARY KEY,
		  token     {int} NOT NULL               -- the highest ever
		) {engine}`,
		`CREATE TABLE IF NOT EXISTS {sessions} (
		  id         {key} NOT NULL PRIMARY KEY,
		  namespace  {key} NOT NULL,
		  expires_at {int} NOT NULL,
		  dead       {int} NOT NULL               -- 1: final, its leases are being deleted
		) {engine}`,
		`CREATE TABLE IF NOT EXISTS {leases} (
		  namespace   {key} NOT NULL,
		  name        {key} NOT NULL,
		  token       {int} NOT NULL,
		  session_id  {key} NOT NULL,
		  acquisition {key} NOT NULL,
		  owner       {text} NOT NULL,
		  meta        {text} NOT NULL,
		  since       {int} NOT NULL,
		  PRIMARY KEY (namespace, name)
		) {engine}`,
	}
	if d.rows {
		all = append(all,
			`CREATE TABLE IF NOT EXISTS {rows} (      -- locked by open transactions, which write the rest and never commit it
			  namespace   {key} NOT NULL,
			  name        {key} NOT NULL,
			  token       {int} NOT NULL,           -- 0: free
			  session_id  {key} NOT NULL,
			  acquisition {key} NOT NULL,
			  owner       {text} NOT NULL,
			  meta        {text} NOT NULL,
			  since       {int} NOT NULL,
			  connection  {int} NOT NULL,
			  PRIMARY KEY (namespace, name)
			) {engine}`,
			`CREATE TABLE IF NOT EXISTS {anchors} (   -- sessions in mode row: never committed either
			  id         {key} NOT NULL PRIMARY KEY,
			  connection {int} NOT NULL
			) {engine}`)
	}
	return all
}
