package scheduler_test

import (
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
	_ "github.com/lockstep-scheduler/lockstep/store/sqlite"
)

// On a SQLite file an idle replica sees by its log that another process has enqueued a task, also in a transaction of its own.
func TestASQLiteFileTellsOfTasks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lockstep.db")
	synctest.Test(t, func(t *testing.T) {
		open := func() *store.Store {
			st, err := store.Open(t.Context(), store.SQLite, file, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { st.Close() })
			return st
		}
		st := open()
		if err := st.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		began, elsewhere := idleReplica(t, st, nil), open()
		longest, _ := delays(t, began, func() {
			tick := syscall.NsecToTimespec(int64(15 * time.Millisecond))
			if err := syscall.Nanosleep(&tick, nil); err != nil { // no time in the bubble, in which the file's time would not change
				t.Fatal(err)
			}
			if _, err := elsewhere.Enqueue(t.Context(), jobs.NewTask{Pool: "mail"}); err != nil {
				t.Fatal(err)
			}
		})
		if longest > 20*time.Millisecond {
			t.Errorf("a task began %v after its enqueue", longest)
		}
	})
}
