package sqllock_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "modernc.org/sqlite"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

func open(t *testing.T, driverName, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driverName, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func sqliteFile(t *testing.T) string {
	return "file:" + filepath.Join(t.TempDir(), "locks.db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate"
}

// expire makes the server end a lease session now, as it would after its ttl.
func expire(db *sql.DB) func(*testing.T, driver.Session) {
	return func(t *testing.T, s driver.Session) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), "UPDATE lockstep_lock_sessions SET expires_at = 1 WHERE id = ?", s.ID()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSQLite(t *testing.T) {
	lockstest.Run(t, func(t *testing.T) lockstest.Harness {
		file := sqliteFile(t)
		return lockstest.Harness{
			Driver: func(t *testing.T) driver.Driver {
				return sqllock.New(open(t, "sqlite", file), sqllock.SQLite, sqllock.Options{})
			},
			ExpireSession: expire(open(t, "sqlite", file)),
		}
	})
}

func TestMySQLLease(t *testing.T) {
	for _, flags := range []string{"?interpolateParams=true&clientFoundRows=true", ""} {
		t.Run("flags "+flags, func(t *testing.T) {
			lockstest.Run(t, func(t *testing.T) lockstest.Harness {
				dsn := plain(servers.MySQL(t)) + flags
				return lockstest.Harness{
					Driver: func(t *testing.T) driver.Driver {
						return sqllock.New(open(t, "mysql", dsn), sqllock.MySQL, sqllock.Options{})
					},
					ExpireSession: expire(open(t, "mysql", dsn)),
				}
			})
		})
	}
}

func TestMySQLRow(t *testing.T) {
	lockstest.Run(t, func(t *testing.T) lockstest.Harness {
		dsn := servers.MySQL(t)
		admin := open(t, "mysql", dsn)
		return lockstest.Harness{
			Driver: func(t *testing.T) driver.Driver {
				return sqllock.New(open(t, "mysql", dsn), sqllock.MySQL, sqllock.Options{Mode: sqllock.Row})
			},
			ExpireSession: func(t *testing.T, s driver.Session) { kill(t, admin, s.ID()) },
		}
	})
}

// kill ends every connection on which a session holds a lock.
func kill(t *testing.T, db *sql.DB, session string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT DISTINCT connection FROM lockstep_lock_holders WHERE session_id = ?", session)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	for _, id := range ids {
		if _, err := db.ExecContext(t.Context(), fmt.Sprintf("KILL CONNECTION %d", id)); err != nil {
			t.Fatal(err)
		}
	}
}

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

// Batches of many workers over the same keys, in one order, never deadlock, and nobody shares.
func TestBatchesDoNotDeadlock(t *testing.T) {
	for _, mode := range []sqllock.Mode{sqllock.Lease, sqllock.Row} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			dsn := servers.MySQL(t)
			var all []string
			for i := range 60 {
				all = append(all, fmt.Sprintf("key-%02d", i))
			}
			var mu sync.Mutex
			holder := map[string]int{}
			var wg sync.WaitGroup
			for w := range 16 {
				wg.Go(func() {
					db, err := sql.Open("mysql", dsn)
					if err != nil {
						t.Error(err)
						return
					}
					defer db.Close()
					s, err := sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: mode}).Open(t.Context(), driver.Open{Namespace: "n", TTL: 20 * time.Second})
					if err != nil {
						t.Error(err)
						return
					}
					defer s.Close(t.Context())
					rnd := rand.New(rand.NewPCG(uint64(w), 1))
					for round := range 10 {
						pick := slices.Clone(all)
						rnd.Shuffle(len(pick), func(i, j int) { pick[i], pick[j] = pick[j], pick[i] })
						pick = pick[:12]
						slices.Sort(pick)
						var wants []driver.Want
						for _, key := range pick {
							wants = append(wants, driver.Want{Key: key})
						}
						results, err := s.TryAcquire(t.Context(), fmt.Sprint(w, "-", round), wants)
						if err != nil {
							t.Errorf("worker %d, round %d: %v", w, round, err)
							return
						}
						var held []driver.Held
						mu.Lock()
						for i, r := range results {
							if r.Token == 0 {
								continue
							}
							held = append(held, driver.Held{Key: pick[i], Token: r.Token})
							if other, taken := holder[pick[i]]; taken {
								t.Errorf("%s is held by %d and %d", pick[i], other, w)
							}
							holder[pick[i]] = w
						}
						mu.Unlock()
						mu.Lock()
						for _, h := range held {
							delete(holder, h.Key)
						}
						mu.Unlock()
						if err := s.Release(t.Context(), held); err != nil {
							t.Errorf("worker %d, round %d: release: %v", w, round, err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// A connection that is killed frees its keys at once, and its holder learns of it.
func TestRowModeKilledConnection(t *testing.T) {
	dsn := servers.MySQL(t)
	session := func() driver.Session {
		s, err := sqllock.New(open(t, "mysql", dsn), sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}).Open(t.Context(), driver.Open{Namespace: "n", TTL: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close(t.Context()) })
		return s
	}
	a, b := session(), session()
	first, err := a.TryAcquire(t.Context(), "1", []driver.Want{{Key: "k"}, {Key: "l"}})
	if err != nil || first[0].Token == 0 || first[1].Token == 0 {
		t.Fatal(first, err)
	}
	kill(t, open(t, "mysql", dsn), a.ID())
	deadline := time.Now().Add(5 * time.Second)
	for {
		got, err := b.TryAcquire(t.Context(), "2", []driver.Want{{Key: "k"}})
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Token > 0 {
			if got[0].Token <= first[0].Token {
				t.Errorf("token %d after %d", got[0].Token, first[0].Token)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the key of a killed connection is still busy")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := a.Renew(t.Context()); err == nil {
		t.Error("the holder renews a session whose connection was killed")
	}
	select {
	case <-a.Lost():
	default:
		t.Error("Lost is open")
	}
}
