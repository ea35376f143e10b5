package store

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

const withoutDescriptors = "LOCKSTEP_TEST_WITHOUT_DESCRIPTORS"

// A process without a free descriptor cannot open the store's file or a socket to it. The store is unavailable then: every
// call may be tried again, and is answered as soon as there is room. The limit is set in a process of its own.
func TestNoDescriptors(t *testing.T) {
	if name := os.Getenv(withoutDescriptors); name != "" {
		starve(t, name, os.Getenv(withoutDescriptors+"_DSN"))
		return
	}
	t.Parallel()
	for name, dsn := range map[string]string{"sqlite": filepath.Join(t.TempDir(), "a.db"), "mysql": servers.MySQL(t)} {
		t.Run(name, func(t *testing.T) {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoDescriptors$", "-test.v", "-test.timeout=2m")
			child.Env = append(os.Environ(), withoutDescriptors+"="+name, withoutDescriptors+"_DSN="+dsn)
			if out, err := child.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func starve(t *testing.T, driver, dsn string) {
	s := migrated(t, driver, dsn, Options{})
	if err := s.AddPools(t.Context(), map[string]jobs.Pool{"p": {}}); err != nil {
		t.Fatal(err)
	}
	calls := map[string]func(ctx context.Context) error{
		"enqueue": func(ctx context.Context) error { _, err := s.Enqueue(ctx, jobs.NewTask{Pool: "p"}); return err },
		"ready": func(ctx context.Context) error {
			_, err := s.Sides().Replica.Ready(ctx, func(now time.Time) (time.Time, error) { return now, nil })
			return err
		},
		"pools": func(ctx context.Context) error { _, err := s.Sides().API.Pools(ctx); return err },
		"beat": func(ctx context.Context) error {
			return s.keep(ctx, "test", func(t *tx) error { _, err := t.Now(); return err })
		},
	}
	readers := s.readers
	held, err := readers.Conn(t.Context()) // SQLite's last connection would take the write-ahead log along
	if err == nil {
		err = held.PingContext(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	var taken []*os.File
	for name, call := range calls {
		drop(t, s)
		taken = append(taken, exhaust(t)...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := call(ctx)
		cancel()
		if !errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("%s without a descriptor: %v", name, err)
		}
	}
	for _, f := range taken {
		f.Close()
	}
	for name, call := range calls {
		if err := call(t.Context()); err != nil {
			t.Errorf("%s with descriptors: %v", name, err)
		}
	}
	var n int
	if err := s.read(t.Context(), "test", func(t *tx) error { _, err := t.One("SELECT COUNT(*) FROM {tasks}", nil, &n); return err }); err != nil || n != 1 {
		t.Errorf("%d tasks, %v: what was refused is there", n, err)
	}
}

// exhaust takes all descriptors that the process has left.
func exhaust(t *testing.T) (taken []*os.File) {
	t.Helper()
	limit := unix.Rlimit{Cur: 256, Max: 256}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := os.Open(os.DevNull)
		if errors.Is(err, syscall.EMFILE) {
			return taken
		}
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, f)
	}
}

// drop ends the connections that are not in use.
func drop(t *testing.T, s *Store) {
	t.Helper()
	seen := map[*sql.DB]bool{}
	for _, h := range []*sql.DB{s.db.Pool, s.readers, s.vital, s.views} {
		db := h
		if seen[db] {
			continue
		}
		seen[db] = true
		db.SetMaxIdleConns(0)
		db.SetMaxIdleConns(2)
	}
}
