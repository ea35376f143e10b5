package sqllock

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A write of one of the files is seen once; so is a file that is made or removed.
func TestWatchedFiles(t *testing.T) {
	dir := t.TempDir()
	db, log := filepath.Join(dir, "db"), filepath.Join(dir, "db-wal")
	written := watchFiles(db, log)
	want := func(when string, want bool) {
		t.Helper()
		if got := written(); got != want {
			t.Errorf("%s: %t", when, got)
		}
	}
	want("at first", true)
	want("without files", false)
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"made", func() error { return os.WriteFile(log, []byte("1"), 0o600) }},
		{"longer", func() error { return os.WriteFile(log, []byte("12"), 0o600) }},
		{"written over", func() error { return os.Chtimes(log, time.Time{}, time.Now().Add(time.Second)) }},
		{"the database", func() error { return os.WriteFile(db, []byte("1"), 0o600) }},
		{"removed", func() error { return os.Remove(log) }},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		want(step.what, true)
		want(step.what+" before", false)
	}
}
