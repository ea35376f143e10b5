package sqllock

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Between the read of a session and its expiry, the session may be renewed: then it stays, with the keys that it
// holds and its time.
func TestASessionRenewedInTimeIsNotExpired(t *testing.T) {
	for dialect, dsn := range map[Dialect]func(testing.TB) string{
		SQLite: func(t testing.TB) string {
			return "file:" + filepath.Join(t.TempDir(), "locks.db") + "?_txlock=immediate"
		},
		MySQL: servers.MySQL,
	} {
		t.Run(string(dialect), func(t *testing.T) {
			db, err := sql.Open(string(dialect), dsn(t))
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			d := New(db, dialect, Options{})
			open := func() *leaseSession {
				s, err := d.Open(t.Context(), driver.Open{Namespace: "n", TTL: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				return s.(*leaseSession)
			}
			a, b := open(), open()
			got, err := a.TryAcquire(t.Context(), "1", []driver.Want{{Key: "k"}})
			if err != nil || got[0].Token == 0 {
				t.Fatal(got, err)
			}
			expiry := func() (at int64) {
				if err := db.QueryRowContext(t.Context(), `SELECT expires_at FROM lockstep_lock_sessions2 WHERE id = ?`, a.ID()).Scan(&at); err != nil {
					t.Fatal(err)
				}
				return at
			}
			before := expiry()
			for what, seen := range map[string]time.Duration{"expired": 0, "too long": time.Hour} {
				saw := &part{info: driver.Info{Session: a.ID(), Remaining: seen}, ttl: a.TTL()}
				err := b.change(t.Context(), 1, func(c *change) error {
					_, err := b.pullIn(c.t, []*part{saw})
					return errors.Join(err, c.end([]*part{saw}))
				})
				if err != nil || !saw.live() {
					t.Fatal(saw, err)
				}
				if err := b.wipe(t.Context(), a.ID()); err != nil {
					t.Fatal(err)
				}
				if after := expiry(); after != before {
					t.Errorf("seen as %s: it ends %v later", what, time.Duration(after-before)*time.Microsecond)
				}
				still, err := a.Check(t.Context(), []driver.Held{{Key: "k", Token: got[0].Token}})
				if err != nil || !still[0] {
					t.Errorf("seen as %s: it holds its key: %v, %v", what, still, err)
				}
				if _, err := a.Renew(t.Context(), nil); err != nil {
					t.Errorf("seen as %s: %v", what, err)
				}
				before = expiry()
			}
		})
	}
}
