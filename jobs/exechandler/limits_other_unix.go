//go:build unix && !linux

package exechandler

import (
	"fmt"
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// limited are the limits of one attempt. A nil one has none.
type limited struct{ Limits }

func (l Limits) limit() (*limited, error) {
	if l == (Limits{}) {
		return nil, nil
	}
	return &limited{l}, nil
}

func (a *limited) attributes(*syscall.SysProcAttr) {}

func (a *limited) kill() {}

// finish writes to out what held.
func (a *limited) finish(out io.Writer, _ syscall.WaitStatus) (killed bool) {
	if a == nil {
		return false
	}
	note := a.Limits.String()
	if missing := LimitsHeld().Missing(a.Limits); missing != "" {
		note += "; " + missing
	}
	fmt.Fprintf(out, "\n[limits: %s]\n", note)
	return false
}

func (a *limited) release(bool) {}

// nicer has start start a process, and adds the limit's niceness to that of its group at once.
func (a *limited) nicer(start func() error, group func() int) error {
	err := start()
	if a == nil || a.Nice == 0 || err != nil {
		return err
	}
	if now, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		_ = unix.Setpriority(unix.PRIO_PGRP, group(), now+a.Nice)
	}
	return nil
}
