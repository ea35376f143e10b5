package sqllock_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// A connection that is killed frees its keys at once, and its holder learns of it.
func TestRowModeKilledConnection(t *testing.T) {
	t.Parallel()
	db := open(t, "mysql", servers.MySQL(t))
	d := sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row})
	a, b := session(t, d, time.Minute), session(t, d, time.Minute)
	held := take(t, a, "k", "l")
	kill(t, db, a.ID())
	var next driver.Token
	await.Until(t, "the key of a killed connection is free", func() bool {
		got, err := b.TryAcquire(t.Context(), "2", []driver.Want{{Key: "k"}})
		if err != nil {
			t.Fatal(err)
		}
		next = got[0].Token
		return next > 0
	})
	if next <= held[0].Token {
		t.Errorf("token %d after %d", next, held[0].Token)
	}
	if err := lockstest.Renew(t.Context(), a); !errors.Is(err, driver.ErrSessionEnded) {
		t.Errorf("renew: %v, want ErrSessionEnded", err)
	}
	select {
	case <-a.Ended():
	default:
		t.Error("Lost is open")
	}
}

// Only the connection of the evicted key is killed, and its holder can take the key again.
func TestRowModeEvictFreesOneKey(t *testing.T) {
	t.Parallel()
	db := open(t, "mysql", servers.MySQL(t))
	d := sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row})
	a, b := session(t, d, time.Minute), session(t, d, time.Minute)
	held := take(t, a, "k", "l")
	if ok, err := b.Evict(t.Context(), "k", held[0].Token); !ok || err != nil {
		t.Fatal(ok, err)
	}
	again := take(t, a, "k")
	if again[0].Token <= held[0].Token {
		t.Errorf("token %d after %d", again[0].Token, held[0].Token)
	}
	if err := lockstest.Renew(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	still, err := a.Check(t.Context(), []driver.Held{held[0], again[0], held[1]})
	if err != nil || still[0] || !still[1] || !still[2] {
		t.Errorf("check: %v, %v; want the new k and l", still, err)
	}
	if err := errors.Join(a.Close(t.Context()), b.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if n := db.Stats().InUse; n != 0 {
		t.Errorf("%d connections are kept", n)
	}
}

// A handle with no connection left is an error when the context ends, which names its limit, and takes nothing.
func TestRowModeWithoutConnections(t *testing.T) {
	t.Parallel()
	dsn := servers.MySQL(t)
	narrow := open(t, "mysql", dsn)
	narrow.SetMaxOpenConns(2)
	a := session(t, sqllock.New(narrow, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), 10*time.Minute) // longer than the test waits
	b := session(t, sqllock.New(open(t, "mysql", dsn), sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), time.Minute)
	for what, wants := range map[string][]driver.Want{
		"one connection stands for the session, one for the key, and none is left to mint": {{Key: "k"}},
		"one connection stands for the session, one for a key, and none for the other":     {{Key: "k"}, {Key: "l"}},
	} {
		ctx, cancel := contextFor(t, 300*time.Millisecond)
		if got, err := a.TryAcquire(ctx, "1", wants); err == nil {
			t.Fatalf("%+v, want an error: %s", got, what)
		} else if !strings.Contains(err.Error(), "all 2 connections that the handle may open are in use") || !strings.Contains(err.Error(), "SetMaxOpenConns") {
			t.Errorf("%v; want the limit, and what to set", err)
		}
		cancel()
		if err := lockstest.Renew(t.Context(), a); err != nil {
			t.Errorf("renew: %v", err)
		}
		for _, w := range wants {
			var held driver.Held
			await.Until(t, w.Key+" is free", func() bool {
				got, err := b.TryAcquire(t.Context(), "2", []driver.Want{w})
				if err != nil || got[0].Token == 0 {
					return false
				}
				held = driver.Held{Key: w.Key, Token: got[0].Token}
				return true
			})
			if err := b.Release(t.Context(), []driver.Held{held}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A session that has locked a row and not written its name blocks that key alone, and not for long.
func TestRowModeNamelessHolder(t *testing.T) {
	t.Parallel()
	db := open(t, "mysql", servers.MySQL(t))
	a := session(t, sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), time.Minute)
	insertRow(t, db)
	other := begin(t, db, `SELECT name FROM lockstep_lock_rows WHERE namespace = 'n' AND name = 'k' FOR UPDATE`)
	ctx, cancel := contextFor(t, 10*time.Second)
	defer cancel()
	got, err := a.TryAcquire(ctx, "1", []driver.Want{{Key: "j"}, {Key: "k"}})
	if err != nil || got[0].Token == 0 || got[1].Holder == nil || got[1].Holder.Key != "k" {
		t.Fatalf("%+v, %v: want j granted and k busy", got, err)
	}
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	take(t, a, "k")
}

// The row of a free key is not changed by locks of the same name in another namespace.
func TestRowModeFreeRowOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	db := open(t, "mysql", servers.MySQL(t))
	d := sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row})
	s := session(t, d, time.Minute)
	in := func(namespace string) driver.Session {
		t.Helper()
		s, err := d.Open(t.Context(), driver.Open{Namespace: namespace, TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close(context.Background()) })
		return s
	}
	other := in("other")
	insertRow(t, db)
	theirs := take(t, other, "k")
	if err := in("other").Close(t.Context()); err != nil { // both sweep what is free, and wait for no holder
		t.Error(err)
	}
	held := take(t, s, "k")
	if err := other.Release(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	take(t, other, "k")
	if still, err := s.Check(t.Context(), held); err != nil || !still[0] {
		t.Errorf("check: %v, %v", still, err)
	}
}

// A row that another session inserts and locks between a read and an insert must not be waited for.
func TestRowModeNewHolder(t *testing.T) {
	t.Parallel()
	db := open(t, "mysql", servers.MySQL(t))
	a := session(t, sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: sqllock.Row}), time.Minute)
	mark := begin(t, db, `SELECT token FROM lockstep_lock_marks WHERE namespace = 'n' FOR UPDATE`)
	var got []driver.Result
	var err error
	var all sync.WaitGroup
	all.Go(func() {
		ctx, cancel := contextFor(t, 10*time.Second)
		defer cancel()
		got, err = a.TryAcquire(ctx, "1", []driver.Want{{Key: "k"}})
	})
	running(t, db, "SELECT namespace FROM lockstep_lock_marks%FOR UPDATE")
	insertRow(t, db)
	begin(t, db, `SELECT name FROM lockstep_lock_rows WHERE namespace = 'n' AND name = 'k' FOR UPDATE`,
		`INSERT INTO lockstep_lock_holds VALUES (7, 'n', 'k', 'other', '', '', '', 0, 0)`)
	if err := mark.Rollback(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if err != nil || got[0].Holder == nil || got[0].Holder.Token != 7 {
		t.Errorf("%+v, %v: want it held by the other", got, err)
	}
}

func insertRow(t *testing.T, db *sql.DB) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), `INSERT INTO lockstep_lock_rows VALUES ('n', 'k')`); err != nil {
		t.Fatal(err)
	}
}

// begin runs statements in a transaction that is open until the test ends.
func begin(t *testing.T, db *sql.DB, statements ...string) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	for _, statement := range statements {
		if _, err := tx.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return tx
}
