package sqllock_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
)

// Invalid arguments of a driver are reported by the first call that returns an error, without a server.
func TestWhatItIsMadeOf(t *testing.T) {
	lite, my := open(t, "sqlite", sqliteFile(t)), open(t, "mysql", "root@tcp(127.0.0.1:1)/test")
	for want, drv := range map[string]*sqllock.Driver{
		"locks: sqllock: New: the handle is nil":                                                           sqllock.New(nil, sqllock.MySQL, sqllock.Options{}),
		`locks: sqllock: dialect "oracle" is neither "mysql" nor "sqlite"`:                                 sqllock.New(new(sql.DB), "oracle", sqllock.Options{}),
		"locks: sqllock: SQLite locks whole files, not rows; use mode lease":                               sqllock.New(new(sql.DB), sqllock.SQLite, sqllock.Options{Mode: sqllock.Row}),
		`locks: sqllock: table prefix "A-": only a-z, 0-9 and _, at most 32`:                               sqllock.New(new(sql.DB), sqllock.MySQL, sqllock.Options{TablePrefix: "A-"}),
		`locks: sqllock: dialect "mysql": the handle is of another one, its driver is *sqlite.Driver`:      sqllock.New(lite, sqllock.MySQL, sqllock.Options{}),
		`locks: sqllock: dialect "sqlite": the handle is of another one, its driver is *mysql.MySQLDriver`: sqllock.New(my, sqllock.SQLite, sqllock.Options{}),
	} {
		if _, err := locks.New(drv, locks.Options{}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if _, err := drv.Open(t.Context(), driver.Open{Namespace: "n", TTL: time.Second}); err == nil {
			t.Error("opened")
		}
	}
}
