package mistakes

import (
	"context"
	"crypto/rand"
	"database/sql"
	"testing"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// The mistake: the lock is released inside of the transaction that it guards, as by a deferred unlock in a function that runs
// within a transaction of its caller. The next one acquires the lock, reads what was there before the COMMIT, and its write
// undoes the first one's.
//
// Here the transaction is begun and committed while the lock is held: Do around it. A lock in the database would not help: it
// is the order of release and COMMIT that decides.
func TestReleaseBeforeCommit(t *testing.T) {
	t.Parallel()
	db := mysqlHandle(t, servers.MySQL(t))
	exec(t, db, `CREATE TABLE account (balance INT NOT NULL)`, `INSERT INTO account VALUES (200)`)
	begin := func() *sql.Tx {
		t.Helper()
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	read := func(q interface {
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}) (balance int) {
		t.Helper()
		if err := q.QueryRowContext(t.Context(), `SELECT balance FROM account`).Scan(&balance); err != nil {
			t.Fatal(err)
		}
		return balance
	}
	write := func(tx *sql.Tx, balance int) {
		t.Helper()
		if _, err := tx.ExecContext(t.Context(), `UPDATE account SET balance = ?`, balance); err != nil {
			t.Fatal(err)
		}
	}
	commit := func(tx *sql.Tx) {
		t.Helper()
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	namespace := rand.Text()
	a, b := locker(t, onRedis(t), namespace, quiet), locker(t, onRedis(t), namespace, quiet)

	lease, one := get(t, a, "account"), begin()
	write(one, read(one)+100)
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	next, two := get(t, b, "account"), begin()
	seen := read(two)
	commit(one)
	write(two, seen+100)
	commit(two)
	if err := next.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if read(db) != 300 {
		t.Errorf("%d are left after two deposits of 100 to 200: this test shows nothing", read(db))
	}

	exec(t, db, `UPDATE account SET balance = 200`)
	deposit := func(l *locks.Locker, meanwhile func()) {
		t.Helper()
		err := locks.Do(t.Context(), l, locks.Request{Key: "account"}, func(context.Context, locks.Token) error {
			tx := begin()
			write(tx, read(tx)+100)
			meanwhile()
			return tx.Commit()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	deposit(a, func() { busy(t, b, "account") })
	deposit(b, func() {})
	if read(db) != 400 {
		t.Errorf("%d after two deposits of 100 to 200", read(db))
	}
}
