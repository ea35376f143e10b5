// Package memstore is the store in Go maps, for simulations: it implements what ledger.Store
// promises, in a testing/synctest bubble too, without a goroutine and without I/O.
//
// A simulation is worth as much as its store is true. This one is held to the contract by the suite
// that judges SQLite and MySQL, storetest.RunContract: the same cases, with the same statements that
// look behind the store's back, on tables that are copied into a database for each look. Its rows have the
// columns of the real tables, and its methods lie in files named as those of package store, so a rule that
// the contract forgot can be read side by side.
//
// One mutex is the transaction: each is alone, sees what was committed, and commits all or nothing.
// What lies between two processes and a database is asked of the [Store]: how its ids are minted,
// where a transaction waits for locks, and whether it is repeated.
package memstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Database is what all replicas share. Make it with New.
type Database struct {
	// Clock is the database's; nothing else in it tells the time. Default: time.Now.
	Clock func() time.Time
	// Watch is called for each row that a transaction has changed, in the order of the commits, while
	// no other transaction runs. It must not call the store.
	Watch func(Change)

	// Mistake is what the store does wrong, in tests of those who judge it.
	Mistake Mistake

	mu      sync.Mutex
	commits int // that wrote
	tables
}

// Change is what became of a row. Before and After are rows of this package, such as Task; nil: there
// is none.
type Change struct {
	Op            string // the method that did it
	By            string // name of the Store that it was called on
	Commit        int    // number of the transaction
	Before, After any
}

// New makes an empty database.
func New() *Database {
	return &Database{Clock: time.Now, tables: newTables()}
}

// Store is how one process sees the database. All fields but Database may be left out; they must not
// change once a method was called.
type Store struct {
	Database *Database
	Name     string // in each Change

	// NewID mints ids of rows, as a process does by its own wall clock. Default: uuid.NewV7.
	NewID func() (string, error)
	// Stall is called in the middle of a transaction that claims or decides: session and time are
	// read, rows are not. It may take its time; others commit meanwhile.
	Stall func(op string)
	// Repeat reports whether a transaction that is about to commit meets a deadlock: then it is undone and
	// runs once more.
	Repeat func(op string) bool

	paused atomic.Pointer[ledger.Pause] // as it was read last
}

// tx is one transaction; the database is locked.
type tx struct {
	*tables
	s       *Store
	changes []change
	paused  ledger.Pause // of everything, in what claims or decides
}

type change struct {
	undo          func()
	before, after any
}

// tx runs fn as one transaction: what it wrote is undone if it fails.
func (s *Store) tx(ctx context.Context, op string, fn func(t *tx) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memstore: %s: %w: %w", op, jobs.ErrUnavailable, err)
	}
	db := s.Database
	db.mu.Lock()
	defer db.mu.Unlock()
	t := &tx{tables: &db.tables, s: s}
	err := fn(t)
	if err == nil && len(t.changes) > 0 && s.Repeat != nil && s.Repeat(op) {
		t.rollback()
		err = fn(t)
	}
	if err != nil {
		t.rollback()
		return fmt.Errorf("memstore: %s: %w", op, err)
	}
	if len(t.changes) > 0 {
		db.commits++
	}
	if db.Watch != nil {
		for _, c := range t.changes {
			db.Watch(Change{Op: op, By: s.Name, Commit: db.commits, Before: c.before, After: c.after})
		}
	}
	return nil
}

// deciding runs fn as a transaction that begins with a look at its session and the time, as judge
// takes it.
func (s *Store) deciding(ctx context.Context, op, session string, judge func(time.Time) (time.Time, error), fn func(t *tx, now time.Time) error) error {
	var now time.Time
	var paused ledger.Pause
	begin := func(t *tx) (err error) {
		if row, found := t.sessions.rows[session]; !found || row.Dead {
			return ledger.ErrSessionDead
		}
		paused = t.pausedNow()
		t.paused = paused
		now, err = judge(t.now())
		now = now.UTC().Truncate(time.Microsecond)
		return err
	}
	if s.Stall == nil {
		return s.tx(ctx, op, func(t *tx) error {
			if err := begin(t); err != nil {
				return err
			}
			return fn(t, now)
		})
	}
	if err := s.tx(ctx, op, begin); err != nil {
		return err
	}
	s.Stall(op)
	return s.tx(context.WithoutCancel(ctx), op, func(t *tx) error {
		t.paused = paused
		return fn(t, now)
	})
}

func (t *tx) rollback() {
	for _, v := range slices.Backward(t.changes) {
		v.undo()
	}
	t.changes = nil
}

func (t *tx) now() time.Time { return t.s.Database.Clock().UTC().Truncate(time.Microsecond) }

func (s *Store) newID() (string, error) {
	if s.NewID != nil {
		return s.NewID()
	}
	id, err := uuid.NewV7()
	return id.String(), err
}

// Look calls f with the rows as they are, while no transaction runs. f must neither keep nor change them,
// nor call the store.
func (d *Database) Look(f func(Rows)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f(Rows{d.sessions.rows, d.jobs.rows, d.pools.rows, d.triggers.rows, d.tasks.rows, d.done.rows, d.results.rows, slices.Collect(maps.Values(d.chunks.rows)), d.orders.rows, d.events.rows})
}

// Rows are what a simulation judges.
type Rows struct {
	Sessions map[string]Session
	Jobs     map[string]Job
	Pools    map[string]Pool
	Triggers map[TriggerKey]Trigger
	Tasks    map[string]Task
	Done     map[string]Done
	Results  map[string]Result
	Chunks   []Chunk // of outputs
	Orders   map[string]Order
	Events   map[string]Event
}
