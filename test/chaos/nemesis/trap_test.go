//go:build linux

package nemesis

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// sleeper is a process that does nothing.
func sleeper(t *testing.T) (pid int) {
	t.Helper()
	cmd := exec.Command("sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	return cmd.Process.Pid
}

func TestTrap(t *testing.T) {
	pid := sleeper(t)
	s := newTrap(pid)
	s.spring("first")
	s.spring("second")
	if at, err := s.wait(t.Context(), time.Minute, nil); at != "first" || err != nil {
		t.Errorf("%q, %v", at, err)
	}
	if !poll(t.Context(), 5*time.Second, often, func() bool { return stopped(pid) }) {
		t.Errorf("the process is in state %q", state(pid))
	}
	gone := newTrap(pid)
	gone.pid = -1 << 30 // a group that is not there
	gone.spring("")
	if _, err := gone.wait(t.Context(), time.Minute, nil); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("no process to stop: %v", err)
	}
}

// A moment that comes after the wait stops nothing, since it would not be continued.
func TestTrapGivenUp(t *testing.T) {
	never := errors.New("it never came by")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for ctx, want := range map[context.Context]error{t.Context(): never, over: context.Canceled} {
		pid := sleeper(t)
		s := newTrap(pid)
		if _, err := s.wait(ctx, 10*time.Millisecond, never); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		s.spring("late")
		if len(s.at) > 0 {
			t.Error("it was stopped")
		}
	}
}

// A spring at that moment is waited for, and the process is continued.
func TestTrapGivenUpAtThatMoment(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 {
		pid := sleeper(t)
		s := newTrap(pid)
		s.spring("just then")
		if !poll(t.Context(), 5*time.Second, often, func() bool { return stopped(pid) }) {
			t.Fatalf("the process is in state %q", state(pid))
		}
		at, err := s.wait(over, time.Minute, nil)
		if (at == "") != errors.Is(err, context.Canceled) {
			t.Fatalf("%q, %v", at, err)
		}
		if at == "" && !poll(t.Context(), 5*time.Second, often, func() bool { return !stopped(pid) }) { // the choice is random when both are there
			t.Error("it stands still")
		}
	}
}
