// Package store keeps the scheduler's rows in SQLite or MySQL: sessions, definitions, the ledger
// of triggers, tasks and their ends. It decides nothing: the scheduler does, see internal/ledger.
//
// A program makes a [Store] of its own handle with [New], or of a data source name with [Open]; [Store.Migrate] makes the
// tables. It enqueues with [Store.EnqueueTx] in its own transactions, or with [Store.Enqueue]. It reads the results with
// [Store.Task], [Store.Tasks] and [Store.Triggers]. It gives the Store to scheduler.New, api.New and metrics.New, which use
// [Store.Sides]: the interfaces are in package internal/ledger. A program that only enqueues needs nothing else, see
// [Store.AddPools].
//
// Every method that writes, also of the sides, does so in one transaction, or with one statement; some read before it. After a deadlock, a lock
// timeout, or a connection that was lost before COMMIT, the whole transaction is repeated, until the context ends.
// An error that wraps [jobs.ErrUnavailable] means that the outcome of the call is unknown.
// These methods have several transactions. If one fails, what was committed before stays:
//
//   - [Store.ChangeTasks], where others change tasks of the batch meanwhile: with the next call these tasks do not match any more, or are skipped
//   - Load and Assert, which write definitions in batches: the next call writes the others
//   - Claim, of a batch that is refused as a whole, and of tasks whose locks have no key: it returns what it has claimed, without an error
//   - Reap: it returns what was reaped, beside the error
//   - Sweep: each kind of rows is deleted for itself, and a failure of one keeps it from no other
//
// The state of a task. Rows of {tasks} are waiting, ready or running; users see the first two as pending. A task that ends moves
// to {done}. All states are written in task_state.go, and admission.go decides which tasks become running.
//
//	  enqueue, retry, decide                             decide, if it is admitted
//	    │               │                                             │
//	    ▼      due      ▼               claim                         ▼
//	 waiting ───────▶ ready ──────────────────────────────────────▶ running ───────▶ succeeded, failed,
//	    │ ▲             │ ▲                                           │ │ │           cancelled, lost
//	    │ │             │ └── handed back; lost, and it is retried ───┘ │ │                 │
//	    │ └─────────────│──── failed, and it is retried; lost, and its ─┘ │                 │ its own result, late:
//	    ▼               ▼     attempt may run on                          ▼                 ▼ once
//	cancelled       cancelled                              as its attempt ended      succeeded, failed, cancelled
//
// A task that its handler has snoozed waits. Pending tasks are cancelled on request, and when no configuration has their job any more. Ended ones are deleted when their
// retention is over. A claim that may not start a ready task has it wait for its locks or for its key, in a state that no claim reads: waits.go
// and claim_locks.go, key_waits.go and claim_keys.go.
//
// The state of an attempt, which its task and its token name:
//
//	 claim; decide, if it is admitted: it is counted
//	              │
//	              ▼         its own result
//	           running ───────────────────────▶ succeeded, failed, cancelled
//	             │ │                                            ▲
//	handed back, │ │ its session is dead,                       │ its own result, late: once, if its task
//	or snoozed:  │ │ or its replica gives it up                 │ ended with it
//	not counted  │ │                                            │
//	             ▼ └────────────────────────▶ lost ─────────────┘
//	           undone
//
// The last attempt of an ended task is in its row of {done}, the earlier ones are in {attempts}. One that is undone is in no
// row, and its token is not used again. If a cancellation of its task was requested, it ends as cancelled in place of that.
//
// Rows are locked in this order: sessions, pools, jobs, orders, definitions, unique_tasks, keys, sequences, triggers, expectations, tasks, key_waits, attempts, chunks, outputs, results, standings, events. What does
// not wait (SKIP LOCKED) may come out of turn. An enqueue that meets a unique task locks that before sequences, since it tells whether a task is added:
// no one has a sequence locked and waits for a task, but a claim that has tasks from before their pool's order join it.
package store

import (
	"cmp"
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlitefile"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
	"github.com/lockstep-scheduler/lockstep/migrations"
)

// Dialect is the kind of database of a handle.
type Dialect = migrations.Dialect

const (
	SQLite = migrations.SQLite
	MySQL  = migrations.MySQL // MySQL 8.0.16 or later, MariaDB 10.6 or later
)

// Options change what New and Open do. The zero Options are fine.
type Options struct {
	Prefix   string        // of every table, [a-z0-9_], at most 32 bytes; default "lockstep_"
	Timeout  time.Duration // of a call whose context has no deadline within a minute; default 5s
	MaxConns int           // of the pool that Open makes; default 16. On MySQL two more are for heartbeats, four for lists
	TLS      *tls.Config   // for Open of MySQL, in place of tls= in the DSN; its ServerName, if empty, is the host
}

// Store is safe for concurrent use. New and Open make it; the calls of a zero Store fail.
type Store struct {
	db      *sqlkit.DB // what may write
	models  *gorm.DB   // of no connection; see tx.gorm
	readers *sql.DB    // the same handle but for SQLite files, which have one writer and several readers
	vital   *sql.DB    // of what Open opened: connections that no other work takes; else the writers' handle
	views   *sql.DB    // the same, for views
	share   turns      // of the connections of a handle that a program opened, those that views may take; else nil

	listening listeners              // replicas of this process
	namespace atomic.Pointer[string] // what was last read of it; nil: nothing yet
	key       atomic.Pointer[string] // the same of the definition_key
	kinds     setKinds               // that overrides limit
	paused    atomic.Pointer[ledger.Pause]
	batches   batches             // of calls that have ended
	gate      *logGate            // of a SQLite file, for views; else nil
	opened    closers             // what Close closes
	file      sqlitefile.Database // of SQLite, that Open opened, else nil
}

var prefixPattern = regexp.MustCompile(`^[a-z0-9_]{1,32}$`)

// New makes a store of a handle that the program opened and goes on to own: a [*gorm.DB] or a
// [*sql.DB] with the driver github.com/go-sql-driver/mysql or modernc.org/sqlite, wrapped or not. It reads
// the settings of the database, within 6 s, and writes nothing; see [Store.Migrate].
//
// It works whatever the handle's flags for times, found rows, parameters, character sets and isolation
// are. What it cannot work with is refused, and the error says what to write instead: a server that
// is too old, a sql_mode that is not strict, autocommit off, sessions that read only, that read
// what is not committed, or whose answers are cut; on SQLite a journal_mode other than WAL,
// synchronous below FULL, and several connections to a database in memory.
//
// For such a handle, New cannot bound how long a frozen process of yours keeps rows locked: set wait_timeout and
// innodb_lock_wait_timeout in its DSN, as Open does. The handle has no connections for the heartbeats of replicas alone: leave
// some of the pool free for them. On SQLite, processes with such handles do not write in turn: under load, one may keep others
// out for seconds. Lists and other views take a quarter of the pool at most, so that they do not hold up replicas.
func New(db any, d Dialect, o Options) (*Store, error) {
	server, err := serverOf(d)
	if err != nil {
		return nil, err
	}
	pool, err := poolOf(db)
	if err != nil {
		return nil, err
	}
	s, err := build(pool, pool, server.kit(), o)
	if err != nil {
		return nil, err
	}
	s.share = newTurns(pool)
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	err = s.read(ctx, "check the handle", func(t *tx) error {
		if err := server.check(t); err != nil {
			return err
		}
		if err := server.adopt(t, pool); err != nil {
			return err
		}
		return t.learnNamespace()
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// server is what the store alone does with a kind of database.
type server interface {
	kit() sqlkit.Dialect // for a handle that a program opened
	open(ctx context.Context, dsn string, o Options) (*Store, error)
	check(t *tx) error               // fails when server or settings are not sufficient
	adopt(t *tx, pool *sql.DB) error // fails when the pool of a handle that a program opened is not sufficient
}

func serverOf(d Dialect) (server, error) {
	server := map[Dialect]server{SQLite: sqliteServer{}, MySQL: mysqlServer{}}[d]
	if server == nil {
		return nil, fmt.Errorf("store: unknown dialect %q: sqlite or mysql", d)
	}
	return server, nil
}

// poolOf is the pool of a caller's handle.
func poolOf(handle any) (pool *sql.DB, err error) {
	switch h := handle.(type) {
	case *gorm.DB:
		if h == nil {
			return nil, errors.New("store: the handle is nil")
		}
		if h.Config == nil {
			return nil, errors.New("store: the *gorm.DB was not made by gorm.Open")
		}
		if pool, err = h.DB(); err != nil {
			return nil, fmt.Errorf("store: the gorm handle has no connection pool (is it a transaction?): %w", err)
		}
	case *sql.DB:
		if pool = h; pool == nil {
			return nil, errors.New("store: the handle is nil")
		}
	default:
		return nil, fmt.Errorf("store: New takes a *gorm.DB or a *sql.DB, not %T", handle)
	}
	// All methods of a zero sql.DB that need a connection would panic.
	if connector := reflect.ValueOf(pool).Elem().FieldByName("connector"); connector.IsValid() && connector.IsNil() {
		return nil, errors.New("store: the *sql.DB was not made by sql.Open or sql.OpenDB")
	}
	return pool, nil
}

// openTimeout bounds how long an unreachable database holds up New and Open.
const openTimeout = 6 * time.Second

// Open opens a database with every setting that the store needs and verifies them. The dsn of [SQLite] is
// a file path or ":memory:" (processes take turns by a second file with a name that ends in
// -turn), that of [MySQL] one of go-sql-driver/mysql.
// To open SQLite, the program imports package store/sqlite, as a driver. When the database cannot be reached, the error names its
// address and the cause, within 10 s.
func Open(ctx context.Context, d Dialect, dsn string, o Options) (*Store, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	server, err := serverOf(d)
	if err != nil {
		return nil, err
	}
	return server.open(ctx, dsn, o)
}

// Close closes what Open opened, and nothing that the program gave to New.
func (s *Store) Close() error { return s.opened.Close() }

type closers []io.Closer

func (c closers) Close() error {
	var errs []error
	for _, each := range c {
		errs = append(errs, each.Close())
	}
	return errors.Join(errs...)
}

func build(writers, readers *sql.DB, d sqlkit.Dialect, o Options) (*Store, error) {
	prefix, err := tablePrefix(o.Prefix)
	if err != nil {
		return nil, err
	}
	db := sqlkit.New(writers, d, prefix, tables)
	db.Timeout, db.Reconnect = cmp.Or(o.Timeout, 5*time.Second), true
	models, err := openModels(prefix)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return &Store{db: db, models: models, readers: readers, vital: writers, views: readers}, nil
}

// tablePrefix is what the names of tables begin with; lockstep_ if prefix is empty.
func tablePrefix(prefix string) (string, error) {
	prefix = cmp.Or(prefix, "lockstep_")
	if !prefixPattern.MatchString(prefix) {
		return "", fmt.Errorf("store: table prefix %q: only a-z, 0-9 and _, at most 32", prefix)
	}
	return prefix, nil
}

// tables are the words that statements write in braces.
var tables = []string{
	"meta", "stripes", "sessions", "pools", "jobs", "triggers", "tasks", "done", "attempts",
	"outputs", "idempotency", "migrations", "events", "standings", "audit", "kinds", "lock_waits", "keys", "key_waits", "sequences",
	"unique_tasks", "results", "chunks", "definitions", "configurations", "pause", "expectations", "orders",
}
