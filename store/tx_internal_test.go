package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"

	"github.com/lockstep-scheduler/lockstep/jobs"
	_ "github.com/lockstep-scheduler/lockstep/store/sqlite"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func migrated(t testing.TB, driver, dsn string, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), Dialect(driver), dsn, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// A transaction of gorm's is one to enqueue in; its handle alone is none.
func TestEnqueueWithGorm(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		if err := s.AddPools(t.Context(), map[string]jobs.Pool{"p": {}}); err != nil {
			t.Fatal(err)
		}
		handle, err := gorm.Open(mysql.New(mysql.Config{Conn: s.db.Pool, SkipInitializeWithVersion: true}), &gorm.Config{DisableAutomaticPing: true})
		if err != nil {
			t.Fatal(err)
		}
		undo := errors.New("undo")
		for n, want := range []error{undo, nil} {
			err := handle.Transaction(func(g *gorm.DB) error {
				_, err := s.EnqueueTx(t.Context(), g, jobs.NewTask{Pool: "p"})
				return cmp.Or(err, want)
			})
			if !errors.Is(err, want) {
				t.Fatal(err)
			}
			if got := text(t, s, "SELECT COUNT(*) FROM {tasks}"); got != strconv.Itoa(n) {
				t.Errorf("%s tasks after the end %v", got, want)
			}
		}
		if _, err := s.EnqueueTx(t.Context(), handle, jobs.NewTask{Pool: "p"}); !errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), "not in a transaction") {
			t.Errorf("without a transaction: %v", err)
		}
		if got := text(t, s, "SELECT COUNT(*) FROM {tasks}"); got != "1" {
			t.Errorf("%s tasks, one of them without a transaction", got)
		}
	})
}

// tx runs fn in a transaction that may write, as [sqlkit.DB.Tx] does.
func (s *Store) tx(ctx context.Context, op string, fn func(t *tx) error) error {
	return s.do(op, func() error { return s.db.Tx(ctx, s.of(fn)) })
}

func eachStore(t *testing.T, fn func(t *testing.T, s *Store)) {
	t.Run("sqlite", func(t *testing.T) {
		fn(t, migrated(t, "sqlite", filepath.Join(t.TempDir(), "a.db"), Options{}))
	})
	t.Run("mysql", func(t *testing.T) { fn(t, migrated(t, "mysql", servers.MySQL(t), Options{})) })
}

// crowd borrows n connections at once and runs fn on each of them.
func crowd(t *testing.T, pool *sql.DB, n int, fn func(conn *sql.Conn)) {
	t.Helper()
	var conns []*sql.Conn
	for range n {
		conn, err := pool.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		fn(conn)
	}
}

// add is a read, a pause for the others, and a write: it goes wrong without the lock.
func add(t *tx) error {
	var n int64
	if _, err := t.One(`SELECT value FROM {meta} WHERE name = 'n'{for_update}`, nil, &n); err != nil {
		return err
	}
	_, err := t.Exec(`UPDATE {meta} SET value = ? WHERE name = 'n'`, fmt.Sprint(n+1))
	return err
}

func TestTransactionsAreSerial(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		if err := s.tx(t.Context(), "test", func(t *tx) error {
			_, err := t.Exec(`INSERT INTO {meta} (name, value) VALUES ('n', '0')`)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		g, ctx := errgroup.WithContext(t.Context())
		for range 40 {
			g.Go(func() error { return s.tx(ctx, "test", add) })
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		if n := text(t, s, `SELECT value FROM {meta} WHERE name = 'n'`); n != "40" {
			t.Fatalf("40 additions made %s", n)
		}
	})
}

func TestRollback(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		insert := func(t *tx) error {
			_, err := t.Exec(`INSERT INTO {meta} (name, value) VALUES ('n', '0')`)
			return err
		}
		boom := errors.New("boom")
		err := s.tx(t.Context(), "test", func(t *tx) error { return errors.Join(insert(t), boom) })
		if !errors.Is(err, boom) || errors.Is(err, jobs.ErrUnavailable) {
			t.Fatalf("got %v", err)
		}
		func() {
			defer func() { _ = recover() }()
			_ = s.tx(t.Context(), "test", func(t *tx) error { _ = insert(t); panic("boom") })
		}()
		ctx, cancel := context.WithCancel(t.Context())
		err = s.tx(ctx, "test", func(t *tx) error { err := insert(t); cancel(); return err })
		if !errors.Is(err, context.Canceled) || !errors.Is(err, jobs.ErrUnavailable) {
			t.Fatalf("a call that was cancelled: %v", err)
		}
		if n := text(t, s, `SELECT COUNT(*) FROM {meta} WHERE name = 'n'`); n != "0" {
			t.Fatalf("%s rows of transactions that failed", n)
		}
	})
}

// A wait for a lock of another transaction ends with the context, and is no answer.
func TestWaitsEndWithTheContext(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		var other *Store
		if s.db.Dialect.Name() == SQLite {
			other = migrated(t, "sqlite", sqlitePath(t, s), Options{})
		} else {
			other = s
		}
		err := other.tx(t.Context(), "hold", func(held *tx) error {
			if _, err := held.Exec(`UPDATE {meta} SET value = '1' WHERE name = 'config_counter'`); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			start := time.Now()
			err := s.tx(ctx, "wait", func(t *tx) error { _, err := t.lockConfig(); return err })
			if !errors.Is(err, jobs.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			if d := time.Since(start); d > 2*time.Second {
				t.Errorf("it took %s", d)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// Where time runs out while it is tried again, the error has the cause of the retries, too.

func TestTimeThatRanOutIsNotTheCause(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		refused := fmt.Errorf("connection refused: %w", sql.ErrConnDone)
		tries := 0
		err := s.read(ctx, "try", func(t *tx) error {
			ctx := t.Ctx
			if tries++; tries == 1 {
				return refused
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, refused) || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("got %v after %d tries", err, tries)
		}
	})
}

func sqlitePath(t *testing.T, s *Store) string {
	t.Helper()
	var path string
	err := s.read(t.Context(), "test", func(t *tx) error {
		return t.Query(`PRAGMA database_list`, nil, func(scan func(...any) error) error {
			var n, name any
			return scan(&n, &name, &path)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Only one at a time changes the schema.
func TestAlone(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		var inside atomic.Int32
		g, ctx := errgroup.WithContext(t.Context())
		for range 6 {
			g.Go(func() error {
				return s.alone(ctx, func(t *tx) error {
					defer inside.Add(-1)
					if n := inside.Add(1); n != 1 {
						return fmt.Errorf("%d at once", n)
					}
					_, err := t.Now()
					runtime.Gosched()
					return err
				})
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		if s.db.Dialect.Name() == MySQL { // its lock belongs to the connection, which stays open
			var mine int64
			ctx, cancel := context.WithCancel(t.Context())
			_ = s.alone(ctx, func(t *tx) error {
				_, err := t.One("SELECT CONNECTION_ID()", nil, &mine)
				cancel()
				return err
			})
			if held := text(t, s, fmt.Sprintf(`SELECT COUNT(*) FROM (SELECT IS_USED_LOCK(SHA2(CONCAT('lockstep.migrate.', DATABASE(), '.', '%s'), 256)) AS id) held WHERE id = %d`, s.db.Prefix, mine)); held != "0" {
				t.Error("who gave up holds the others up")
			}
		}
	})
}

// Two transactions that wait for each other: one is chosen, and repeats itself.
func TestDeadlocksAreRepeated(t *testing.T) {
	s := migrated(t, "mysql", servers.MySQL(t), Options{})
	if err := s.tx(t.Context(), "test", func(t *tx) error {
		_, err := t.Exec(`INSERT INTO {meta} (name, value) VALUES ('a', '0'), ('b', '0')`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	runs := 0
	met := make(chan struct{}, 2)
	both := make(chan struct{})
	go func() { <-met; <-met; close(both) }()
	g, ctx := errgroup.WithContext(t.Context())
	counts := make(chan int, 2)
	for _, order := range [][2]string{{"a", "b"}, {"b", "a"}} {
		g.Go(func() error {
			n := 0
			err := s.tx(ctx, "test", func(t *tx) error {
				n++
				for i, name := range order {
					if _, err := t.Exec(`UPDATE {meta} SET value = value + 1 WHERE name = ?`, name); err != nil {
						return err
					}
					if i == 0 && n == 1 {
						met <- struct{}{}
						<-both
					}
				}
				return nil
			})
			counts <- n
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	runs = <-counts + <-counts
	if got := text(t, s, `SELECT GROUP_CONCAT(value ORDER BY name) FROM {meta} WHERE name IN ('a', 'b')`); got != "2,2" || runs < 3 {
		t.Fatalf("values %s after %d runs", got, runs)
	}
}

// A client that freezes inside a transaction holds the others up for one wait for a lock on MariaDB,
// which knows idle_transaction_timeout, and for wait_timeout on MySQL.
func TestFrozenClient(t *testing.T) {
	t.Parallel() // it waits
	dsn := servers.MySQL(t)
	s := migrated(t, "mysql", dsn, Options{})
	frozen := migrated(t, "mysql", dsn, Options{})
	pool := frozen.db.Pool
	conn, err := pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, statement := range []string{"START TRANSACTION", "SELECT value FROM lockstep_meta WHERE name = 'config_counter' FOR UPDATE"} {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tries, most := 0, 4 // of innodb_lock_wait_timeout each
	if strings.Contains(text(t, s, `SELECT VERSION()`), "MariaDB") {
		most = 1
	}
	if err := s.tx(ctx, "test", func(t *tx) error { tries++; _, err := t.lockConfig(); return err }); err != nil {
		t.Fatal(err)
	}
	if tries > most {
		t.Errorf("the others got it after %d tries", tries)
	}
	if _, err := conn.ExecContext(t.Context(), "COMMIT"); err == nil {
		t.Error("the frozen transaction had not ended")
	}
}

func TestVersions(t *testing.T) {
	for _, version := range []string{
		"8.0.16", "8.0.36-0ubuntu0.22.04.1", "8.4.0", "9.1.0",
		"10.6.0-MariaDB", "10.11.6-MariaDB-0+deb12u1", "11.4.2-MariaDB", "5.5.5-10.11.6-MariaDB",
	} {
		if err := checkVersion(version); err != nil {
			t.Errorf("%s: %v", version, err)
		}
	}
	for version, want := range map[string]string{
		"8.0.15":               `server version "8.0.15" is too old: MySQL 8.0.16 or later is needed`,
		"5.7.44-log":           `server version "5.7.44-log" is too old: MySQL 8.0.16 or later is needed`,
		"10.5.23-MariaDB":      `server version "10.5.23-MariaDB" is too old: MariaDB 10.6.0 or later is needed`,
		"5.5.5-10.3.1-MariaDB": `server version "5.5.5-10.3.1-MariaDB" is too old: MariaDB 10.6.0 or later is needed`,
		"8.x.1":                `server version "8.x.1" cannot be read`,
	} {
		if err := checkVersion(version); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", version, err, want)
		}
	}
}
