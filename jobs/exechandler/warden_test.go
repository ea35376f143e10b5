//go:build linux

package exechandler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/bound"
	"github.com/lockstep-scheduler/lockstep/internal/process"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/program"
)

// family is a command with descendants of every kind: a child, one in a session of its own, one
// whose parents are gone, and one that forgot its environment. It is ready when all are there. Those
// that get SIGTERM write it to a file of the folder, since the output is not read when the replica is
// gone; those that ignore it go on.
func family(ignores bool, dir string) string {
	heard, born, end := filepath.Join(dir, "heard"), filepath.Join(dir, "born"), "exit"
	if ignores {
		end = ":"
	}
	begin := `trap "echo term $$ >>` + heard + `; ` + end + `" TERM; echo born $$; echo >>` + born + `; `
	const live = `exec >/dev/null 2>&1; while :; do sleep 0.05; done`
	child := "sh -c '" + begin + live + "' & "
	return child + "setsid " + child + "(setsid " + child + ") ; env -i setsid " + child +
		begin + `until [ "$(wc -l <` + born + `)" -eq 5 ]; do sleep 0.02; done; echo ready; ` + live
}

// heard are those that got SIGTERM.
func heard(t *testing.T, dir string) []int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "heard"))
	if err != nil {
		t.Fatal(err)
	}
	return pids(t, string(text), "term")
}

func TestWardenEndsTheCommandsOfAKilledReplica(t *testing.T) {
	t.Parallel()
	for what, ignores := range map[string]bool{"with SIGTERM": false, "ignoring SIGTERM": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			r := startReplica(t, part{Command: exechandler.Command{Shell: family(ignores, dir), StopGrace: time.Second}, TTL: time.Hour, Grace: 2 * time.Second})
			all := pids(t, r.out.String(), "born")
			if len(all) < 5 || len(left(r.task)) < 4 {
				t.Fatalf("started are %v, marked are %v", all, left(r.task))
			}
			killed := time.Now()
			if err := syscall.Kill(-r.Process.Pid, syscall.SIGKILL); err != nil { // its group: the warden is not in it
				t.Fatal(err)
			}
			await.Until(t, "all are gone", func() bool { return len(left(r.task)) == 0 })
			took := time.Since(killed)
			for _, pid := range all {
				await.Until(t, fmt.Sprintf("%d is gone", pid), func() bool { return !program.Alive(pid) })
			}
			if ignores && took < time.Second || took > 6*time.Second {
				t.Errorf("they were gone after %v, with a grace period of a second", took)
			}
			<-r.done // the warden has ended too: the output is closed
			if who := heard(t, dir); len(who) < 5 {
				t.Errorf("only %v of %v got SIGTERM", who, all)
			}
			if !strings.Contains(r.out.String(), `"msg":"the process that started the commands is gone, or gave up its warden; they are being stopped","commands":1`) {
				t.Error("the warden says nothing")
			}
		})
	}
}

func TestWardenEndsTheCommandsOfAFrozenReplicaAtTheirTime(t *testing.T) {
	t.Parallel()
	const ttl, grace = 2 * time.Second, 400 * time.Millisecond
	r := startReplica(t, part{Command: exechandler.Command{Shell: family(true, t.TempDir())}, TTL: ttl, Grace: grace, Renew: true})
	began := time.Now()
	await.Until(t, "its first time is over", func() bool { return time.Since(began) > ttl+500*time.Millisecond })
	if len(left(r.task)) == 0 {
		t.Fatal("it was ended although its time was moved ahead")
	}
	if err := r.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	frozen := time.Now()
	await.Until(t, "all are gone", func() bool { return len(left(r.task)) == 0 })
	if took := time.Since(frozen); took < ttl-ttl/4-grace || took > ttl+2*time.Second {
		t.Errorf("they were gone after %v, at a time that ended %v–%v after the freezing", took, ttl-ttl/4, ttl)
	}
	if err := r.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the replica says that the attempt is lost", func() bool {
		return strings.Contains(r.out.String(), "result: lost: this replica did not extend the attempt's deadline in time, so its command was stopped: its deadline passed: ended by a signal: killed")
	})
}

func TestWardenLeavesTheCommandsOfAReplicaThatGoesOnInTime(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	r := startReplica(t, part{Command: exechandler.Command{Shell: "echo ready; sleep 5; echo done"}, TTL: ttl, Grace: 200 * time.Millisecond, Renew: true})
	if err := r.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(ttl / 2)
	if err := r.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the command succeeds", func() bool { return strings.Contains(r.out.String(), "done\nresult: <nil>\n") })
}

// The time of a command that is being stopped moves on with its replica's: what it has to end by itself is its grace
// period, not only the time left before its deadline.
func TestWardenKeepsTheGracePeriodWhileItsReplicaRuns(t *testing.T) {
	t.Parallel()
	const left, grace = 2 * time.Second, 4 * time.Second
	end := func(d time.Duration) boottime.Instant { return boottime.Now().Add(d) }
	until := bound.New(end(left), 100*time.Millisecond, end(left))
	ctx, cancel := context.WithCancel(bound.With(t.Context(), until))
	defer cancel()
	h := handler(t, exechandler.Command{Shell: `trap "echo term" TERM; echo ready; while :; do sleep 0.05; done`, StopGrace: grace})
	out, done := &watched{}, make(chan error, 1)
	go func() { done <- h.Run(ctx, jobs.Task{}, out) }()
	await.Until(t, "the command is ready", func() bool { return strings.Contains(out.String(), "ready\n") })
	stopped := time.Now()
	cancel()
	await.Until(t, "it was told to stop", func() bool { return strings.Contains(out.String(), "term\n") })
	until.Move(end(time.Hour))
	if err, took := <-done, time.Since(stopped); err == nil || !strings.HasSuffix(err.Error(), "ended by a signal: killed") || took < grace {
		t.Errorf("%v, after %v of a grace period of %v", err, took, grace)
	}
}

// Processes that left the group are stopped with the command, as the group is.
func TestWardenStopsProcessesOutsideTheGroup(t *testing.T) {
	dir, kill := t.TempDir(), make(chan struct{})
	var killed time.Time
	out, _, err := stopWhenReady(t, exechandler.Command{Shell: family(true, dir), StopGrace: time.Hour}, func() error {
		go func() {
			defer func() { killed = time.Now(); close(kill) }()
			for hears := 0; hears < 5 && t.Context().Err() == nil; time.Sleep(5 * time.Millisecond) {
				text, _ := os.ReadFile(filepath.Join(dir, "heard"))
				hears = strings.Count(string(text), "term")
			}
		}()
		return &jobs.Stop{Reason: "timeout after 1m0s", Kill: kill}
	})
	if took := time.Since(killed); err == nil || !strings.HasSuffix(err.Error(), "ended by a signal: killed") || took > 5*time.Second {
		t.Errorf("got %v, %v after the kill", err, took)
	}
	for _, pid := range pids(t, out, "born") {
		if program.Alive(pid) {
			t.Errorf("%d is still there", pid)
		}
	}
}

func TestWardenStartsNothingTooLate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "started")
	h := handler(t, exechandler.Command{Argv: []string{"touch", file}})
	over, far := boottime.Now().Add(-time.Millisecond), boottime.Now().Add(time.Hour)
	for what, until := range map[string]*bound.Bound{
		"the session is over": bound.New(over, time.Second, far), "its time is over": bound.New(far, time.Second, over),
	} {
		err := h.Run(bound.With(t.Context(), until), jobs.Task{}, &watched{})
		if _, started := os.Stat(file); !errors.Is(err, abort.ErrNotStarted) || started == nil {
			t.Errorf("%s: %v, started: %v", what, err, started == nil)
		}
	}
}

// wardenOf is the process that starts commands here.
func wardenOf(t *testing.T) int {
	t.Helper()
	out, err := run(t, exechandler.Command{Shell: "echo parent $PPID"}, "")
	if err != nil {
		t.Fatal(err)
	}
	pid := pids(t, out, "parent")[0]
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if want := process.Warden + "\x00of\x00" + process.Self().Tag() + "\x00"; err != nil || string(line) != want {
		t.Fatalf("the parent is %q, %v", line, err)
	}
	return pid
}

func TestWardenIsKilled(t *testing.T) {
	warden := wardenOf(t)
	out, done := &watched{}, make(chan error, 1)
	h := handler(t, exechandler.Command{Shell: family(true, t.TempDir())})
	go func() { done <- h.Run(t.Context(), jobs.Task{ID: t.Name()}, out) }()
	await.Until(t, "the command is ready", func() bool { return strings.Contains(out.String(), "ready\n") })
	if err := syscall.Kill(warden, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, abort.ErrLost) || !strings.Contains(err.Error(), "the warden ended") {
		t.Errorf("got %v", err)
	}
	if pids := left(t.Name()); len(pids) > 0 {
		t.Errorf("%v are still there", pids)
	}
	for _, pid := range pids(t, out.String(), "born") {
		_ = syscall.Kill(pid, syscall.SIGKILL) // the one without environment cannot be assigned
	}
	if again := wardenOf(t); again == warden {
		t.Error("the ended one started a command")
	}
}

// With the replica killed or frozen, only the kernel can do it.
func TestWardenEndsWithItsReplica(t *testing.T) {
	t.Parallel()
	r := startReplica(t, part{Command: exechandler.Command{Shell: "echo warden $PPID; echo ready; exec sleep 300"}, TTL: time.Hour, Grace: time.Second})
	warden, command := pids(t, r.out.String(), "warden")[0], left(r.task)
	if err := r.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(warden, syscall.SIGKILL); err != nil || len(command) != 1 {
		t.Fatal(err, command)
	}
	await.Until(t, "the command is gone", func() bool { return !program.Alive(command[0]) })
}

func TestWardenKeepsNothing(t *testing.T) {
	warden := wardenOf(t)
	open := func(pid string) int {
		entries, err := os.ReadDir("/proc/" + pid + "/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	here, there := open("self"), open(strconv.Itoa(warden))
	h := handler(t, exechandler.Command{Shell: `cat; (sleep 0.01 &) >/dev/null 2>&1`})
	some := make(chan struct{}, 20)
	var all sync.WaitGroup
	for i := range 500 {
		some <- struct{}{}
		all.Go(func() {
			defer func() { <-some }()
			var out bytes.Buffer
			if err := h.Run(t.Context(), jobs.Task{ID: fmt.Sprint(i), Payload: fmt.Append(nil, i)}, &out); err != nil || out.String() != fmt.Sprint(i) {
				t.Errorf("%q, %v", out.String(), err)
			}
		})
	}
	all.Wait()
	await.Until(t, "as many files are open as before", func() bool { return open("self") <= here && open(strconv.Itoa(warden)) <= there })
	await.Until(t, "the warden has no children left, zombies included", func() bool {
		children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", warden))
		if err != nil || len(children) == 0 {
			t.Fatal("the kernel does not list children", err)
		}
		for _, file := range children {
			if text, err := os.ReadFile(file); err == nil && len(bytes.TrimSpace(text)) > 0 {
				return false
			}
		}
		return true
	})
	if wardenOf(t) != warden {
		t.Error("it was replaced")
	}
}

func TestWardenRunsManyAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	h := handler(t, exechandler.Command{Shell: `echo ready; exec sleep 300`})
	out := &watched{}
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			err := h.Run(ctx, jobs.Task{ID: fmt.Sprintf("many-%d", i)}, out)
			if exit := (*jobs.ExitError)(nil); !errors.As(err, &exit) || exit.Text != "ended by a signal: terminated" {
				t.Error(err)
			}
		})
	}
	await.Until(t, "all run", func() bool { return strings.Count(out.String(), "ready\n") == 200 })
	cancel(because())
	all.Wait()
}

// A warden cannot be started from a shell.
func TestWardenByHand(t *testing.T) {
	out, err := run(t, exechandler.Command{Argv: []string{"/bin/bash", "-c", "exec -a lockstep-warden " + os.Args[0]}}, "")
	if err != nil || out != "a warden is started by the replica whose commands it runs, not by hand\n" {
		t.Errorf("%q, %v", out, err)
	}
}
