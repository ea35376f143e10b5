package exechandler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/bound"
	"github.com/lockstep-scheduler/lockstep/jobs/exechandler/internal/warden"
)

// maxGrace is the longest grace period of commands whose replica is gone.
const maxGrace = 2 * time.Second

// current is the warden of this process.
var current struct {
	sync.Mutex
	*warden.Warden
	dir string // its working directory
}

// currentWarden returns the warden of this process, a new one if it has ended: plain if its log is for people.
func currentWarden(plain bool) (w *warden.Warden, dir string, err error) {
	current.Lock()
	defer current.Unlock()
	if current.Warden == nil || current.Gone() {
		w, err := warden.Spawn(plain)
		if err != nil {
			return nil, "", err
		}
		current.Warden = w
		current.dir, _ = os.Getwd() // unknown differs from every other
	}
	return current.Warden, current.dir, nil
}

// underWarden is a command of the warden. Until the warden reports its end:
//
//  1. whenever the deadline moves, tell the warden, also while the command is being stopped: a grace period may be longer
//     than what is left
//  2. when the context is done, have the warden stop the command within its grace period
//  3. when the attempt is told to end at once, have it killed
//  4. give the warden up if it has reported no end noReportAfter the end of the grace period
type underWarden struct {
	*Handler
	program string
	*warden.Attempt
	moves warden.Moves
}

func (c *command) startWarded(ctx context.Context) (running, error) {
	order := warden.Command{Program: c.program, Argv: raw(c.argv), Env: raw(c.env), Marks: raw(c.marks), Grace: min(c.command.StopGrace, maxGrace)}
	if l := c.limits; l != nil {
		order.Nice, order.Space, order.Enter = l.Nice, l.space(), l.enters()
		if l.group != nil {
			order.Folder = l.group.Folder
		}
	}
	b := bound.Of(ctx)
	if b != nil {
		order.StartBy, order.Grace = b.StartBy().Stamp(), min(order.Grace, b.Grace())
	}
	moves := movesOf(b)
	for try := 0; ; try++ {
		w, dir, err := currentWarden(c.plain)
		if err != nil {
			return nil, explain(c.program, c.command.Dir, err)
		}
		order.Dir = c.dir(dir)
		a, err := w.Start(order, moves, c.in, c.out, c.errs)
		switch {
		case err == nil:
			return &underWarden{c.Handler, c.program, a, moves}, nil
		case errors.Is(err, warden.ErrGone) && try == 0: // its end was not noticed before
		case errors.Is(err, warden.ErrGone), errors.Is(err, warden.ErrLate):
			return nil, fmt.Errorf("%w: %w", abort.ErrNotStarted, err)
		case errors.Is(err, warden.ErrDied):
			return nil, fmt.Errorf("%w: %w", abort.ErrLost, err)
		default:
			return nil, explain(c.program, c.command.Dir, err)
		}
	}
}

// dir is the working directory of the command, for a warden that works in its own.
func (c *command) dir(wardens string) string {
	if filepath.IsAbs(c.command.Dir) {
		return c.command.Dir
	}
	here, err := os.Getwd()
	if err != nil || here == wardens {
		return c.command.Dir
	}
	return filepath.Join(here, c.command.Dir)
}

func (p *underWarden) attend(ctx context.Context) (syscall.WaitStatus, error, error) {
	stopped := p.stop(ctx)
	end := p.End()
	switch {
	case end.Err != nil:
		return 0, nil, fmt.Errorf("%w: %w", abort.ErrLost, end.Err)
	case end.Errno != 0:
		return 0, nil, explain(p.program, p.command.Dir, end.Errno)
	case end.Why == "":
		return end.Status, nil, nil // it ended by itself
	case stopped == nil && end.Why == warden.Alone:
		return 0, nil, fmt.Errorf("%w: the warden was disconnected from this replica and stopped the command", abort.ErrLost)
	case stopped == nil:
		return 0, nil, fmt.Errorf("%w: this replica did not extend the attempt's deadline in time, so its command was stopped: %w",
			abort.ErrLost, verdict(end.Status, abort.ErrOverdue, ""))
	}
	return end.Status, stopped, nil
}

// stop waits for the end of the command, and stops it once ctx is done. It returns the cause of a stop.
func (p *underWarden) stop(ctx context.Context) (cause error) {
	until, moved := p.moves()
	p.Move(until) // it may have moved since the start
	done := ctx.Done()
	var kill <-chan struct{}
	var silent <-chan time.Time // the warden has not reported the end in time
	for {
		select {
		case <-p.Ended():
			return cause
		case <-moved:
			until, moved = p.moves()
			p.Move(until)
		case <-done:
			var grace time.Duration
			cause, done = context.Cause(ctx), nil
			grace, kill = p.grace(cause)
			p.Stop(grace)
			silent = time.After(max(grace, 0) + noReportAfter)
		case <-kill:
			p.Stop(0)
			kill, silent = nil, time.After(noReportAfter)
		case <-silent:
			p.GiveUp()
		}
	}
}

// noReportAfter is how long after the end of a grace period the warden must have reported the end.
const noReportAfter = 15 * time.Second

func movesOf(b *bound.Bound) warden.Moves {
	return func() ([]boottime.Stamp, <-chan struct{}) {
		if b == nil {
			return nil, nil
		}
		until, moved := b.Until()
		all := make([]boottime.Stamp, len(until))
		for i, m := range until {
			all[i] = m.Stamp()
		}
		return all, moved
	}
}

func raw(list []string) [][]byte {
	all := make([][]byte, len(list))
	for i, s := range list {
		all[i] = []byte(s)
	}
	return all
}
