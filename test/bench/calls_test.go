package bench

import (
	"database/sql"
	"regexp"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
)

// calls is what the servers were asked, by all clients together, heartbeats and renewals included.
type calls struct {
	statements float64 // SQL
	commits    float64
	lock       float64 // scripts in Redis: each call of the lock is one
}

func (c calls) since(before calls) calls {
	return calls{c.statements - before.statements, c.commits - before.commits, c.lock - before.lock}
}

// counter returns what reads the servers of a site; a SQLite file counts nothing.
func (s *site) counter(tb testing.TB) func() calls {
	tb.Helper()
	if s.Driver != "mysql" {
		return func() calls { return calls{} }
	}
	db := openMySQL(tb, s.DSN)
	rdb := newRedis(tb)
	return func() (c calls) {
		c.statements, c.commits = status(tb, db, "Questions"), status(tb, db, "Com_commit")
		c.lock = scriptsRun(tb, rdb)
		return c
	}
}

// scriptsRun is how many a Redis has run.
func scriptsRun(tb testing.TB, rdb redis.UniversalClient) (n float64) {
	tb.Helper()
	info, err := rdb.Info(tb.Context(), "commandstats").Result()
	if err != nil {
		tb.Fatal(err)
	}
	for _, found := range scripts.FindAllStringSubmatch(info, -1) {
		each, _ := strconv.ParseFloat(found[1], 64)
		n += each
	}
	return n
}

var scripts = regexp.MustCompile(`(?m)^cmdstat_eval(?:sha)?:calls=(\d+)`)

func status(tb testing.TB, db *sql.DB, name string) (n float64) {
	tb.Helper()
	var ignored string
	if err := db.QueryRowContext(tb.Context(), "SHOW GLOBAL STATUS LIKE '"+name+"'").Scan(&ignored, &n); err != nil {
		tb.Fatal(err)
	}
	return n
}
