//go:build linux

package arena

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

const (
	execWait     = 5 * time.Second // for the lock
	betweenExecs = 4 * time.Second // two runs beside one replica, at least; the jobs and the pool with that lock need it, too
	struckEach   = 15              // runs: one of them beside each replica is killed, or frozen
)

// Exec runs "scheduler locks exec" beside each replica until ctx ends, with the replica's configuration and over its edges,
// on the key that two jobs and a pool hold.
func (a *Arena) Exec(ctx context.Context) error {
	log, err := history.OpenLog[history.Exec](a.Dir, history.ExecsFile)
	if err != nil {
		return err
	}
	defer log.Close()
	failed := make([]error, len(a.Replicas))
	var running sync.WaitGroup
	for i, r := range a.Replicas {
		running.Go(func() { failed[i] = a.execs(ctx, r, i, log) })
	}
	running.Wait()
	return errors.Join(failed...)
}

// execs runs one after the other:
//
//  1. pause, until ctx ends
//  2. run a command under the lock; now and then kill or freeze what holds it, or waits for it; once more if it had ended before, and none
//     was struck yet while its command worked
func (a *Arena) execs(ctx context.Context, r *Replica, number int, log *history.Log[history.Exec]) error {
	for n, owed := 0, false; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(betweenExecs + rand.N(betweenExecs/2)):
		}
		e := history.Exec{Name: fmt.Sprintf("%s.%d", r.ID, n), Beside: r.ID, Key: lockOfRun, Wait: execWait, How: history.ExecEnded, Log: "exec-" + r.ID + ".log"}
		if turn := n + struckEach - number*struckEach/len(a.Replicas); turn%struckEach == 1 || owed {
			e.How = []string{history.ExecKilled, history.ExecFrozen}[(turn/struckEach+number+1)%2]
		}
		strike := e.How != history.ExecEnded
		err := a.exec(r, &e, n%3 == 2)
		owed = strike && e.Struck.IsZero() && !a.struckAtWork.Load()
		if err == nil {
			err = log.Add(e)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
	}
}

// exec runs one, and fills in when and how it ended. One that is to be struck has a command that would work for long.
func (a *Arena) exec(r *Replica, e *history.Exec, astray bool) error {
	log, err := os.OpenFile(filepath.Join(a.Dir, history.LogsDir, e.Log), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	takes := 50*time.Millisecond + rand.N(150*time.Millisecond)
	if e.How != history.ExecEnded {
		takes = 10 * time.Second
	}
	cmd := exec.Command(a.binary, "locks", "exec", "-c", r.first, e.Key, "--wait", e.Wait.String(), "--",
		a.locked, "-file", a.lockedFile(), "-exec", e.Name, "-takes", takes.String(), fmt.Sprintf("-astray=%t", astray))
	cmd.Dir = filepath.Dir(r.Config)
	cmd.Env = append(os.Environ(), "TMPDIR="+a.tmp)
	cmd.Stdout, cmd.Stderr = log, log
	e.Began = time.Now()
	if err := servers.Start(cmd); err != nil {
		return err
	}
	r.runsBeside("exec", cmd.Process.Pid)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = cmd.Wait() // its state says more
		e.Ended, e.Exit = time.Now(), cmd.ProcessState.ExitCode()
	}()
	if e.How != history.ExecEnded {
		a.strikeExec(cmd.Process, e, gone)
	}
	<-gone
	return nil
}

// strikeExec kills it, or stops it for two ttls: soon after its command has begun, or while it has waited for long, if another one was struck
// while its command worked.
func (a *Arena) strikeExec(p *os.Process, e *history.Exec, gone <-chan struct{}) {
	works := func() bool {
		return slices.ContainsFunc(descendants(p.Pid), func(pid int) bool { return runs(pid, a.locked) })
	}
	patience := 2 * execWait // it ends before, with or without the lock
	if a.struckAtWork.Load() {
		patience = execWait / 2
	}
	working, ended := false, false
	for long := time.Now().Add(patience); !working && !ended && time.Now().Before(long); working = works() {
		select {
		case <-gone:
			ended = true
		case <-time.After(100 * time.Millisecond):
		}
	}
	strike := syscall.SIGKILL
	if e.How == history.ExecFrozen {
		strike = syscall.SIGSTOP
	}
	select {
	case <-gone:
		e.How = history.ExecEnded
		return
	case <-time.After(rand.N(time.Second)):
	}
	if p.Signal(strike) != nil { // it has just ended
		e.How = history.ExecEnded
		return
	}
	e.Struck = time.Now()
	if working {
		a.struckAtWork.Store(true)
	}
	if strike == syscall.SIGSTOP {
		time.Sleep(2 * LockTTL)
		_ = p.Signal(syscall.SIGCONT) // if something ended it meanwhile, its exit code says so
	}
}

// lockedFile has what the commands say.
func (a *Arena) lockedFile() string { return filepath.Join(a.Dir, history.LockedFile) }
