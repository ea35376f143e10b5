package sqllock

import "strings"

// Dialect is which kind of database a handle speaks to.
type Dialect string

const (
	MySQL  Dialect = "mysql"
	SQLite Dialect = "sqlite"
)

// words are what the dialects say differently, and the names of the tables.
type words struct {
	dialect Dialect
	replace *strings.Replacer
	prefix  string
}

func newWords(d Dialect, prefix string) words {
	pairs := []string{
		"{sessions}", prefix + "lock_sessions", "{leases}", prefix + "lock_leases",
		"{marks}", prefix + "lock_marks", "{rows}", prefix + "lock_rows", "{anchors}", prefix + "lock_anchors",
	}
	if d == SQLite {
		pairs = append(pairs,
			"{now}", "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
			"{greatest}", "MAX", "{insert_ignore}", "INSERT OR IGNORE INTO",
			"{key}", "TEXT", "{text}", "TEXT", "{int}", "INTEGER", "{engine}", "WITHOUT ROWID")
	} else {
		pairs = append(pairs,
			"{now}", "CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)",
			"{greatest}", "GREATEST", "{insert_ignore}", "INSERT IGNORE INTO",
			"{key}", "VARBINARY(200)", "{text}", "VARBINARY(512)", "{int}", "BIGINT", "{engine}", "ENGINE=InnoDB")
	}
	return words{d, strings.NewReplacer(pairs...), prefix}
}

// tables are the statements that make what is missing. Times are µs of the database's clock.
func (w words) tables() []string {
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
	if w.dialect == MySQL {
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
	for i := range all {
		all[i] = w.replace.Replace(all[i])
	}
	return all
}
