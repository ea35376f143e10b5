//go:build unix

package exechandler_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// watched is an output that can be waited for.
type watched struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// pids reads the numbers behind a word in the output.
func pids(t *testing.T, out, word string) (all []int) {
	t.Helper()
	for line := range strings.Lines(out) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), word+" "); ok {
			pid, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, pid)
		}
	}
	return all
}

// stopWhenReady runs c, stops it with the cause once it wrote "ready", and returns its output, its
// error, and how long the stop took.
func stopWhenReady(t *testing.T, c exechandler.Command, cause func() error) (string, time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	out, done := &watched{}, make(chan error, 1)
	h := handler(t, c)
	go func() { done <- h.Run(ctx, jobs.Task{}, out) }()
	await.Until(t, "the command is ready", func() bool { return strings.Contains(out.String(), "ready\n") })
	stopped := time.Now()
	cancel(cause())
	select {
	case err := <-done:
		return out.String(), time.Since(stopped), err
	case <-time.After(20 * time.Second):
		t.Fatalf("it did not stop; output %q", out.String())
		return "", 0, nil
	}
}

func because() error { return &jobs.Stop{Reason: "timeout after 1m0s"} }

func TestStopIsATermToTheGroup(t *testing.T) {
	out, took, err := stopWhenReady(t, exechandler.Command{Shell: "sleep 300 & echo child $!; echo ready; wait"}, because)
	var stop *jobs.Stop
	var exit *jobs.ExitError
	if !errors.As(err, &stop) || !errors.As(err, &exit) || exit.Code != -1 || err.Error() != "timeout after 1m0s: ended by a signal: terminated" {
		t.Errorf("got %v", err)
	}
	if took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	for _, pid := range pids(t, out, "child") {
		if program.Alive(pid) {
			t.Errorf("the child %d is still there", pid)
		}
	}
}

func TestCommandThatIgnoresTermIsKilledWithItsChildren(t *testing.T) {
	out, took, err := stopWhenReady(t, exechandler.Command{
		Shell:     `trap "" TERM; sh -c 'trap "" TERM; echo child $$; sleep 300; sleep 300' & echo child $$; sleep 0.2; echo ready; while :; do sleep 1; done`,
		StopGrace: 300 * time.Millisecond,
	}, because)
	var exit *jobs.ExitError
	if !errors.As(err, &exit) || !strings.HasSuffix(err.Error(), "ended by a signal: killed") {
		t.Errorf("got %v", err)
	}
	if took < 300*time.Millisecond || took > 5*time.Second {
		t.Errorf("it took %v, with a grace period of 300ms", took)
	}
	children := pids(t, out, "child")
	if len(children) != 2 {
		t.Fatalf("children %v of %q", children, out)
	}
	for _, pid := range children {
		if program.Alive(pid) {
			t.Errorf("%d is still there", pid)
		}
	}
}

func TestTheGroupHasTheGracePeriodTooWhenItsLeaderIsGone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cleaned")
	child := `trap "sleep 0.4; echo done >` + file + `; exit" TERM; echo ready; while :; do sleep 0.05; done`
	_, took, _ := stopWhenReady(t, exechandler.Command{
		Shell: "sh -c '" + child + "' & trap 'exit 0' TERM; while :; do sleep 0.05; done",
	}, because)
	if text, err := os.ReadFile(file); err != nil || string(text) != "done\n" {
		t.Errorf("the child could not clean up: %q, %v", text, err)
	}
	if took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestExitCode0AfterAStopIsNoSuccess(t *testing.T) {
	_, _, err := stopWhenReady(t, exechandler.Command{Shell: "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done"}, because)
	var exit *jobs.ExitError
	var stop *jobs.Stop
	if !errors.As(err, &stop) || errors.As(err, &exit) {
		t.Errorf("got %v, want the stop and no exit code", err)
	}
}

func TestKillByBoundsTheGracePeriod(t *testing.T) {
	for what, within := range map[string]time.Duration{"soon": 500 * time.Millisecond, "passed": -time.Second} {
		_, took, err := stopWhenReady(t, exechandler.Command{
			Shell: `trap "" TERM; echo ready; while :; do sleep 0.05; done`, StopGrace: time.Hour,
		}, func() error { return &jobs.Stop{Reason: "drained", KillBy: time.Now().Add(within)} })
		if err == nil || took > max(within, 0)+2*time.Second {
			t.Errorf("%s: it took %v, %v", what, took, err)
		}
		if within > 0 && took < within-200*time.Millisecond {
			t.Errorf("%s: killed after %v of %v", what, took, within)
		}
	}
}

func TestNothingStartsUnderADoneContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(because())
	// A start of this one finds that it does not exist.
	err := handler(t, exechandler.Command{Argv: []string{"no-such-program-here"}}).Run(ctx, jobs.Task{}, &watched{})
	if stop := (*jobs.Stop)(nil); !errors.As(err, &stop) {
		t.Errorf("got %v, want the stop", err)
	}
}

func TestLeftoversThatHoldTheOutputAreKilled(t *testing.T) {
	t.Parallel()
	start := time.Now()
	out, err := run(t, exechandler.Command{Shell: "sleep 300 & echo child $!"}, "")
	if took := time.Since(start); err != nil || took > 10*time.Second {
		t.Errorf("%v after %v", err, took)
	}
	child := pids(t, out, "child")[0]
	await.Until(t, "the leftover is killed", func() bool { return !program.Alive(child) })
	if _, err := run(t, exechandler.Command{Shell: "sleep 300 & exit 4"}, ""); err == nil || err.Error() != "exit code 4" {
		t.Errorf("the exit code is lost: %v", err)
	}
}

func TestLeftoversWithTheirOwnOutputGoOn(t *testing.T) {
	start := time.Now()
	out, err := run(t, exechandler.Command{Shell: "sleep 300 >/dev/null 2>&1 & echo child $!"}, "")
	if took := time.Since(start); err != nil || took > 1500*time.Millisecond {
		t.Errorf("%v after %v, want no waiting for it", err, took)
	}
	child := pids(t, out, "child")[0]
	if !program.Alive(child) {
		t.Error("the leftover is gone")
	}
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

// A daemon that left the group and kept the output cannot be killed with the group; it must not
// hold up the attempt either.
func TestADaemonCannotHoldUpTheAttempt(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/usr/bin/setsid"); err != nil {
		servers.LeaveOut(t, "needs setsid(1)")
	}
	start := time.Now()
	out, err := run(t, exechandler.Command{Shell: "exec 3<&0; setsid sh -c 'echo daemon $$; exec sleep 300' <&3 & sleep 0.3"}, strings.Repeat("x", 200_000))
	if took := time.Since(start); err != nil || took > 15*time.Second {
		t.Errorf("%v after %v", err, took)
	}
	daemon := pids(t, out, "daemon")[0]
	if !program.Alive(daemon) {
		t.Error("the daemon is gone")
	}
	if err := syscall.Kill(daemon, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

func TestKillEndsTheGracePeriod(t *testing.T) {
	for what, killBy := range map[string]time.Time{"its own grace period": {}, "until KillBy": time.Now().Add(time.Hour)} {
		kill := make(chan struct{})
		var killed time.Time
		_, _, err := stopWhenReady(t, exechandler.Command{
			Shell: `trap "" TERM; echo ready; while :; do sleep 0.05; done`, StopGrace: time.Hour,
		}, func() error {
			time.AfterFunc(300*time.Millisecond, func() { killed = time.Now(); close(kill) })
			return &jobs.Stop{Reason: "drained", KillBy: killBy, Kill: kill}
		})
		if took := time.Since(killed); killed.IsZero() || took > 2*time.Second || err == nil || !strings.HasSuffix(err.Error(), "ended by a signal: killed") {
			t.Errorf("%s: it took %v, %v", what, took, err)
		}
	}
}

func TestGracePeriodIsReported(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{0: exechandler.DefaultStopGrace, 18 * time.Second: 18 * time.Second} {
		if got := handler(t, exechandler.Command{Argv: []string{"a"}, StopGrace: given}).StopGrace(); got != want {
			t.Errorf("%v of a command with %v, want %v", got, given, want)
		}
	}
}
