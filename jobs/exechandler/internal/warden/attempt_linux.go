package warden

import (
	"os"
	"syscall"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
)

// Attempt is a command of the warden.
type Attempt struct {
	w       *Warden
	id      uint64
	marks   [][]byte
	folder  *os.File // of its control group, nil: none
	started chan report
	ended   chan struct{}
	group   int
	end     End
}

// End is how a command ended.
type End struct {
	Status syscall.WaitStatus
	Why    Why
	Errno  syscall.Errno // not 0: it could not be started after all
	Err    error         // ErrDied: nothing else is known
}

func (a *Attempt) begun(r report) (*Attempt, error) {
	switch {
	case r.Late:
		return nil, ErrLate
	case r.Errno != 0:
		return nil, syscall.Errno(r.Errno)
	}
	return a, nil
}

// Group is the number of the group that the command leads, and of its process.
func (a *Attempt) Group() int { return a.group }

// Ended is closed when the command has ended and, if it was stopped, everything that it had started.
func (a *Attempt) Ended() <-chan struct{} { return a.ended }

// End is how it ended, once Ended is closed.
func (a *Attempt) End() End { return a.end }

// Move sets the deadline of the command to the last of the moments. Without any nothing changes.
func (a *Attempt) Move(until []boottime.Stamp) {
	if len(until) > 0 {
		a.w.order(order{ID: a.id, Until: until})
	}
}

// Stop sends SIGTERM to the command and its descendants, and SIGKILL after the grace period (≥ 0). A second
// call can only make it sooner. It does not wait.
func (a *Attempt) Stop(grace time.Duration) {
	now := boottime.Awake()
	killBy := now.Add(max(grace, 0)).Stamp()
	a.w.order(order{ID: a.id, KillBy: &killBy, Asked: now.Stamp()})
}

// Signal sends a signal to the group of the command, unless that has ended. It does not wait.
func (a *Attempt) Signal(s syscall.Signal) { a.w.order(order{ID: a.id, Signal: int(s)}) }

// GiveUp kills the warden, with all its commands: it does not answer.
func (a *Attempt) GiveUp() { a.w.give() }
