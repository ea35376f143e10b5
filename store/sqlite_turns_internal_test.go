package store

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A beat gets through although others write one transaction after the other: SQLite's write lock has no
// queue, and a writer that pauses before its next try never finds it free.
func TestWritersOfOneFileTakeTurns(t *testing.T) {
	t.Parallel() // it waits
	file := filepath.Join(t.TempDir(), "a.db")
	beats := migrated(t, "sqlite", file, Options{})
	ctx, stop := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	defer busy.Wait()
	defer stop()
	for range 3 { // processes
		s := migrated(t, "sqlite", file, Options{})
		for range 2 {
			busy.Go(func() {
				for ctx.Err() == nil {
					err := s.sure(ctx, "write", func(t *tx) error {
						time.Sleep(12 * time.Millisecond) // of work
						_, err := t.Exec(`UPDATE {meta} SET value = value + 1 WHERE name = ?`, "config_counter")
						return err
					})
					if err != nil && ctx.Err() == nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	for n := range 12 {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := beats.sure(ctx, "beat", func(t *tx) error {
			_, err := t.Exec(`UPDATE {meta} SET value = value WHERE name = ?`, "config_counter")
			return err
		})
		cancel()
		if err != nil {
			t.Fatalf("beat %d: %v", n, err)
		}
	}
}

// A process that writes one transaction after the other lets writers in between that came meanwhile.
func TestWhoHasJustWrittenStandsBehind(t *testing.T) {
	t.Parallel() // it waits
	file := filepath.Join(t.TempDir(), "a.db")
	busy, other := migrated(t, "sqlite", file, Options{}), migrated(t, "sqlite", file, Options{})
	touch := func(t *tx) error {
		_, err := t.Exec(`UPDATE {meta} SET value = value WHERE name = ?`, "config_counter")
		return err
	}
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	defer writing.Wait()
	defer stop()
	var written atomic.Int64
	writing.Go(func() {
		for ctx.Err() == nil {
			err := busy.sure(ctx, "write", func(t *tx) error {
				time.Sleep(15 * time.Millisecond) // longer than the pause of a waiting writer
				return touch(t)
			})
			if err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
			written.Add(1)
		}
	})
	for name, write := range map[string]func(context.Context, string, func(*tx) error) error{"a transaction": other.tx, "a beat": other.keep} {
		for range 10 {
			before := written.Load()
			if err := write(t.Context(), "write", touch); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			// One was under way, one may have been inside, and one counts after its COMMIT.
			if let := written.Load() - before; let > 3 {
				t.Errorf("%s waited for %d transactions of another that came after it", name, let)
			}
		}
	}
}
