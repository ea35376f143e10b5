//go:build linux

package nemesis

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"
)

// trap stops a process, once, at the first moment that fits.
type trap struct {
	pid  int
	once sync.Once
	at   chan string
	err  error // of the signal
}

func newTrap(pid int) *trap { return &trap{pid: pid, at: make(chan string, 1)} }

// spring stops the process at a moment that fits, if it is the first; at says what it was doing. Once
// wait has returned it does nothing.
func (t *trap) spring(at string) {
	t.once.Do(func() {
		t.err = syscall.Kill(t.pid, syscall.SIGSTOP)
		t.at <- at
	})
}

// wait returns what the process was doing when it was stopped. It returns the error never if no moment has
// fitted within the limit; then the process is not stopped later either.
func (t *trap) wait(ctx context.Context, limit time.Duration, never error) (string, error) {
	var err error
	select {
	case at := <-t.at:
		return at, t.err
	case <-time.After(limit):
		err = never
	case <-ctx.Done():
		err = ctx.Err()
	}
	t.once.Do(func() {})
	select {
	case <-t.at:
		if t.err == nil {
			err = errors.Join(err, goOn(t.pid))
		}
	default:
	}
	return "", err
}
