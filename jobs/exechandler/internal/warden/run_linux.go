package warden

import (
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-scheduler/lockstep/internal/process"
)

// socket is the descriptor of the socket to the replica.
const socket = 3

// ErrByHand is the error of Run in a process that was started from a shell.
var ErrByHand = errors.New("a warden is started by the replica whose commands it runs, not by hand")

// Run is the main function of a warden. It keeps the thread of its goroutine.
//
//  1. adopt the descendants of commands, and catch the signals that may go to all processes of the replica
//  2. wait for orders, the end of a process, or the keeper's timer; take one step of the keeper; repeat
//  3. when the replica is gone, tell all commands to stop
//  4. kill those that outlast their grace period; end when none is left
func Run(log *slog.Logger) error {
	if domain, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || domain != unix.AF_UNIX {
		return ErrByHand
	}
	unix.CloseOnExec(socket) // a command must not keep the socket open after the warden has ended
	s, err := newStream(os.NewFile(socket, "replica"))
	if err != nil {
		return err
	}
	_ = os.WriteFile("/proc/self/comm", []byte(process.Warden), 0) // for ps
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: "/dev/null", Err: err}
	}
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	// A signal to end the replica may go to all its processes; the warden ends after it. The signals are caught
	// and not ignored, since commands would inherit that.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)

	in := newInbox(s, log)
	go in.watch()
	mail := newMailbox()
	go mail.deliver(s)
	k := newKeeper(mail.post, log, null)
	timer := time.NewTimer(0)
	for !k.alone {
		arrived, open := false, true
		select {
		case _, open = <-in.arrived:
			arrived = true
		case <-died:
		case <-timer.C:
		}
		now := k.now()
		orders, gone := in.read()
		k.receive(orders)
		if gone || !open {
			k.orphaned()
		} else if arrived {
			in.emptied <- struct{}{}
		}
		timer.Reset(k.step(now))
	}
	for len(k.all) > 0 {
		select {
		case <-died:
		case <-timer.C:
		}
		timer.Reset(k.look(k.now()))
	}
	return nil
}
