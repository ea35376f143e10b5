package sqllock_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// An account with the least rights, a password, TLS and a certificate has all that it needs. It runs beside
// no other test: each key of mode row costs a handshake.
func TestMySQLSecured(t *testing.T) {
	a := servers.NewAuthority(t)
	srv := servers.NewSecureMySQL(t, servers.Secure{Authority: a}, "--max-connections=3000")
	srv.Exec("CREATE USER locks@'%' IDENTIFIED BY 'secret' REQUIRE X509")
	for _, mode := range []sqllock.Mode{sqllock.Lease, sqllock.Row} {
		t.Run(string(mode), func(t *testing.T) {
			lockstest.Run(t, func(t *testing.T) lockstest.Harness {
				name := "locks_" + string(mode)
				admin := open(t, "mysql", srv.DSN(name))
				srv.Exec("GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON " + name + ".* TO locks@'%'") // as docs/backends.md says
				c, err := mysql.ParseDSN(srv.DSNAs("locks", "secret", name) + flags)
				if err != nil {
					t.Fatal(err)
				}
				c.TLS, c.Logger = a.TLS(a.Client("replica")), &mysql.NopLogger{}
				h := lockstest.Harness{
					Driver: func(t *testing.T) driver.Driver {
						connector, err := mysql.NewConnector(c)
						if err != nil {
							t.Fatal(err)
						}
						db := sql.OpenDB(connector)
						db.SetMaxIdleConns(16)
						t.Cleanup(func() { db.Close() })
						return sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: mode})
					},
					KeysDieAlone: mode == sqllock.Row,
					Brief:        true,
				}
				if mode == sqllock.Lease {
					h.ExpireSession = expire(admin)
				} else {
					h.MinTTL = 6 * time.Second // as many handshakes as a batch has keys are made in that time
				}
				return h
			})
		})
	}
}
