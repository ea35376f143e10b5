package store_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
)

// A SQLite file tells of what another process has written, and of nothing else.
func TestASQLiteFileTellsOfWrites(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.db")
	open := func() *store.Store {
		st, err := store.Open(t.Context(), store.SQLite, file, store.Options{})
		if err == nil {
			err = st.Migrate(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { st.Close() })
		return st
	}
	here, elsewhere := open(), open()
	if err := elsewhere.AddPools(t.Context(), map[string]jobs.Pool{"mail": {}}); err != nil {
		t.Fatal(err)
	}
	writes := here.Sides().Replica.Writes()
	for writes.Written() {
		time.Sleep(20 * time.Millisecond) // the next write must not leave the same time
	}
	const short = 50 * time.Millisecond
	if told := writes.Await(t.Context(), short); !told || writes.Written() {
		t.Fatalf("told %t of a write that was none", told)
	}
	enqueued := make(chan error, 1)
	go func() {
		time.Sleep(short)
		_, err := elsewhere.Enqueue(t.Context(), jobs.NewTask{Pool: "mail"})
		enqueued <- err
	}()
	began := time.Now()
	told := writes.Await(t.Context(), time.Minute)
	if took := time.Since(began); !told || !writes.Written() || took > 30*time.Second {
		t.Errorf("told %t after %v", told, took)
	}
	if err := <-enqueued; err != nil {
		t.Fatal(err)
	}
}
