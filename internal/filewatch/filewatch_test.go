package filewatch

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// A write of one of the files is seen once, when it is some time ago; so is a file that is made or removed.
func TestWritten(t *testing.T) {
	dir := t.TempDir()
	db, log := filepath.Join(dir, "db"), filepath.Join(dir, "db-wal")
	written := Written(db, log)
	want := func(when string, want bool) {
		t.Helper()
		if got := written(); got != want {
			t.Errorf("%s: %t", when, got)
		}
	}
	want("without files", false)
	at := time.Now().Add(-time.Hour)
	write := func(name, text string) error {
		at = at.Add(time.Second)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
		return os.Chtimes(name, time.Time{}, at)
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"made", func() error { return write(log, "1") }},
		{"longer", func() error { return write(log, "12") }},
		{"written over", func() error { return write(log, "21") }},
		{"the database", func() error { return write(db, "1") }},
		{"removed", func() error { return os.Remove(log) }},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		want(step.what, true)
		want(step.what+" before", false)
	}
}

// Of two writes that leave the same size and time the second one is seen, too.
func TestTwoWritesWithinATick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "db-wal")
		began := time.Now()
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(name, time.Time{}, began); err != nil {
				t.Fatal(err)
			}
		}
		written := Written(name)
		for _, text := range []string{"1", "2"} {
			write(text)
			if !written() {
				t.Errorf("write %s is not seen", text)
			}
		}
		time.Sleep(tick)
		written()
		if written() {
			t.Error("a write counts twice, a tick later")
		}
	})
}
