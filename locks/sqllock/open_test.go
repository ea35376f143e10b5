package sqllock_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// A process that froze while it took a key has the row that all tokens of the namespace come from.
// The server ends its transaction long before it continues.
func TestAFrozenHolderBlocksNoSession(t *testing.T) {
	t.Parallel()
	dsn := servers.MySQL(t)
	db, frozen := opened(t, dsn), opened(t, dsn)
	s := session(t, sqllock.New(db, sqllock.MySQL, sqllock.Options{}), time.Minute)
	tx, err := frozen.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), `UPDATE lockstep_lock_marks SET token = token + 1 WHERE namespace = 'n'`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if got, err := s.TryAcquire(ctx, "1", []driver.Want{{Key: "k"}}); err != nil || got[0].Token == 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := tx.Commit(); err == nil {
		t.Error("the frozen transaction was committed after all")
	}
}

// The handle's limit for idle transactions does not apply to those that hold a key of mode row.
func TestRowModeOutlivesIdleTransactions(t *testing.T) {
	t.Parallel()
	db := opened(t, servers.MySQL(t))
	s := session(t, sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), time.Minute)
	held := take(t, s, "k")
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var other int64
	if err := tx.QueryRowContext(t.Context(), `SELECT CONNECTION_ID()`).Scan(&other); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the server has ended an idle transaction that is younger", func() bool {
		n := 0
		err := db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM information_schema.processlist WHERE id = ?`, other).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
	if still, err := s.Check(t.Context(), held); err != nil || !still[0] {
		t.Errorf("held: %v, %v", still, err)
	}
}

func TestOpenRefusesABrokenDSN(t *testing.T) {
	t.Parallel()
	_, err := sqllock.Open("root:secret@tcp(127.0.0.1:3306", nil)
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

func opened(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sqllock.Open(dsn, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// A database that has the tables of the first edition gets those of this one beside them, and tokens grow on.
func TestTablesOfTheFirstEdition(t *testing.T) {
	t.Parallel()
	for dialect, db := range map[sqllock.Dialect]*sql.DB{
		sqllock.SQLite: open(t, "sqlite", sqliteFile(t)), sqllock.MySQL: open(t, "mysql", servers.MySQL(t)),
	} {
		high := time.Now().Add(time.Hour).UnixMicro()
		for _, statement := range []string{
			`CREATE TABLE lockstep_lock_marks (namespace VARBINARY(200) NOT NULL PRIMARY KEY, token BIGINT NOT NULL)`,
			`CREATE TABLE lockstep_lock_sessions (id VARBINARY(200) NOT NULL PRIMARY KEY, namespace VARBINARY(200) NOT NULL, expires_at BIGINT NOT NULL, dead BIGINT NOT NULL)`,
			`CREATE TABLE lockstep_lock_leases (namespace VARBINARY(200) NOT NULL, name VARBINARY(200) NOT NULL, token BIGINT NOT NULL, session_id VARBINARY(200) NOT NULL,
				acquisition VARBINARY(200) NOT NULL, owner VARBINARY(512) NOT NULL, meta VARBINARY(512) NOT NULL, since BIGINT NOT NULL, PRIMARY KEY (namespace, name))`,
			fmt.Sprintf(`INSERT INTO lockstep_lock_marks VALUES ('n', %d)`, high),
			fmt.Sprintf(`INSERT INTO lockstep_lock_sessions VALUES ('s', 'n', %d, 0)`, high),
			`INSERT INTO lockstep_lock_leases VALUES ('n', 'k', 1, 's', 'a', '', '', 1)`,
		} {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		held := take(t, session(t, sqllock.New(db, dialect, sqllock.Options{}), time.Minute), "k")
		if int64(held[0].Token) <= high {
			t.Errorf("%s: token %d after %d", dialect, held[0].Token, high)
		}
		old := 0
		if err := db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM lockstep_lock_leases`).Scan(&old); err != nil || old != 1 {
			t.Errorf("%s: %d rows of the first edition, %v", dialect, old, err)
		}
	}
}
