package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/await"
	programs "github.com/lockstep-scheduler/lockstep/test/program"
)

// tree is a command with descendants of every kind, which ignore SIGTERM: a child, one in a session of its own, and one whose
// parents are gone. It says ready when all have told their numbers.
const tree = `trap "" TERM; live='trap "" TERM; echo $$ >>pids; while :; do sleep 0.05; done'; sh -c "$live" & setsid sh -c "$live" & (setsid sh -c "$live" &)
echo $$ >>pids; until [ "$(wc -l <pids)" -eq 4 ]; do sleep 0.02; done; echo ready; while :; do sleep 0.05; done`

// pids of a tree.
func (s *shell) pids(t *testing.T) (all []int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "pids"))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, pid)
	}
	return all
}

func gone(pids []int) bool {
	for _, pid := range pids {
		if programs.Alive(pid) {
			return false
		}
	}
	return true
}

// A lock that is released by force ends the command with all that it has started.
func TestExecReleasedByForce(t *testing.T) {
	t.Parallel()
	services(t, func(t *testing.T, s *shell) {
		p := s.start(t, "orders", "--", "sh", "-c", tree)
		wrote(t, p, "ready")
		pids := s.pids(t)
		_, holders := s.waiting(t, "orders")
		if len(holders) != 1 || len(pids) != 4 || gone(pids) {
			t.Fatalf("holders %+v, processes %v", holders, pids)
		}
		if freed, err := s.locks.ForceRelease(t.Context(), "orders", holders[0].Token); !freed || err != nil {
			t.Fatal(freed, err)
		}
		if code := p.Exit(t, 20*time.Second); code != exitLost {
			t.Errorf("exit code %d, want %d", code, exitLost)
		}
		if !gone(pids) {
			t.Errorf("of %v some still run", pids)
		}
		if !strings.Contains(p.Log(), "lock released by force: user/orders\nThe command was ended, with all that it had started; exit code 76\n") { // by the warden: only at the deadline
			t.Error("it does not say why, or ended the command late")
		}
	})
}

// A frozen process loses its lock, and its command has ended with all that it had started before the next one holds it.
func TestExecFrozen(t *testing.T) {
	t.Parallel()
	services(t, func(t *testing.T, s *shell) {
		p := s.start(t, "orders", "--", "sh", "-c", tree)
		wrote(t, p, "ready")
		pids := s.pids(t)
		p.Signal(t, syscall.SIGSTOP)
		defer func() { _ = p.Cmd.Process.Signal(syscall.SIGCONT) }()
		script := "for pid in $(cat pids); do state=$(cut -d' ' -f3 /proc/$pid/stat 2>/dev/null); case $state in ''|Z) ;; *) echo overlap;; esac; done"
		code, out, errs := s.run(t, "orders", "--wait", "30s", "--", "sh", "-c", script)
		if code != 0 || out != "" {
			t.Errorf("the next one: exit code %d, %s%s", code, out, errs)
		}
		if !gone(pids) {
			t.Errorf("of %v some still run", pids)
		}
		p.Signal(t, syscall.SIGCONT)
		if code := p.Exit(t, 20*time.Second); code != exitLost {
			t.Errorf("exit code %d, want %d", code, exitLost)
		}
	})
}

// The command of a killed process ends at once, and its lock is free within the ttl.
func TestExecKilled(t *testing.T) {
	t.Parallel()
	s := newShell(t, onRedis(t))
	p := s.start(t, "orders", "--", "sh", "-c", tree)
	wrote(t, p, "ready")
	pids := s.pids(t)
	killed := time.Now()
	p.Kill(t)
	await.Until(t, "all are gone", func() bool { return gone(pids) })
	await.Until(t, "the warden says so", func() bool {
		return strings.Contains(p.Log(), "lockstep-warden: the process that started the commands is gone")
	})
	if strings.Contains(p.Log(), "{") {
		t.Error("what it says is not for people")
	}
	if took := time.Since(killed); took > execTTL {
		t.Errorf("they were gone after %v", took)
	}
	if code, out, errs := s.run(t, "orders", "--wait", "20s", "--", "true"); code != 0 || time.Since(killed) > execTTL+3*time.Second {
		t.Errorf("the next one: exit code %d after %v, %s%s", code, time.Since(killed), out, errs)
	}
}

// A command whose warden is killed is ended, and the message says that the warden is why.
func TestExecOfAKilledWarden(t *testing.T) {
	t.Parallel()
	s := newShell(t, inStore(t))
	p := s.start(t, "orders", "--", "sh", "-c", "echo ready $PPID; while :; do sleep 0.05; done")
	await.Until(t, "it is ready", func() bool { return strings.Contains(p.Log(), "ready ") })
	_, after, _ := strings.Cut(p.Log(), "ready ")
	warden, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(warden, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := p.Exit(t, 10*time.Second); code != exitLost || !strings.Contains(p.Log(), "lock lost: user/orders: the helper process that ends the command was killed\nThe command was ended, with all that it had started; exit code 76\n") {
		t.Errorf("exit code %d", code)
	}
}
