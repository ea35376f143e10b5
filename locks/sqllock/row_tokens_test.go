package sqllock_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// moveCounter makes the server give tokens of mode row that are larger than last.
func moveCounter(t *testing.T, db *sql.DB, last int64) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), `INSERT INTO lockstep_lock_holds VALUES (?, '', '', '', '', '', '', 0, 0)`, last); err != nil {
		t.Fatal(err)
	}
}

// mark is the highest token of the namespace, as it was committed.
func mark(t *testing.T, db *sql.DB) (token driver.Token) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), `SELECT token FROM lockstep_lock_marks WHERE namespace = 'n'`).Scan(&token); err != nil {
		t.Fatal(err)
	}
	return token
}

// The committed mark is ahead of every token that was granted, also where the session that grants did not raise it.
func TestRowModeTokensAreBelowTheMark(t *testing.T) {
	t.Parallel()
	db := open(t, "mysql", servers.MySQL(t))
	d := sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row})
	a, b := session(t, d, time.Minute), session(t, d, time.Minute)
	last := driver.Token(0)
	for i, beyond := range []driver.Token{0, 1, 50_000, 0} {
		if beyond > 0 {
			moveCounter(t, db, int64(mark(t, db)+beyond-2))
		}
		for _, s := range []driver.Session{a, b} {
			held := take(t, s, "k")
			if held[0].Token <= last || held[0].Token >= mark(t, db) {
				t.Errorf("%d: token %d after %d, and the mark is %d", i, held[0].Token, last, mark(t, db))
			}
			last = held[0].Token
			if err := s.Release(t.Context(), held); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A server that crashed, and begins with smaller numbers, grants larger tokens than before: the first session moves its counter
// to the mark.
func TestRowModeTokensGrowAfterACrash(t *testing.T) {
	t.Parallel()
	server := servers.NewMySQL(t)
	dsn := server.DSN("locks")
	db := open(t, "mysql", dsn)
	d := sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row})
	before := take(t, session(t, d, time.Minute), "k")
	server.Kill()
	server.Start()
	if _, err := db.ExecContext(t.Context(), `TRUNCATE TABLE lockstep_lock_holds`); err != nil { // as if none of its counter had been written
		t.Fatal(err)
	}
	after := take(t, session(t, d, time.Minute), "k")
	if after[0].Token <= before[0].Token {
		t.Errorf("token %d after %d", after[0].Token, before[0].Token)
	}
}

// A counter that was set back by hand ends the session that meets it, and the next one grants larger tokens again.
func TestRowModeCounterThatWasSetBack(t *testing.T) {
	t.Parallel()
	db := open(t, "mysql", servers.MySQL(t))
	d := sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row})
	s := session(t, d, time.Minute)
	before := take(t, s, "k")
	if err := s.Release(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil { // a connection that was used has the table open
		t.Fatal(err)
	}
	s = session(t, d, time.Minute)
	if _, err := db.ExecContext(t.Context(), `TRUNCATE TABLE lockstep_lock_holds`); err != nil {
		t.Fatal(err)
	}
	if got, err := s.TryAcquire(t.Context(), "1", []driver.Want{{Key: "k"}}); err == nil {
		t.Errorf("%+v, want an error", got)
	}
	select {
	case <-s.Ended():
	default:
		t.Error("the session goes on")
	}
	if after := take(t, session(t, d, time.Minute), "k"); after[0].Token <= before[0].Token {
		t.Errorf("token %d after %d", after[0].Token, before[0].Token)
	}
}
