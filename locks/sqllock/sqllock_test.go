package sqllock_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4")      // most cases wait for a ttl to pass; the others, for the disk
	_ = mysql.SetLogger(&mysql.NopLogger{}) // connections are killed here
	os.Exit(servers.Main(m))
}

func open(t *testing.T, driverName, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driverName, dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxIdleConns(16)
	if driverName == "sqlite" {
		db.SetMaxOpenConns(1) // more would only compete
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func sqliteFile(t *testing.T) string {
	return "file:" + filepath.Join(t.TempDir(), "locks.db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate"
}

// expire makes the server end a lease session now, as it would after its ttl. On SQLite it asks for the file as often as sessions
// do, which else keep it away.
func expire(db *sql.DB) func(*testing.T, driver.Session) {
	return func(t *testing.T, s driver.Session) {
		t.Helper()
		var d sqlkit.Dialect = sqlkit.MySQL{}
		if _, is := db.Driver().(*sqlite.Driver); is {
			d = sqlkit.SQLite{Eager: true}
		}
		err := sqlkit.New(db, d, "lockstep_", nil).Single(t.Context(), func(tx *sqlkit.Tx) error {
			_, err := tx.Exec("UPDATE lockstep_lock_sessions2 SET expires_at = 1 WHERE id = ?", s.ID())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Each case has a file of its own: all writers of a file wait for each other, and for the disk.
func TestSQLite(t *testing.T) {
	t.Parallel()
	lockstest.Run(t, func(t *testing.T) lockstest.Harness {
		var mu sync.Mutex
		files := map[*testing.T]string{}
		database := func(t *testing.T) *sql.DB {
			mu.Lock()
			defer mu.Unlock()
			if files[t] == "" {
				files[t] = sqliteFile(t)
			}
			return open(t, "sqlite", files[t])
		}
		return lockstest.Harness{
			Driver: func(t *testing.T) driver.Driver {
				return sqllock.New(database(t), sqllock.SQLite, sqllock.Options{}).Apart()
			},
			MinTTL:        3 * time.Second,
			ExpireSession: func(t *testing.T, s driver.Session) { expire(database(t))(t, s) },
		}
	})
}

// flags are those that the store opens its own handle with; clientFoundRows counts differently.
const flags = "?interpolateParams=true&clientFoundRows=true"

func TestMySQLLease(t *testing.T) {
	for _, flags := range []string{flags, ""} {
		t.Run("flags "+flags, func(t *testing.T) {
			lockstest.Run(t, func(t *testing.T) lockstest.Harness {
				dsn := plain(servers.MySQL(t)) + flags
				h := onMySQL(t, dsn, sqllock.Options{})
				h.ExpireSession, h.Brief = expire(open(t, "mysql", dsn)), flags == ""
				if together := h.Driver; flags == "" { // as in other processes: grants are found by polling
					h.Driver = func(t *testing.T) driver.Driver {
						w := together(t).(*wired)
						w.Apart()
						return w
					}
				}
				return h
			})
		})
	}
}

func TestMySQLRow(t *testing.T) {
	lockstest.Run(t, func(t *testing.T) lockstest.Harness {
		dsn := plain(servers.MySQL(t)) + flags
		admin := open(t, "mysql", dsn)
		if _, err := admin.ExecContext(t.Context(), "SET GLOBAL max_connections = 3000"); err != nil {
			t.Fatal(err)
		}
		h := onMySQL(t, dsn, sqllock.Options{Mode: sqllock.Row})
		h.MinTTL = 2 * time.Second // a batch of 150 keys opens as many connections in that time
		h.KeysDieAlone = true
		h.ExpireSession = func(t *testing.T, s driver.Session) { kill(t, admin, s.ID()) }
		return h
	})
}

// kill ends every connection of a session in mode row, first that which stands for it.
func kill(t *testing.T, db *sql.DB, session string) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelReadUncommitted})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	rows, err := tx.QueryContext(t.Context(), `SELECT connection, 0 AS place FROM lockstep_lock_anchors WHERE id = ?
		UNION SELECT connection, 1 FROM lockstep_lock_holds WHERE session_id = ? ORDER BY place`, session, session)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id, place int64
		if err := rows.Scan(&id, &place); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	for _, id := range ids { // none: the session ended by itself
		_, err := db.ExecContext(t.Context(), fmt.Sprintf("KILL CONNECTION %d", id))
		if refused := new(mysql.MySQLError); errors.As(err, &refused) && refused.Number == unknownThread {
			continue // it ended by itself since it was read
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

const unknownThread = 1094 // ER_NO_SUCH_THREAD

// plain is a DSN without its flags.
func plain(dsn string) string {
	for i := range dsn {
		if dsn[i] == '?' {
			return dsn[:i]
		}
	}
	return dsn
}

func TestRowModeOnSQLiteIsRefused(t *testing.T) {
	drv := sqllock.New(open(t, "sqlite", sqliteFile(t)), sqllock.SQLite, sqllock.Options{Mode: sqllock.Row})
	if _, err := drv.Open(t.Context(), driver.Open{Namespace: "n", TTL: time.Second}); err == nil {
		t.Error("opened")
	}
}

// session opens one that ends with the test.
func session(t *testing.T, d driver.Driver, ttl time.Duration) driver.Session {
	t.Helper()
	s, err := d.Open(t.Context(), driver.Open{Namespace: "n", TTL: ttl, Owner: "owner"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// take takes keys that must be free.
func take(t *testing.T, s driver.Session, keys ...string) []driver.Held {
	t.Helper()
	results := lockstest.Acquire(t, s, rand.Text(), keys...)
	var held []driver.Held
	for i, r := range results {
		if r.Token == 0 {
			t.Fatalf("%s is busy: %+v", keys[i], r.Holder)
		}
		held = append(held, driver.Held{Key: keys[i], Token: r.Token})
	}
	return held
}
