package sqllock_test

import (
	"database/sql"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
)

// wired is a driver whose client can be cut off.
type wired struct {
	*sqllock.Driver
	lockstest.Wires
}

// onMySQL is a harness that gives each client connections of its own, which can be cut.
func onMySQL(t *testing.T, dsn string, o sqllock.Options) lockstest.Harness {
	t.Helper()
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return lockstest.Harness{
		Driver: func(t *testing.T) driver.Driver {
			w, c := &wired{}, c.Clone()
			c.DialFunc = w.Dial
			connector, err := mysql.NewConnector(c)
			if err != nil {
				t.Fatal(err)
			}
			db := sql.OpenDB(connector)
			db.SetMaxIdleConns(16)
			t.Cleanup(func() { db.Close() })
			w.Driver = sqllock.New(db, sqllock.MySQL, o)
			return w
		},
		Disconnect: func(_ *testing.T, d driver.Driver) { d.(*wired).Cut() },
		Reconnect:  func(_ *testing.T, d driver.Driver) { d.(*wired).Mend() },
	}
}
