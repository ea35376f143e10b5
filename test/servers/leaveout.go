package servers

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
)

// leftOut: the reason, a program that is missing, is nothing that the go command's cache looks at, so
// a cached result would be silent about it.
var leftOut atomic.Bool

// LeaveOut ends the test as skipped and notes it, with the reason, for the last lines of
// `go test ./...` (package test/summary prints them). Where nothing may be left out it fails instead.
// Tests use it in place of t.Skip.
func LeaveOut(t testing.TB, reason string) {
	t.Helper()
	leftOut.Store(true)
	if err := note(t.Name(), reason); err != nil {
		t.Errorf("note what is left out: %v", err)
	}
	if all() {
		t.Fatalf("LOCKSTEP_TEST_ALL is set, but the test %s", reason)
	}
	t.Skip(reason)
}

// NotesDir is where the test binaries of one go command note what they left out. They find each
// other by their common parent.
func NotesDir() string {
	return filepath.Join(os.TempDir(), "lockstep-left-out-"+strconv.Itoa(os.Getppid()))
}

func note(test, reason string) error {
	if err := os.MkdirAll(NotesDir(), 0o700); err != nil {
		return err
	}
	wd, err := os.Getwd() // go test runs a package's tests in its folder
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(NotesDir(), strconv.Itoa(os.Getpid())), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintf(file, "%s\t%s\t%s\n", wd, test, reason)
	return err
}

// ForgetResult keeps the go command from caching the result of this test binary; call it after
// m.Run. Without its log of inputs a result is not cached.
func ForgetResult() {
	if log := flag.Lookup("test.testlogfile"); log != nil && log.Value.String() != "" {
		_ = os.Remove(log.Value.String())
	}
}
