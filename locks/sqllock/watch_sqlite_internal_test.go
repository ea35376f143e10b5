package sqllock

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// The pause of a place on a file that nobody writes is long, and ends with a write through another handle, which is what another
// process does to the file.
func TestAWriteElsewhereEndsThePause(t *testing.T) {
	t.Parallel()
	file := "file:" + filepath.Join(t.TempDir(), "locks.db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate"
	handle := func() *sql.DB {
		db, err := sql.Open("sqlite", file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db
	}
	begun, err := New(handle(), SQLite, Options{}).Open(t.Context(), driver.Open{Namespace: "n", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	s, elsewhere := begun.(*leaseSession), handle()
	s.mu.Lock()
	s.waiting.add(driver.Place{Acquisition: "1", Key: "k"}, 1, false, 1)
	_, longest, watch := s.patience()
	s.mu.Unlock()
	if watch == nil || longest != quietPause {
		t.Fatalf("a pause is up to %v, and a write is seen: %t; want %v, and that it is", longest, watch != nil, quietPause)
	}
	if err := elsewhere.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for watch() { // what was written so far, and a moment ago
	}
	if s.rest(t.Context(), 10*watchPause, watch) {
		t.Error("a pause ended early, and nobody has written")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer s.work.Wait()
	defer cancel()
	rested := make(chan bool, 1)
	s.work.Go(func() { rested <- s.rest(ctx, time.Minute, watch) })
	if _, err := elsewhere.ExecContext(t.Context(), `UPDATE lockstep_lock_marks SET token = token + 1`); err != nil {
		t.Fatal(err)
	}
	select {
	case early := <-rested:
		if !early {
			t.Error("the pause went on after a write")
		}
	case <-time.After(10 * time.Second):
		t.Error("the pause goes on 10 s after a write")
	}
}
