package schedulertest

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver of the database in memory

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
)

// Options of a Bench. The zero value works.
type Options struct {
	// Store is a migrated store that no replica works on; it stays the caller's. Default: a new one on
	// SQLite in memory. The Bench treats all tasks in it as its own.
	Store *store.Store
	// Scheduler is for the replica that works while a method runs: Labels, Logger, … LockService is ignored. Handlers, also
	// those of notifications, run one at a time unless Workers is larger.
	Scheduler scheduler.Options
}

// Bench is a Set with a store, for one test. Its methods fail the test with FailNow instead of
// returning an error, so they must be called from the test's goroutine, one at a time.
type Bench struct {
	t    testing.TB
	set  jobs.Set
	opt  Options
	db   *sql.DB
	seen map[string]bool // tasks whose end was returned
	made time.Time
}

// New makes a Bench of set, and adds the set's pools to its store. The test fails if set is
// not valid.
func New(t testing.TB, set jobs.Set, o Options) *Bench {
	t.Helper()
	// A bubble has a clock of its own: on a busy machine much real time may pass while none of the
	// bubble's does.
	o.Scheduler.SessionTTL = cmp.Or(o.Scheduler.SessionTTL, time.Minute)
	o.Scheduler.Workers = cmp.Or(o.Scheduler.Workers, 1)
	o.Scheduler.MaxClockSkew = cmp.Or(o.Scheduler.MaxClockSkew, time.Hour)
	o.Scheduler.LockService = "" // whatever the program uses
	b := &Bench{t: t, set: set, opt: o, seen: map[string]bool{}, made: time.Now().Round(0)}
	if o.Store == nil {
		b.open()
	}
	b.ended() // tasks that ended in the store before are not the test's
	b.run(job{})
	return b
}

// open makes a database in memory, with one connection: a second one would open another database.
func (b *Bench) open() {
	b.t.Helper()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	b.db = db
	if b.opt.Store, err = store.New(db, store.SQLite, store.Options{}); err != nil {
		b.t.Fatal(err)
	}
	if err := b.opt.Store.Migrate(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// Store is the store, for code under test that enqueues.
func (b *Bench) Store() *store.Store { return b.opt.Store }

// DB is the database in memory, for the program's own tables and transactions; nil with
// Options.Store. It has one connection: within a transaction, use nothing but the transaction.
func (b *Bench) DB() *sql.DB { return b.db }

// Enqueue adds tasks, all or none, and returns them. The test fails if the set has no handler for one of them.
func (b *Bench) Enqueue(tasks ...jobs.NewTask) []jobs.Task {
	b.t.Helper()
	added, err := b.opt.Store.Enqueue(b.t.Context(), tasks...)
	if err != nil {
		b.t.Fatal(err)
	}
	all := make([]jobs.Task, len(added))
	for i, a := range added {
		all[i] = a.Task
	}
	return all
}

// Pending returns the tasks that have not ended, in the order in which they were made: those that
// were not drained, those that wait for their time, and those that wait for another attempt.
func (b *Bench) Pending() []jobs.Task {
	b.t.Helper()
	return b.tasks(b.ctx(), jobs.StatePending, jobs.StateRunning)
}

// Payload decodes a task's payload into a P; the test fails if it does not fit. A task without payload
// gives the zero P.
func Payload[P any](t testing.TB, task jobs.Task) (p P) {
	t.Helper()
	if len(task.Payload) == 0 {
		return p
	}
	if err := json.Unmarshal(task.Payload, &p); err != nil {
		t.Fatalf("the payload of task %s, %s, does not fit %T: %v", task.ID, task.Payload, p, err)
	}
	return p
}

// ended returns the tasks whose end was not returned yet, in the order in which they were made.
func (b *Bench) ended() []jobs.Task {
	b.t.Helper()
	all := b.tasks(b.ctx(), jobs.StateSucceeded, jobs.StateFailed, jobs.StateLost, jobs.StateCancelled)
	all = slices.DeleteFunc(all, func(t jobs.Task) bool { return b.seen[t.ID] })
	for _, t := range all {
		b.seen[t.ID] = true
	}
	return all
}

func (b *Bench) tasks(ctx context.Context, states ...jobs.State) (all []jobs.Task) {
	b.t.Helper()
	for _, state := range states {
		f := wire.TaskFilter{State: state, Page: wire.Page{Limit: 500}}
		for more := true; more; more = f.Cursor != "" {
			page, next, err := b.opt.Store.Tasks(ctx, f)
			if err != nil {
				b.t.Fatal(err)
			}
			all, f.Cursor = append(all, page...), next
		}
	}
	slices.SortFunc(all, func(x, y jobs.Task) int {
		return cmp.Or(x.CreatedAt.Compare(y.CreatedAt), strings.Compare(x.ID, y.ID))
	})
	return all
}

// ctx outlives the test's own, which is done when its Cleanups run.
func (b *Bench) ctx() context.Context { return context.WithoutCancel(b.t.Context()) }
