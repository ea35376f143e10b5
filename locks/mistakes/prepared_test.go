package mistakes

import (
	"crypto/rand"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// The mistake: the lock is a row of a distributed transaction (XA). Its coordinator dies after PREPARE, before it decides. The
// prepared branch outlives its connection, and a restart of the server, and holds the row until somebody finds it.
//
// Here the lock is beside the transaction: it belongs to the session of a process and ends with it. Who gets it next finds the
// branch that was left (XA RECOVER) and decides it.
func TestFailedDistributedTransaction(t *testing.T) {
	t.Parallel()
	srv := servers.NewMySQL(t)
	db := plainHandle(t, srv.DSN("naive"))
	exec(t, db, `CREATE TABLE naive (k VARCHAR(32) PRIMARY KEY)`, `INSERT INTO naive VALUES ('k')`)
	namespace := rand.Text()
	ours := func() *sqllock.Driver {
		return sqllock.New(mysqlHandle(t, srv.DSN("ours")), sqllock.MySQL, sqllock.Options{})
	}

	crashed(t, ours(), namespace, "k")
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	exec(t, conn, `XA START 'work'`, `UPDATE naive SET k = 'k2' WHERE k = 'k'`, `XA END 'work'`, `XA PREPARE 'work'`)
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // the coordinator dies: its connection is closed

	get(t, locker(t, ours(), namespace, quiet), "k") // waits for the end of the dead session, here 1 s

	refused := new(mysql.MySQLError)
	if _, err := lockRow(t, db); !errors.As(err, &refused) || refused.Number != waitTimeout {
		t.Errorf("%v: the naive lock is free, so this test shows nothing", err)
	}
	exec(t, db, `XA ROLLBACK 'work'`) // as the next holder does
	if _, err := lockRow(t, db); err != nil {
		t.Error(err)
	}
}

const waitTimeout = 1205 // ER_LOCK_WAIT_TIMEOUT
