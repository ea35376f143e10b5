package sqllock_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// every runs f for each kind of driver, with a handle on its database.
func every(t *testing.T, f func(t *testing.T, db *sql.DB, d driver.Driver)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db := open(t, "sqlite", sqliteFile(t))
		f(t, db, sqllock.New(db, sqllock.SQLite, sqllock.Options{}))
	})
	for _, mode := range []sqllock.Mode{sqllock.Lease, sqllock.Row} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			db := open(t, "mysql", servers.MySQL(t))
			f(t, db, sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: mode}))
		})
	}
}

// A clock that was set back by a day must not bring old tokens again.
func TestTokensGrowThoughTheClockIsBehind(t *testing.T) {
	every(t, func(t *testing.T, db *sql.DB, d driver.Driver) {
		s := session(t, d, time.Minute)
		high := driver.Token(time.Now().Add(24 * time.Hour).UnixMicro())
		if _, err := db.ExecContext(t.Context(), `UPDATE lockstep_lock_marks SET token = ?`, int64(high)); err != nil {
			t.Fatal(err)
		}
		if d.Caps().Name == "mysql-row" { // tokens of one run of the server do not come from its clock
			s = session(t, d, time.Minute)
		}
		last := high
		for range 3 {
			held := take(t, s, "a", "b")
			if held[0].Token <= last || held[1].Token <= last {
				t.Fatalf("tokens %v after %d", held, last)
			}
			last = max(held[0].Token, held[1].Token)
			if err := s.Release(t.Context(), held); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Nothing is granted when the namespace's highest token is not known.
func TestNoTokenWithoutAMark(t *testing.T) {
	every(t, func(t *testing.T, db *sql.DB, d driver.Driver) {
		s := session(t, d, time.Minute)
		if d.Caps().Name == "mysql-row" { // beyond the mark that the session knows
			moveCounter(t, db, time.Now().Add(time.Hour).UnixMicro())
		}
		if _, err := db.ExecContext(t.Context(), `DELETE FROM lockstep_lock_marks`); err != nil {
			t.Fatal(err)
		}
		if got, err := s.TryAcquire(t.Context(), "1", []driver.Want{{Key: "a"}}); err == nil {
			t.Errorf("%+v, want an error", got)
		}
	})
}

// While one batch has its tokens and is not written, no session gets a larger token for one of its keys:
// else the key would go to the smaller one afterwards.
func TestLeaseTokensAreMintedWhereTheyAreUsed(t *testing.T) {
	t.Parallel()
	dsn := servers.MySQL(t)
	p, through := edge(t, dsn)
	slow := session(t, sqllock.New(open(t, "mysql", through), sqllock.MySQL, sqllock.Options{}), time.Minute)
	quick := session(t, sqllock.New(open(t, "mysql", dsn), sqllock.MySQL, sqllock.Options{}), time.Minute)
	var between driver.Token
	var once sync.Once
	p.Judge(func(c proxy.Command) proxy.Verdict {
		if strings.HasPrefix(c.Query, "INSERT INTO lockstep_lock_leases2") {
			once.Do(func() {
				ctx, cancel := contextFor(t, 500*time.Millisecond)
				defer cancel()
				if got, err := quick.TryAcquire(ctx, "2", []driver.Want{{Key: "z"}}); err == nil && got[0].Token > 0 {
					between = got[0].Token
					if err := quick.Release(t.Context(), []driver.Held{{Key: "z", Token: between}}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		return proxy.Pass
	})
	late, err := slow.TryAcquire(t.Context(), "1", []driver.Want{{Key: "k"}, {Key: "z"}})
	if err != nil {
		t.Fatal(err)
	}
	if z := late[1].Token; z <= between {
		t.Errorf("token %d was granted after %d", z, between)
	}
}

// running waits until a statement like this runs, in the database of db.
func running(t *testing.T, db *sql.DB, like string) {
	t.Helper()
	await.Until(t, like+" runs", func() bool {
		var n int
		err := db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM information_schema.processlist
			WHERE db = DATABASE() AND info LIKE ?`, like).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n > 0
	})
}

// Nothing is left of keys and sessions once they are over, also of expired ones: the next session
// cleans up.
func TestNothingIsLeftBehind(t *testing.T) {
	every(t, func(t *testing.T, db *sql.DB, d driver.Driver) {
		a, b := session(t, d, time.Minute), session(t, d, time.Minute)
		take(t, a, "a", "b")
		if err := b.Release(t.Context(), take(t, b, "c", "d")); err != nil {
			t.Fatal(err)
		}
		evicted := take(t, b, "e")
		if ok, err := a.Evict(t.Context(), "e", evicted[0].Token); !ok || err != nil {
			t.Fatal(ok, err)
		}
		left := func(table string) (n int) {
			if err := db.QueryRowContext(t.Context(), fmt.Sprintf(`SELECT COUNT(*) FROM lockstep_lock_%s`, table)).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		tables := []string{"places", "leases2", "sessions2"}
		if d.Caps().Name == "mysql-row" {
			tables = append(tables, "rows", "anchors")
			kill(t, db, a.ID())
			await.Until(t, "the killed connections are gone", func() bool {
				infos, err := b.List(t.Context(), "", "", 10)
				return err == nil && len(infos) == 0
			})
		} else {
			expire(db)(t, a)
		}
		if n := left(tables[len(tables)-2]); n == 0 {
			t.Error("the expired session left nothing behind: this test tests nothing")
		}
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := session(t, d, time.Minute).Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, table := range tables {
			if n := left(table); n != 0 {
				t.Errorf("%d rows are left in %s", n, table)
			}
		}
		if n := left("marks"); n != 1 {
			t.Errorf("%d marks, want that of the namespace", n)
		}
		_ = a.Close(t.Context()) // it was over already
		if n := db.Stats().InUse; n != 0 {
			t.Errorf("%d connections are kept", n)
		}
	})
}
