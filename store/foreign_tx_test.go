package store_test

import (
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// A transaction on a database that has tables of another store is refused, whenever this store learned which one it is.
func TestTransactionsOfOtherStoresAreRefused(t *testing.T) {
	pools := map[string]jobs.Pool{"p": {}}
	for _, d := range []store.Dialect{store.SQLite, store.MySQL} {
		t.Run(string(d), func(t *testing.T) {
			var handles []*sql.DB
			for range 2 {
				dsn := "file://" + (&url.URL{Path: filepath.Join(t.TempDir(), "own.db")}).EscapedPath() + "?_txlock=immediate&" + durable
				if d == store.MySQL {
					dsn = servers.MySQL(t)
				}
				db, err := sql.Open(string(d), dsn)
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				handles = append(handles, db)
			}
			early, err := store.New(handles[0], d, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			made, err := store.New(handles[0], d, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			other, err := store.New(handles[1], d, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(made.Migrate(t.Context()), made.AddPools(t.Context(), pools), early.CheckSchema(t.Context()),
				other.Migrate(t.Context()), other.AddPools(t.Context(), pools)); err != nil {
				t.Fatal(err)
			}
			late, err := store.New(handles[0], d, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for name, s := range map[string]*store.Store{"by Migrate": made, "by CheckSchema": early, "by New": late} {
				for i, db := range handles {
					for _, pool := range []string{"p", "none"} {
						tx, err := db.BeginTx(t.Context(), nil)
						if err != nil {
							t.Fatal(err)
						}
						_, err = s.EnqueueTx(t.Context(), tx, jobs.NewTask{Pool: pool})
						if ended := tx.Commit(); ended != nil {
							t.Fatal(ended)
						}
						switch {
						case i == 1:
							if !errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), "on the database of another store") {
								t.Errorf("%s, of pool %s in another one: %v", name, pool, err)
							}
						case pool == "none":
							if !errors.Is(err, jobs.ErrNotFound) {
								t.Errorf("%s, of pool %s: %v", name, pool, err)
							}
						case err != nil:
							t.Errorf("%s: %v", name, err)
						}
					}
				}
			}
			var n int
			if err := handles[1].QueryRowContext(t.Context(), `SELECT COUNT(*) FROM lockstep_tasks`).Scan(&n); err != nil || n != 0 {
				t.Errorf("the other store has %d tasks, %v", n, err)
			}

			// Tables that are created again are another store; a Store that has read the old one goes on.
			if _, err := handles[0].ExecContext(t.Context(), `UPDATE lockstep_meta SET value = 'new' WHERE name = 'namespace'`); err != nil {
				t.Fatal(err)
			}
			tx, err := handles[0].BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback() //nolint:errcheck // it is all that is to be done
			if _, err := late.EnqueueTx(t.Context(), tx, jobs.NewTask{Pool: "p"}); err != nil {
				t.Errorf("after the tables were made anew: %v", err)
			}
		})
	}
}

// Handles that were not opened are refused; at their first statement they would panic.
func TestZeroHandlesAreRefused(t *testing.T) {
	for _, d := range []store.Dialect{store.SQLite, store.MySQL} {
		for _, handle := range []any{&gorm.DB{}, &sql.DB{}, &gorm.DB{Config: &gorm.Config{ConnPool: &sql.DB{}}}} {
			if _, err := store.New(handle, d, store.Options{}); err == nil || !strings.Contains(err.Error(), "was not made by") {
				t.Errorf("%s: %T: %v", d, handle, err)
			}
		}
	}
	s, err := store.New(lite(t, durable), store.SQLite, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.EnqueueTx(t.Context(), &gorm.DB{}, jobs.NewTask{Pool: "p"}); !errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), "gorm.Open") {
		t.Errorf("EnqueueTx: %v", err)
	}
}
