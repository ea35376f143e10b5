package embedding

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) { entrance(func() { os.Exit(servers.Main(m)) }) }

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

// start runs a replica until the test ends.
func start(t *testing.T, s *scheduler.Scheduler) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// ended waits until a task has ended, and returns it.
func ended(t *testing.T, st *store.Store, id string) jobs.Task {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		task, _, err := st.Task(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if task.State.Ended() {
			return task
		}
		if time.Now().After(deadline) {
			t.Fatalf("task %s is %s: %s", id, task.State, task.Error)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
