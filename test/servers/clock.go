package servers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Clock is a wall clock that a test can step while the servers that use it run. Their monotonic time does not
// change.
type Clock struct{ file string }

// fakeTime is Debian's libfaketime for programs with threads. It replaces calls of the C library, so it works
// for MariaDB and the JVM, and not for programs in Go, and Redis, which has a library of its own: see NewRedis.
const fakeTime = "/usr/lib/*/faketime/libfaketimeMT.so.1"

// NewClock makes a clock that shows the machine's time.
func NewClock(t testing.TB) *Clock {
	t.Helper()
	need(t, "libfaketime", fakeTime)
	dir, err := os.MkdirTemp("", "lockstep-clock-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &Clock{file: filepath.Join(dir, "time")}
	if err := errors.Join(os.Chmod(dir, 0o755), c.Step(0)); err != nil { // servers may run as another user
		t.Fatal(err)
	}
	return c
}

// Step makes wall time d ahead of the machine's, or behind it, from now on. Step(0) heals it.
func (c *Clock) Step(d time.Duration) error {
	next := c.file + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+.6f\n", d.Seconds()), 0o644); err != nil {
		return fmt.Errorf("step the clock: %w", err)
	}
	if err := os.Rename(next, c.file); err != nil {
		return fmt.Errorf("step the clock: %w", err)
	}
	return nil
}

// NewMySQL is NewMySQL with this clock.
func (c *Clock) NewMySQL(t testing.TB, args ...string) *MySQLServer {
	t.Helper()
	return newMySQL(t, Secure{}, c, nil, args)
}

// NewEnsemble is NewEnsemble with this clock.
func (c *Clock) NewEnsemble(t testing.TB) *Ensemble {
	t.Helper()
	return newEnsemble(t, c)
}

// environ is the environment of a server with this clock; nil: that of the test.
func (c *Clock) environ() []string {
	if c == nil {
		return nil
	}
	library, _ := find(fakeTime)
	return append(os.Environ(), "LD_PRELOAD="+library, "FAKETIME_TIMESTAMP_FILE="+c.file, "FAKETIME_NO_CACHE=1", "NO_FAKE_STAT=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_FORCE_MONOTONIC_FIX=0") // the fix is for an older C library; with it, a JVM is slow
}
