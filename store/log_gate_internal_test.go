package store

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// gated is a store with a table to write much to, whose views wait above most bytes of log; of a handle, if own.
func gated(t *testing.T, file string, most int64, own bool) *Store {
	t.Helper()
	s := migrated(t, "sqlite", file, Options{})
	if own {
		db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(5000)&_txlock=immediate")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		db.SetMaxOpenConns(16)
		if s, err = New(db, SQLite, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	s.gate.most = most
	scribble(t, s, `CREATE TABLE IF NOT EXISTS much (x BLOB)`)
	scribble(t, s, `INSERT INTO much VALUES (randomblob(500000))`)
	return s
}

func scribble(t *testing.T, s *Store, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := s.tx(ctx, "write", func(t *tx) error { _, err := t.Exec(text); return err }); err != nil {
		t.Error(err)
	}
}

func logSize(t *testing.T, file string) int64 {
	t.Helper()
	log, err := os.Stat(file + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return log.Size()
}

// keepLooking runs views all the time until the test ends, so that a view is always in progress; looked receives when one has ended.
func keepLooking(t *testing.T, looked chan<- struct{}, stores ...*Store) {
	ctx, stop := context.WithCancel(t.Context())
	var looking sync.WaitGroup
	t.Cleanup(func() { stop(); looking.Wait() })
	for _, s := range stores {
		for range 4 {
			looking.Go(func() {
				for ctx.Err() == nil {
					err := s.view(ctx, "look", func(t *tx) error {
						return t.Query(`SELECT 1 FROM {meta} LIMIT 2`, nil, func(func(...any) error) error {
							time.Sleep(15 * time.Millisecond) // of work
							return nil
						})
					})
					if ctx.Err() != nil {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					select {
					case looked <- struct{}{}:
					default: // it does not wait
					}
				}
			})
		}
	}
}

// However many views run, one after the other and at the same time, the log does not grow: of one process, of two with one
// file, and of a program's handle.
func TestViewsDoNotKeepTheLogFromBeginningAgain(t *testing.T) {
	t.Parallel()
	const most, written = 5 << 20, 25 << 20
	for name, c := range map[string]struct {
		own       bool
		processes int
	}{"one process": {false, 1}, "two processes": {false, 2}, "a handle": {true, 1}} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a.db")
			var stores []*Store
			for range c.processes {
				stores = append(stores, gated(t, file, most, c.own))
			}
			looked := make(chan struct{}, 1)
			keepLooking(t, looked, stores...)
			largest := int64(0)
			for range written / 500000 {
				<-looked // as fast as the views: the speed of either does not matter
				scribble(t, stores[0], `UPDATE much SET x = randomblob(500000)`)
				largest = max(largest, logSize(t, file))
			}
			if largest > 2*most {
				t.Errorf("of %d MB that were written the log has %d MB, and should have %d", written>>20, largest>>20, most>>20)
			}
		})
	}
}

// As long as something else reads the file, views are held back for patience, and go on until a later period. Writers do not
// wait for any of them.
func TestABackupHoldsUpViewsForAWhile(t *testing.T) {
	t.Parallel() // it waits
	const most = 1 << 20
	file := filepath.Join(t.TempDir(), "a.db")
	s := gated(t, file, most, false)
	s.gate.patience = time.Second
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	backup, err := db.BeginTx(t.Context(), nil)
	if err == nil {
		err = backup.QueryRow(`SELECT COUNT(*) FROM much`).Scan(new(int))
	}
	if err != nil {
		t.Fatal(err)
	}
	for logSize(t, file) <= most {
		scribble(t, s, `UPDATE much SET x = randomblob(500000)`)
	}
	look := func() error {
		return s.view(t.Context(), "look", func(t *tx) error { _, err := t.One(`SELECT 1`, nil, new(int)); return err })
	}
	var over atomic.Bool
	var writing sync.WaitGroup
	slowest, beats := time.Duration(0), 0
	writing.Go(func() {
		for !over.Load() {
			began := time.Now()
			if err := s.keep(t.Context(), "beat", func(t *tx) error {
				_, err := t.Exec(`UPDATE {meta} SET value = value WHERE name = ?`, "config_counter")
				return err
			}); err != nil {
				t.Error(err)
			}
			slowest, beats = max(slowest, time.Since(began)), beats+1
		}
	})
	began := time.Now()
	if err := look(); err != nil {
		t.Errorf("beside a backup: %v", err)
	}
	held := time.Since(began)
	over.Store(true)
	writing.Wait()
	if held < s.gate.patience || s.gate.failed != 1 {
		t.Errorf("a view was held back for %v, %d periods", held, s.gate.failed)
	}
	if slowest > s.gate.patience || beats < 5 {
		t.Errorf("the slowest of %d beats took %v", beats, slowest)
	}
	s.gate.patience = time.Hour // the same period goes on, in which none waits
	s.gate.tried = time.Now().Truncate(s.gate.period())
	if err := look(); err != nil || s.gate.failed != 1 {
		t.Errorf("after that: %v, %d periods", err, s.gate.failed)
	}
	if err := backup.Rollback(); err != nil {
		t.Fatal(err)
	}
	s.gate.tried = time.Time{} // the next period
	if err := look(); err != nil || logSize(t, file) > most || s.gate.failed != 0 {
		t.Errorf("after the backup: %v, %d bytes of log, %d periods", err, logSize(t, file), s.gate.failed)
	}
	var usual int
	err = s.view(t.Context(), "look", func(t *tx) error { _, err := t.One(`PRAGMA busy_timeout`, nil, &usual); return err })
	if err != nil || usual != 250 {
		t.Errorf("the connection goes on with a busy_timeout of %d: %v", usual, err)
	}
}

// A view with a deadline that passes while it is held back gets that error, and another goes on in its place, also with emptying the log.
func TestViewsThatAreHeldBackMayGo(t *testing.T) {
	const most = 1 << 20
	file := filepath.Join(t.TempDir(), "a.db")
	s := gated(t, file, most, false)
	let, inside := make(chan struct{}), make(chan struct{})
	var views sync.WaitGroup
	defer views.Wait()
	look := func(ctx context.Context, each func()) error {
		return s.view(ctx, "look", func(t *tx) error {
			return t.Query(`SELECT COUNT(*) FROM much`, nil, func(func(...any) error) error { each(); return nil })
		})
	}
	views.Go(func() {
		if err := look(t.Context(), func() { close(inside); <-let }); err != nil {
			t.Error(err)
		}
	})
	<-inside
	for logSize(t, file) <= most {
		scribble(t, s, `UPDATE much SET x = randomblob(500000)`)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := look(ctx, func() { t.Error("a view was let in") })
	if !errors.Is(err, jobs.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a view that waits: %v", err)
	}
	views.Go(func() {
		if err := look(t.Context(), func() {}); err != nil {
			t.Error(err)
		}
	})
	gone, end := context.WithCancel(t.Context())
	views.Go(func() {
		if err := look(gone, func() {}); !errors.Is(err, context.Canceled) {
			t.Errorf("a view that goes: %v", err)
		}
	})
	end()
	close(let)
	await.Until(t, "the log is empty", func() bool { return logSize(t, file) == 0 })
}

// What keeps the log from being emptied, such as a full disk, is not waited for. A view that goes meanwhile leaves that to the
// next one, and none tries while others are under way.
func TestALogThatIsNotEmptied(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	grow := func(size int) {
		t.Helper()
		if err := os.WriteFile(file, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g := newLogGate(file, time.Hour, nil)
	g.most = 1
	tries := 0
	enter := func(ctx context.Context, empty func() error) (leave func(), err error) {
		return g.enter(ctx, func(context.Context, func(context.Context, *sql.Conn) error) error { tries++; return empty() })
	}
	nothing := func() error { return nil }
	leave, err := enter(t.Context(), nothing)
	if err != nil {
		t.Fatal(err)
	}
	grow(2)
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := enter(short, nothing); !errors.Is(err, context.DeadlineExceeded) || tries != 0 {
		t.Errorf("beside another view: %v, %d tries", err, tries)
	}
	leave()
	gone, end := context.WithCancel(t.Context())
	if _, err := enter(gone, func() error { end(); return gone.Err() }); !errors.Is(err, context.Canceled) || tries != 1 || g.failed != 0 {
		t.Errorf("one that goes: %v, %d tries, %d periods", err, tries, g.failed)
	}
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	leave, err = enter(soon, func() error { grow(1); return nil }) // as another process does
	if err != nil || tries != 2 {
		t.Fatalf("a log that another process has emptied: %v, %d tries", err, tries)
	}
	leave()
	grow(2)
	tries = 1
	for range 2 {
		leave, err := enter(t.Context(), func() error { return errors.New("disk full") })
		if err != nil {
			t.Fatal(err)
		}
		leave()
	}
	if tries != 2 || g.failed != 1 { // that one, once
		t.Errorf("%d tries in %d periods", tries, g.failed)
	}
}

// What is moved is moved beside writers; they wait only where little is left.
func TestWritersDoNotWaitForMuch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.db")
	s := gated(t, file, 1, false)
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	backup, err := db.BeginTx(t.Context(), nil)
	if err == nil {
		err = backup.QueryRow(`SELECT COUNT(*) FROM much`).Scan(new(int))
	}
	if err != nil {
		t.Fatal(err)
	}
	for logSize(t, file) < 2*restartPages*4096 {
		scribble(t, s, `UPDATE much SET x = randomblob(500000)`)
	}
	other := migrated(t, "sqlite", file, Options{}).file.Pools().Turns // another process
	s.gate.turns = other
	leave, err := other.Enter(t.Context()) // another writer waits for its turn
	if err != nil {
		t.Fatal(err)
	}
	moved := 0
	try := func(patience time.Duration) (emptied bool, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err = s.db.On(s.views).Borrow(ctx, func(ctx context.Context, conn *sql.Conn) (err error) {
			moved, emptied, err = s.gate.try(ctx, conn, moved)
			return err
		})
		return emptied, err
	}
	if emptied, err := try(10 * time.Second); emptied || err != nil {
		t.Errorf("while a reader keeps much from being moved: %v %v", emptied, err)
	}
	if err := backup.Rollback(); err != nil {
		t.Fatal(err)
	}
	if emptied, err := try(10 * time.Second); emptied || err != nil || moved < restartPages {
		t.Errorf("after much was moved: %v %v, %d pages", emptied, err, moved)
	}
	if emptied, err := try(50 * time.Millisecond); emptied || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it did not wait for its turn: %v %v", emptied, err)
	}
	leave()
	if emptied, err := try(10 * time.Second); !emptied || err != nil || logSize(t, file) != 0 {
		t.Errorf("in its turn: %v %v, %d bytes", emptied, err, logSize(t, file))
	}
}

// Periods are the same for all processes, and become longer.
func TestPeriodsOfTheLogGate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte("12"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := newLogGate(file, 5*time.Second, nil)
	g.most = 1
	at := time.Unix(1_800_000_000, 0).Truncate(80 * time.Second)
	for _, c := range []struct {
		after time.Duration
		held  bool
	}{
		{3 * time.Second, true}, {8*time.Second - 1, true}, {8 * time.Second, false},
		{20*time.Second - 1, false}, {20 * time.Second, true}, {25 * time.Second, false},
		{40*time.Second - 1, false}, {40 * time.Second, true}, {45 * time.Second, false},
		{80*time.Second - 1, false}, {80 * time.Second, true}, {85 * time.Second, false},
		{160*time.Second - 1, false}, {160 * time.Second, true}, {165 * time.Second, false},
		{240*time.Second - 1, false}, {-time.Hour, true}, // a clock that steps back prevents no try
	} {
		if held := g.held(at.Add(c.after)); held != c.held {
			t.Errorf("after %v: %v, of failed periods: %d", c.after, held, g.failed)
		}
	}
	g.most = 2 // as much as may be
	if g.held(at) || g.failed != 0 || !g.until.IsZero() {
		t.Error("a small log holds views up")
	}
}
