//go:build unix

package exechandler_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/bound"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// foreground is a command with files as its streams.
type foreground struct {
	exechandler.Foreground
	dir string
}

func newForeground(t *testing.T, line string) foreground {
	t.Helper()
	f := foreground{dir: t.TempDir()}
	file := func(name string) *os.File {
		file, err := os.OpenFile(filepath.Join(f.dir, name), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		return file
	}
	in := file("in")
	if _, err := in.WriteString("hello\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	f.Foreground = exechandler.Foreground{
		Argv: []string{"sh", "-c", line}, Environ: []string{"PATH=" + os.Getenv("PATH"), "A=b"},
		Stdin: in, Stdout: file("out"), Stderr: file("err"), StopGrace: 5 * time.Second,
	}
	return f
}

// wrote is what the command has written to a stream so far.
func (f foreground) wrote(t *testing.T, stream string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, stream))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The command has the streams and the environment, and its exit code is returned, that of a signal as shells do it.
func TestForeground(t *testing.T) {
	t.Parallel()
	f := newForeground(t, `echo "$A"; cat; echo wrong >&2; exit 9`)
	code, err := f.Run(t.Context())
	if out, errs := f.wrote(t, "out"), f.wrote(t, "err"); code != 9 || err != nil || out != "b\nhello\n" || errs != "wrong\n" {
		t.Errorf("%d, %v; output %q, errors %q", code, err, out, errs)
	}
	if code, err := newForeground(t, "kill -TERM $$").Run(t.Context()); code != 128+15 || err != nil {
		t.Errorf("ended by a signal: %d, %v", code, err)
	}
	f = newForeground(t, "")
	f.Argv = []string{"no-such-program"}
	if _, err := f.Run(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no program: %v", err)
	}
	f.Environ = []string{"PATH=" + f.dir}
	f.Argv = []string{"out"}
	if _, err := f.Run(t.Context()); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("not executable: %v", err)
	}
}

// Signals reach all processes of the group.
func TestForegroundPassesSignalsOn(t *testing.T) {
	t.Parallel()
	f := newForeground(t, `sh -c 'trap "echo child; exit" USR1; echo born; while :; do sleep 0.02; done' & trap "echo usr1" USR1; trap "wait; exit 5" TERM; echo ready; while :; do sleep 0.02; done`)
	signals, done := make(chan os.Signal), make(chan int)
	f.Signals = signals
	go func() {
		code, err := f.Run(t.Context())
		if err != nil {
			t.Error(err)
		}
		done <- code
	}()
	says := func(lines ...string) {
		for _, line := range lines {
			await.Until(t, "it says "+line, func() bool { return strings.Contains(f.wrote(t, "out"), line+"\n") })
		}
	}
	says("ready", "born")
	signals <- syscall.SIGUSR1
	says("usr1", "child")
	signals <- syscall.SIGTERM
	if code := <-done; code != 5 {
		t.Errorf("exit code %d, want that of the command", code)
	}
}

// A stop ends the group: with a grace period, or at once.
func TestForegroundIsStopped(t *testing.T) {
	t.Parallel()
	now := make(chan struct{})
	close(now)
	why := errors.New("lost")
	for name, c := range map[string]struct {
		cause error
		out   string
	}{
		"with a grace period": {why, "ready\nterm\n"},
		"at once":             {errors.Join(why, &jobs.Stop{Kill: now}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newForeground(t, `trap "echo term; exit 0" TERM; echo ready; while :; do sleep 0.02; done`)
			if c.out == "" {
				f = newForeground(t, `trap "" TERM; echo ready; while :; do sleep 0.02; done`)
				f.StopGrace = time.Hour
			}
			ctx, stop := context.WithCancelCause(t.Context())
			go func() {
				await.Until(t, "it is ready", func() bool { return f.wrote(t, "out") != "" })
				stop(c.cause)
			}()
			began := time.Now()
			if _, err := f.Run(ctx); !errors.Is(err, why) || time.Since(began) > 10*time.Second {
				t.Errorf("%v after %v", err, time.Since(began))
			}
			if out := f.wrote(t, "out"); c.out != "" && out != c.out {
				t.Errorf("it has written %q", out)
			}
		})
	}
}

// The warden ends the command at its deadline, whatever this process does.
func TestWardenEndsAForegroundAtItsTime(t *testing.T) {
	if !exechandler.CanWarden() {
		return
	}
	t.Parallel()
	f := newForeground(t, `trap "" TERM; while :; do sleep 0.02; done`)
	end := boottime.Now().Add(time.Second)
	began := time.Now()
	if _, err := f.Run(bound.With(t.Context(), bound.New(end, 200*time.Millisecond, end))); !errors.Is(err, abort.ErrLost) {
		t.Errorf("%v, want abort.ErrLost", err)
	}
	if took := time.Since(began); took < 500*time.Millisecond || took > 5*time.Second {
		t.Errorf("it ended after %v", took)
	}
}
