package exechandler_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
)

// limit sets one of this process's limits, and sets it back when the test ends.
func limit(t *testing.T, resource int, n uint64) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Prlimit(0, resource, nil, &was); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Prlimit(0, resource, &was, nil); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Prlimit(0, resource, &unix.Rlimit{Cur: n, Max: was.Max}, nil); err != nil {
		t.Fatal(err)
	}
}

// However few descriptors are left, a command runs as it should or was not started; there is nothing
// between.
func TestNoDescriptors(t *testing.T) {
	h := handler(t, exechandler.Command{Argv: []string{"cat"}})
	if err := h.Run(t.Context(), jobs.Task{Payload: []byte("x")}, io.Discard); err != nil {
		t.Fatal(err)
	}
	limit(t, unix.RLIMIT_NOFILE, 256)
	var taken []*os.File
	for err := error(nil); err == nil; {
		var f *os.File
		if f, err = os.Open(os.DevNull); err == nil {
			taken = append(taken, f)
			defer f.Close()
		}
	}
	ran, full := 0, 0
	for room := range 16 {
		out := &watched{}
		err := h.Run(t.Context(), jobs.Task{Payload: []byte("x")}, out)
		switch {
		case err == nil && out.String() == "x":
			ran++
		case errors.Is(err, abort.ErrNoRoom) && errors.Is(err, abort.ErrNotStarted) && out.String() == "":
			full++
		default:
			t.Errorf("with room for %d: %v, %q", room, err, out)
		}
		taken[room].Close()
	}
	if full < 3 || ran < 3 {
		t.Errorf("%d ran, %d did not start", ran, full)
	}
}

// unprivileged in the environment makes TestNoProcesses do its part.
const unprivileged = "LOCKSTEP_TEST_UNPRIVILEGED"

// Where no process can be made, nothing was started. The limit of processes does not hold for root, so a
// process of another user tries that.
func TestNoProcesses(t *testing.T) {
	if os.Getenv(unprivileged) != "" {
		h := handler(t, exechandler.Command{Argv: []string{"true"}})
		var all sync.WaitGroup
		for range 32 { // the threads that are needed are there then
			all.Go(func() { _ = h.Run(t.Context(), jobs.Task{}, io.Discard) })
		}
		all.Wait()
		limit(t, unix.RLIMIT_NPROC, 1)
		if err := h.Run(t.Context(), jobs.Task{}, io.Discard); !errors.Is(err, abort.ErrNoRoom) {
			t.Errorf("got %v", err)
		}
		return
	}
	if os.Getuid() != 0 {
		limit(t, unix.RLIMIT_NPROC, 1)
		h := handler(t, exechandler.Command{Argv: []string{"true"}})
		if err := h.Run(t.Context(), jobs.Task{}, io.Discard); !errors.Is(err, abort.ErrNoRoom) {
			t.Errorf("got %v", err)
		}
		return
	}
	dir, err := os.MkdirTemp("/tmp", "lockstep-unprivileged-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "test")
	text, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(program, text, 0o755)
	}
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestNoProcesses$", "-test.v")
	cmd.Env = append(os.Environ(), direct+"=1", unprivileged+"=1")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 48123, Gid: 48123}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
