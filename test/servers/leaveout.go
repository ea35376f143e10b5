package servers

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// LeaveOut ends the test as skipped and notes it, with the reason, for the last lines of `go test ./...`
// (package test/summary prints them). If no test may be left out it fails instead. Tests use it in place of
// t.Skip.
func LeaveOut(t testing.TB, reason string) {
	t.Helper()
	ForgetResult() // the reason is mostly a missing program, which the cache does not check
	if err := note(t.Name(), reason); err != nil {
		t.Errorf("note what is left out: %v", err)
	}
	if all() {
		t.Fatalf("LOCKSTEP_TEST_ALL is set, but the test %s", reason)
	}
	t.Skip(reason)
}

// NotesDir is where the test binaries of one go command note what they left out. Its name comes from their
// common parent.
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

// ForgetResult keeps the go command from caching the result of this test binary: a result without its log of
// inputs is not cached. It is for tests that depend on what the cache does not check.
func ForgetResult() {
	if log := flag.Lookup("test.testlogfile"); log != nil && log.Value.String() != "" {
		_ = os.Remove(log.Value.String())
	}
}
