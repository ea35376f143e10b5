package store_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/store/storetest"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// everyKind is one case of each kind of statement; all of them run on a bare handle in TestMySQLHandle.
var everyKind = strings.Fields(`Sessions/JoinAndPeers Definitions/OverridesSurvive Definitions/AddPools
	Enqueue/Idempotency EnqueueTx/VisibleAtCommit EnqueueTx/GoneAtRollback EnqueueTx/OldSnapshot Triggers/Decide Triggers/Forbid
	Claims/Order Ends/Retries Ends/Repeated Reap/Fails Cancel/Running Sweep/Tasks Views/Triggers`)

// works runs them on a program's own handle.
func works(t *testing.T, d store.Dialect, db *sql.DB, but ...string) {
	t.Helper()
	s, err := store.New(db, d, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := &storetest.Bench{Dialect: d, Store: storetest.Of(s), Open: func(*testing.T) storetest.Store { return storetest.Of(s) }, DB: rows{db}}
	seen := 0
	for _, c := range storetest.Cases {
		if !slices.Contains(everyKind, c.Name) {
			continue
		}
		seen++
		if !slices.Contains(but, c.Name) {
			t.Run(c.Name, func(t *testing.T) {
				empty(t, b.DB)
				c.Test(t, b)
			})
		}
	}
	if seen != len(everyKind) {
		t.Errorf("%d cases of %d have these names", seen, len(everyKind))
	}
}

// A program's handle works with any value of these in its DSN.
func TestMySQLFlags(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{
		"clientFoundRows=true&interpolateParams=true&multiStatements=true&parseTime=true&loc=America%2FNew_York&columnsWithAlias=true&checkConnLiveness=false",
		"interpolateParams=true&collation=latin1_swedish_ci&time_zone=%27-07:30%27&timeTruncate=1s&rejectReadOnly=true&sql_mode=%27STRICT_TRANS_TABLES,NO_BACKSLASH_ESCAPES%27",
		"{isolation}=%27SERIALIZABLE%27&clientFoundRows=true&compress=true&sql_mode=%27TRADITIONAL,ANSI_QUOTES,PIPES_AS_CONCAT,IGNORE_SPACE%27",
		"{isolation}=%27READ-COMMITTED%27&charset=utf8mb4,utf8&innodb_lock_wait_timeout=1&wait_timeout=2&unique_checks=0&foreign_key_checks=0&sql_auto_is_null=1" +
			"&sql_mode=%27STRICT_ALL_TABLES,ONLY_FULL_GROUP_BY,HIGH_NOT_PRECEDENCE,NO_UNSIGNED_SUBTRACTION,PAD_CHAR_TO_FULL_LENGTH%27",
	} {
		t.Run(flags, func(t *testing.T) {
			dsn := servers.MySQL(t)
			var isolation, level string // its name differs between MySQL and older MariaDB
			err := openRaw(t, store.MySQL, dsn).QueryRowContext(t.Context(), `SHOW VARIABLES WHERE Variable_name IN ('tx_isolation', 'transaction_isolation')`).Scan(&isolation, &level)
			if err != nil {
				t.Fatal(err)
			}
			var but []string
			if strings.Contains(flags, "SERIALIZABLE") {
				but = append(but, "EnqueueTx/OldSnapshot") // there the caller's own read keeps others from writing
			}
			works(t, store.MySQL, openRaw(t, store.MySQL, with(dsn, strings.ReplaceAll(flags, "{isolation}", isolation))), but...)
		})
	}
}

// What does not work is refused, and the error names the flag and what to do.
func TestMySQLFlagsThatAreRefused(t *testing.T) {
	dsn := servers.MySQL(t)
	for flags, want := range map[string][]string{
		"sql_mode=%27%27":                              {"sql_mode", "STRICT_TRANS_TABLES"},
		"sql_mode=%27ANSI%27":                          {"sql_mode", "STRICT_TRANS_TABLES"},
		"autocommit=0":                                 {"autocommit=0"},
		"sql_select_limit=100":                         {"sql_select_limit", "remove"},
		"sql_safe_updates=1":                           {"sql_safe_updates", "remove"},
		"tx_isolation=%27READ-UNCOMMITTED%27":          {"READ-UNCOMMITTED", "READ-COMMITTED"},
		"transaction_isolation=%27READ-UNCOMMITTED%27": {"READ-UNCOMMITTED", "READ-COMMITTED"},
		"transaction_read_only=1":                      {"read_only", "remove"},
		"tx_read_only=1":                               {"read_only", "remove"},
		"sql_mode=%27STRICT_ALL_TABLES,ORACLE,EMPTY_STRING_IS_NULL%27": {"EMPTY_STRING_IS_NULL", "remove"},
	} {
		db := openRaw(t, store.MySQL, with(dsn, flags))
		if err := db.PingContext(t.Context()); err != nil && (strings.Contains(err.Error(), "Unknown system variable") || strings.Contains(err.Error(), "can't be set to the value of 'ORACLE'")) {
			continue // MySQL and MariaDB have different names for it, and one has no such mode
		}
		_, err := store.New(db, store.MySQL, store.Options{})
		for _, word := range want {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v, want %q", flags, err, word)
			}
		}
	}
	none := strings.Replace(dsn, dsn[strings.LastIndex(dsn, "/"):], "/", 1)
	if _, err := store.New(openRaw(t, store.MySQL, none), store.MySQL, store.Options{}); err == nil || !strings.Contains(err.Error(), "names no database") {
		t.Errorf("no database: %v", err)
	}
}

func with(dsn, flags string) string {
	if strings.Contains(dsn, "?") {
		return dsn + "&" + flags
	}
	return dsn + "?" + flags
}

// lite is a handle of a new file; options are those of modernc.org/sqlite.
func lite(t *testing.T, options string) *sql.DB {
	t.Helper()
	file := "file://" + (&url.URL{Path: filepath.Join(t.TempDir(), "own.db")}).EscapedPath()
	return rawLite(t, file+"?"+options)
}

func rawLite(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

const durable = "_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"

func TestSQLiteFlags(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{
		durable,
		durable + "&_txlock=exclusive&_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)&_pragma=recursive_triggers(1)&_pragma=case_sensitive_like(1)&_time_format=sqlite",
		"_pragma=journal_mode(WAL)&_pragma=synchronous(EXTRA)&_txlock=immediate&_pragma=temp_store(FILE)&_pragma=cache_size(10)&_pragma=reverse_unordered_selects(1)",
	} {
		t.Run(flags, func(t *testing.T) { works(t, store.SQLite, lite(t, flags)) })
	}
	t.Run("memory", func(t *testing.T) {
		db := rawLite(t, ":memory:?_pragma=synchronous(OFF)") // there is nothing to keep over a power loss
		db.SetMaxOpenConns(1)
		s, err := store.New(db, store.SQLite, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSQLiteFlagsThatAreRefused(t *testing.T) {
	for flags, want := range map[string][]string{
		"": {"journal_mode(WAL)"},
		"_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)": {"synchronous is 1, and must be FULL", "synchronous(FULL)"},
		durable + "&_pragma=query_only(1)":                      {"query_only is 1, ", "remove"},
		durable + "&_pragma=locking_mode(EXCLUSIVE)":            {"locking_mode is exclusive, ", "remove"},
	} {
		_, err := store.New(lite(t, flags), store.SQLite, store.Options{})
		for _, word := range want {
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v, want %q", flags, err, word)
			}
		}
	}
	if _, err := store.New(rawLite(t, ":memory:"), store.SQLite, store.Options{}); err == nil || !strings.Contains(err.Error(), "SetMaxOpenConns(1)") {
		t.Errorf("in memory: %v", err)
	}
}

// A handle without busy_timeout, and callers that do not repeat: EnqueueTx waits for the write lock
// itself, and the error says what to do when it is too late for that.
func TestSQLiteTransactionsTakeTurns(t *testing.T) {
	db := lite(t, durable)
	s, err := store.New(db, store.SQLite, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Migrate(t.Context()), s.AddPools(t.Context(), map[string]jobs.Pool{"p": {}})); err != nil {
		t.Fatal(err)
	}
	if err := db.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer tx.Rollback() //nolint:errcheck // nothing is left to roll back after the commit
			if _, err := s.EnqueueTx(t.Context(), tx, jobs.NewTask{Pool: "p"}); err != nil {
				t.Error(err)
			} else if err := tx.Commit(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()

	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it is all that is to be done
	if _, err := tx.ExecContext(t.Context(), "SELECT * FROM lockstep_tasks"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Enqueue(t.Context(), jobs.NewTask{Pool: "p"}); err != nil {
		t.Fatal(err)
	}
	_, err = s.EnqueueTx(t.Context(), tx, jobs.NewTask{Pool: "p"})
	if !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), "_txlock=immediate") {
		t.Errorf("after it had read what is old: %v", err)
	}
}

// EnqueueTx waits for the write lock of others for Options.Timeout, where its context has no deadline.
func TestEnqueueTxGivesUp(t *testing.T) {
	db := lite(t, durable)
	s, err := store.New(db, store.SQLite, store.Options{Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Migrate(t.Context()), s.AddPools(t.Context(), map[string]jobs.Pool{"p": {}})); err != nil {
		t.Fatal(err)
	}
	other, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it is all that is to be done
	began := time.Now()
	_, err = s.EnqueueTx(context.WithoutCancel(t.Context()), tx, jobs.NewTask{Pool: "p"})
	if !errors.Is(err, jobs.ErrUnavailable) || time.Since(began) < 50*time.Millisecond || !strings.Contains(err.Error(), "another connection holds SQLite's write lock") {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	if _, err := other.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.EnqueueTx(t.Context(), tx, jobs.NewTask{Pool: "p"}); err != nil {
		t.Errorf("once the lock is free: %v", err)
	}
}

// Enqueue beside a transaction of the caller's own that has written waits for it until its timeout, and the error says for what.
// With a busy_timeout SQLite itself waits, and is interrupted; a call that ended before it began waited for nothing.
func TestEnqueueBesideATransactionOfOnesOwn(t *testing.T) {
	for _, flags := range []string{durable, durable + "&_txlock=immediate&_pragma=busy_timeout(5000)"} {
		db := lite(t, flags)
		s, err := store.New(db, store.SQLite, store.Options{Timeout: 300 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Migrate(t.Context()), s.AddPools(t.Context(), map[string]jobs.Pool{"p": {}})); err != nil {
			t.Fatal(err)
		}
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback() //nolint:errcheck // it is all that is to be done
		if _, err := tx.ExecContext(t.Context(), "CREATE TABLE orders (id INTEGER)"); err != nil {
			t.Fatal(err)
		}
		const held = "another connection holds SQLite's write lock"
		if _, err = s.Enqueue(t.Context(), jobs.NewTask{Pool: "p"}); !errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), held) {
			t.Errorf("%s: %v", flags, err)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err = s.Enqueue(over, jobs.NewTask{Pool: "p"}); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), held) {
			t.Errorf("%s: given up before: %v", flags, err)
		}
		if _, err = s.EnqueueTx(t.Context(), tx, jobs.NewTask{Pool: "p"}); err != nil {
			t.Errorf("%s: within it: %v", flags, err)
		}
	}
}

// EnqueueTx waits for nothing but the lock: any other error it returns at once.
func TestEnqueueTxWaitsForTheLockAlone(t *testing.T) {
	db := lite(t, durable)
	s, err := store.New(db, store.SQLite, store.Options{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it is all that is to be done
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := s.EnqueueTx(ctx, tx, jobs.NewTask{Pool: "p"}); !errors.Is(err, store.ErrSchema) || ctx.Err() != nil {
		t.Errorf("without tables: %v, and of its time is left %v", err, ctx.Err() == nil)
	}
}

// A handle is checked by its main database, whatever else its connections have.
func TestHandlesWithMoreThanOneDatabase(t *testing.T) {
	file := filepath.Join(t.TempDir(), "more.db")
	temporary := lite(t, durable)
	temporary.SetMaxIdleConns(1)
	if _, err := temporary.ExecContext(t.Context(), `CREATE TEMPORARY TABLE mine (n INTEGER)`); err != nil {
		t.Fatal(err)
	}
	if _, err := store.New(temporary, store.SQLite, store.Options{}); err != nil {
		t.Errorf("a file, and a temporary table: %v", err)
	}
	attached := rawLite(t, ":memory:")
	attached.SetMaxIdleConns(1)
	if _, err := attached.ExecContext(t.Context(), `ATTACH ? AS more`, file); err != nil {
		t.Fatal(err)
	}
	if _, err := store.New(attached, store.SQLite, store.Options{}); err == nil || !strings.Contains(err.Error(), "SetMaxOpenConns(1)") {
		t.Errorf("in memory, and a file beside it: %v", err)
	}
}

// If a check of a handle fails itself, New returns that error, and not what the check would have found.
func TestNewSaysWhatFailed(t *testing.T) {
	s := behindFaultyFile(t, fate{})
	for k := 1; ; k++ {
		s.cut.arm(fate{}, k, func() {})
		_, err := store.New(s.handle, store.SQLite, store.Options{})
		lost := s.cut.disarm()
		if len(lost) == 0 {
			if err != nil || k == 1 {
				t.Errorf("%d statements: %v", k-1, err)
			}
			return
		}
		if strings.Contains(lost[0], "no_such_table") { // which is to fail
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "disk I/O error") {
			t.Errorf("%q fails: %v", lost, err)
		}
	}
}

// A driver whose errors cannot be told apart is refused at the start, not at the first deadlock.
func TestForeignDrivers(t *testing.T) {
	for d, db := range map[store.Dialect]*sql.DB{
		store.SQLite: lite(t, durable),
		store.MySQL:  openRaw(t, store.MySQL, servers.MySQL(t)),
	} {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		foreign := sql.OpenDB(masked{conn})
		t.Cleanup(func() { _ = errors.Join(foreign.Close(), conn.Close()) })
		if _, err := store.New(foreign, d, store.Options{}); err == nil || !strings.Contains(err.Error(), "the driver's errors are *errors.errorString") {
			t.Errorf("%s: %v", d, err)
		}
	}
	for _, handle := range []any{(*sql.DB)(nil), (*gorm.DB)(nil), nil} {
		if _, err := store.New(handle, store.SQLite, store.Options{}); err == nil {
			t.Errorf("%T is a handle", handle)
		}
	}
}

// masked is a driver with errors of its own.
type masked struct{ conn *sql.Conn }

func (m masked) Connect(ctx context.Context) (c driver.Conn, err error) {
	err = m.conn.Raw(func(inner any) error { c = maskedConn{inner.(driver.Conn)}; return nil })
	return c, err
}

func (m masked) Driver() driver.Driver { return nil }

type maskedConn struct{ driver.Conn }

func (c maskedConn) Close() error { return nil }

func (c maskedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
	return rows, mask(err)
}

func (c maskedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
	return result, mask(err)
}

func mask(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(err.Error())
}

// modernc.org/sqlite ignores the flag of database/sql, as EnqueueTx says; where it stops to, that is to be said.
func TestSQLiteTransactionsThatSayTheyOnlyRead(t *testing.T) {
	db := lite(t, durable+"&_txlock=immediate")
	s, err := store.New(db, store.SQLite, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Migrate(t.Context()), s.AddPools(t.Context(), map[string]jobs.Pool{"p": {}})); err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	added, err := s.EnqueueTx(t.Context(), tx, jobs.NewTask{Pool: "p"})
	if err := errors.Join(err, tx.Commit()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Task(t.Context(), added[0].ID); err != nil {
		t.Error(err)
	}
}

// A handle that was opened to read takes no tasks, and the error says so.
func TestHandlesThatReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := open(t, store.SQLite, path, store.Options{})
	if err := errors.Join(s.Migrate(t.Context()), s.AddPools(t.Context(), map[string]jobs.Pool{"p": {}})); err != nil {
		t.Fatal(err)
	}
	tx, err := rawLite(t, "file://"+path+"?mode=ro").BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it is all that is to be done
	_, err = s.EnqueueTx(t.Context(), tx, jobs.NewTask{Pool: "p"})
	if !errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), "this transaction only reads") {
		t.Errorf("got %v", err)
	}
}
