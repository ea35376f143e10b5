package mistakes

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// The mistake: a transaction with SELECT … FOR UPDATE is the lock, or GET_LOCK is. The server, a proxy or an operator closes
// its connection, and the row is free. The holder learns that with its next statement, and goes on until then: two work.
//
// Here a lease is a row that belongs to a session, not to a connection: it survives the end of all of them. Mode row is for
// those who want row locks. There the token fences the old holder, and its next renewal tells it.
func TestDeadConnection(t *testing.T) {
	t.Parallel()
	srv := servers.NewMySQL(t)
	db := plainHandle(t, srv.DSN("naive"))
	exec(t, db, `CREATE TABLE naive (k VARCHAR(32) PRIMARY KEY)`, `INSERT INTO naive VALUES ('k')`)
	connection, err := lockRow(t, db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockRow(t, db); err == nil { // after innodb_lock_wait_timeout
		t.Fatal("two transactions hold a row")
	}
	exec(t, db, fmt.Sprintf("KILL CONNECTION %d", connection))
	await.Until(t, "another gets the row, while the first, which has sent nothing, knows nothing", func() bool {
		_, err := lockRow(t, db)
		return err == nil
	})

	named := func() (connection int64, got bool) {
		t.Helper()
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if err := conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID(), GET_LOCK('k', 0)").Scan(&connection, &got); err != nil {
			t.Fatal(err)
		}
		return connection, got
	}
	connection, got := named()
	if _, twice := named(); !got || twice {
		t.Fatal("two connections hold a name, or none")
	}
	exec(t, db, fmt.Sprintf("KILL CONNECTION %d", connection))
	await.Until(t, "another gets the name, while the first, which has sent nothing, knows nothing", func() bool {
		_, got := named()
		return got
	})

	for _, mode := range []sqllock.Mode{sqllock.Lease, sqllock.Row} {
		schema, namespace, ttl := "ours_"+string(mode), rand.Text(), quiet
		if mode == sqllock.Row {
			ttl = 3 * time.Second // it renews after a third of that
		}
		of := func() *locks.Locker {
			return locker(t, sqllock.New(mysqlHandle(t, srv.DSN(schema)), sqllock.MySQL, sqllock.Options{Mode: mode}), namespace, ttl)
		}
		first := get(t, of(), "k")
		for _, id := range connections(t, db, schema) {
			_, _ = db.ExecContext(t.Context(), fmt.Sprintf("KILL CONNECTION %d", id)) // one may have ended by itself
		}
		b := of()
		if mode == sqllock.Lease {
			busy(t, b, "k")
			if err := first.Check(); err != nil {
				t.Error(err)
			}
			continue
		}
		second := get(t, b, "k")
		var r register
		if !r.write(second.Token(), "b") || r.write(first.Token(), "a, which does not know") {
			t.Errorf("the register has %q", r.value)
		}
		await.Until(t, "a renewal tells the first", func() bool { return errors.Is(first.Check(), locks.ErrLost) })
	}
}

// plainHandle is a handle as programs make it, without what sqllock sets.
func plainHandle(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	c.Params = map[string]string{"innodb_lock_wait_timeout": "1"}
	db, err := sql.Open("mysql", c.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// lockRow holds the row until the end of the test.
func lockRow(t *testing.T, db *sql.DB) (connection int64, err error) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	var k string
	err = tx.QueryRowContext(t.Context(), `SELECT CONNECTION_ID(), k FROM naive WHERE k = 'k' FOR UPDATE`).Scan(&connection, &k)
	return connection, err
}

// connections are those to a database. There must be one.
func connections(t *testing.T, db *sql.DB, schema string) (ids []int64) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT id FROM information_schema.processlist WHERE db = ?`, schema)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil || len(ids) == 0 {
		t.Fatalf("connections %v, %v", ids, err)
	}
	return ids
}
