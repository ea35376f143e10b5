package store_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gosql "github.com/go-sql-driver/mysql"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/store/storetest"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestSQLiteRefusesPaths(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("this is certainly not a database, and long enough to look like one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "turns.db-turn"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for path, want := range map[string]string{
		dir:                                "folder",
		"":                                 "no path",
		filepath.Join(dir, "none", "a.db"): "no such file",
		filepath.Join(file, "a.db"):        file + " is not a folder",
		"turns.db":                         "cannot be written",
		"file:x.db":                        "plain path",
		"x.db?mode=ro":                     "plain path",
		file:                               "this file is not a database of SQLite",
		"/proc/a.db":                       "",
		os.DevNull:                         "not a regular file",
	} {
		_, err := store.Open(t.Context(), "sqlite", path, store.Options{})
		if err == nil || !strings.HasPrefix(err.Error(), "store: sqlite "+path+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
}

func TestOpenLeavesNothingElse(t *testing.T) {
	dir := t.TempDir()
	s := open(t, store.SQLite, filepath.Join(dir, "a.db"), store.Options{})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); name != "a.db" && name != "a.db-wal" && name != "a.db-shm" && name != "a.db-turn" {
			t.Errorf("%s was written", name)
		}
	}
}

func TestMemory(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	s := open(t, store.SQLite, ":memory:", store.Options{})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	session, err := s.Sides().Replica.Join(t.Context(), storetest.Member("a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sides().Replica.Beat(t.Context(), session); err != nil {
		t.Error(err)
	}
	if peers, err := s.Sides().Replica.Peers(t.Context()); err != nil || len(peers) != 1 {
		t.Errorf("%+v %v", peers, err)
	}
	if o, err := s.Sides().API.Overview(t.Context(), 1); err != nil || o.At.IsZero() {
		t.Errorf("%+v %v", o, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("files %v: %v", files, err)
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel() // it waits
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // accepts, and never answers
	silent := l.Addr().String()
	refused := "127.0.0.1:1"
	var all sync.WaitGroup
	for _, address := range []string{silent, refused} {
		all.Go(func() {
			start := time.Now()
			_, err := store.Open(context.Background(), "mysql", "root@tcp("+address+")/db", store.Options{})
			if err == nil || !strings.Contains(err.Error(), address) {
				t.Errorf("%s: %v", address, err)
			}
			if d := time.Since(start); d > 10*time.Second {
				t.Errorf("%s took %s", address, d)
			}
			t.Log(err)
		})
	}
	all.Wait()
}

// A dial is given up after what the DSN says of it, and after 5 s where it says nothing; where each is refused, New and Open end
// within 6 s.
func TestDialsAreBounded(t *testing.T) {
	var patience time.Duration
	gosql.RegisterDialContext("refusing", func(ctx context.Context, _ string) (net.Conn, error) {
		deadline, _ := ctx.Deadline()
		patience = max(patience, time.Until(deadline))
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	})
	t.Cleanup(func() { gosql.DeregisterDialContext("refusing") })
	for flags, want := range map[string]time.Duration{"": 5 * time.Second, "?timeout=2s": 2 * time.Second, "?readTimeout=1s": 5 * time.Second} {
		dsn := "root@refusing(there)/db" + flags
		for how, open := range map[string]func(t *testing.T) error{
			"Open": func(t *testing.T) error { _, err := store.Open(t.Context(), "mysql", dsn, store.Options{}); return err },
			"New": func(*testing.T) error {
				db, err := sql.Open("mysql", dsn)
				if err != nil {
					return err
				}
				defer db.Close()
				_, err = store.New(db, store.MySQL, store.Options{})
				return err
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				patience = 0
				began := time.Now()
				if err := open(t); !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "connection refused") {
					t.Errorf("%s: %v", how, err)
				}
				if took := time.Since(began); took > 6*time.Second {
					t.Errorf("%s took %v", how, took)
				}
				if how == "Open" && patience != want {
					t.Errorf("with the flags %q a dial may take %v, want %v", flags, patience, want)
				}
			})
		}
	}
}

func TestOpenRefusesDSNs(t *testing.T) {
	for dsn, want := range map[string]string{
		"nonsense":                    "DSN",
		"root:secret@tcp(127.0.0.1)/": "names no database",
	} {
		_, err := store.Open(t.Context(), "mysql", dsn, store.Options{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", dsn, err)
		}
	}
	if _, err := store.Open(t.Context(), "postgres", "x", store.Options{}); err == nil || !strings.Contains(err.Error(), "postgres") {
		t.Error(err)
	}
	t.Chdir(t.TempDir())
	for _, path := range []string{"a.db", ":memory:"} {
		_, err := store.Open(t.Context(), "sqlite", path, store.Options{Prefix: "a-b"})
		if err == nil || !strings.Contains(err.Error(), "prefix") || !strings.HasSuffix(err.Error(), " (sqlite "+path+")") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestNewRefusesHandles(t *testing.T) {
	lite := openRaw(t, store.SQLite, filepath.Join(t.TempDir(), "a.db"))
	if _, err := store.New(lite, store.SQLite, store.Options{}); err == nil || !strings.Contains(err.Error(), "journal_mode") {
		t.Errorf("a handle without WAL: %v", err)
	}
	if _, err := store.New(lite, store.MySQL, store.Options{}); err == nil {
		t.Error("SQLite was taken for MySQL")
	}
	if _, err := store.New("dsn", store.MySQL, store.Options{}); err == nil {
		t.Error("a string was taken for a handle")
	}
	dsn := servers.MySQL(t)
	for flag, want := range map[string]string{
		"sql_mode=''":  "sql_mode",
		"autocommit=0": "autocommit",
	} {
		sep := "?"
		if strings.Contains(dsn, "?") {
			sep = "&"
		}
		db := openRaw(t, store.MySQL, dsn+sep+strings.ReplaceAll(flag, "'", "%27"))
		if _, err := store.New(db, store.MySQL, store.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

// A program's own gorm handle, and gorm's transaction for EnqueueTx.
func TestGormHandle(t *testing.T) {
	db, err := gorm.Open(mysql.Open(servers.MySQL(t)), &gorm.Config{PrepareStmt: true})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s, err := store.New(db, store.MySQL, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	session, err := s.Sides().Replica.Join(t.Context(), storetest.Member("a"))
	if err != nil {
		t.Fatal(err)
	}
	storetest.Pools(t, &storetest.Bench{Store: storetest.Of(s)}, session, "p")
	var added []jobs.Enqueued
	err = db.Transaction(func(tx *gorm.DB) (err error) {
		added, err = s.EnqueueTx(t.Context(), tx, jobs.NewTask{Pool: "p", IdempotencyKey: "k"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Task(t.Context(), added[0].ID); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("no money")
	err = db.Transaction(func(tx *gorm.DB) error {
		inner := tx.Transaction(func(tx *gorm.DB) (err error) { // a savepoint
			added, err = s.EnqueueTx(t.Context(), tx, jobs.NewTask{Pool: "p", IdempotencyKey: "inner"})
			return errors.Join(err, failed)
		})
		if !errors.Is(inner, failed) {
			return inner
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Task(t.Context(), added[0].ID); !errors.Is(err, jobs.ErrNotFound) {
		t.Fatalf("of a savepoint that was rolled back: %v", err)
	}
	begun := db.Begin()
	added, err = s.EnqueueTx(t.Context(), begun, jobs.NewTask{Pool: "p", IdempotencyKey: "inner"})
	if err := errors.Join(err, begun.Commit().Error); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Task(t.Context(), added[0].ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.EnqueueTx(t.Context(), db, jobs.NewTask{Pool: "p"}); err == nil || !strings.Contains(err.Error(), "not in a transaction") {
		t.Fatalf("gorm outside a transaction: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := pool.Ping(); err != nil {
		t.Fatalf("Close closed the program's handle: %v", err)
	}
}
