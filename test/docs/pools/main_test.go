package pools

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// database is the reader's own, with a migrated store on it.
func database(t *testing.T) (*sql.DB, *store.Store) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "own.db")+
		"?_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	st, err := store.New(db, store.SQLite, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db, st
}

// replica runs a set on a store until stop is called, or the test ends.
func replica(t *testing.T, st *store.Store, set jobs.Set, o scheduler.Options) (stop func()) {
	t.Helper()
	s, err := scheduler.New(st, nil, set, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	await.Until(t, "the definitions are loaded", s.Loaded)
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// enqueue adds tasks to a pool that the store knows.
func enqueue(t *testing.T, st *store.Store, tasks ...jobs.NewTask) (ids []string) {
	t.Helper()
	pools := map[string]jobs.Pool{}
	for _, task := range tasks {
		pools[task.Pool] = jobs.Pool{}
	}
	if err := st.AddPools(t.Context(), pools); err != nil {
		t.Fatal(err)
	}
	added, err := st.Enqueue(t.Context(), tasks...)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range added {
		ids = append(ids, a.ID)
	}
	return ids
}

// ended waits until a task has ended, and returns it.
func ended(t *testing.T, st *store.Store, id string) (task jobs.Task) {
	t.Helper()
	await.Until(t, "task "+id+" ends", func() bool {
		var err error
		if task, _, err = st.Task(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		return task.State.Ended()
	})
	return task
}
