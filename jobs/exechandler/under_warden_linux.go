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

// maxGrace is what commands have to end when nobody is left to tell them more.
const maxGrace = 2 * time.Second

// hired is the warden of this process.
var hired struct {
	sync.Mutex
	*warden.Warden
	dir string // where it works
}

// hire returns this process's warden, a new one if there is none that lives.
func hire() (w *warden.Warden, dir string, err error) {
	hired.Lock()
	defer hired.Unlock()
	if hired.Warden == nil || hired.Gone() {
		w, err := warden.Spawn()
		if err != nil {
			return nil, "", err
		}
		hired.Warden = w
		hired.dir, _ = os.Getwd() // unknown is different from every other
	}
	return hired.Warden, hired.dir, nil
}

// warded is a command that the warden has started.
type warded struct {
	*Handler
	*warden.Attempt
	moves warden.Moves // nil: never
}

func (c *command) startWarded(ctx context.Context) (running, error) {
	order := warden.Command{Program: c.program, Argv: raw(c.argv), Env: raw(c.env), Marks: raw(c.marks), Grace: min(c.command.StopGrace, maxGrace)}
	var moves warden.Moves
	if b := bound.Of(ctx); b != nil {
		order.StartBy, order.Grace = b.StartBy().Stamp(), min(order.Grace, b.Grace())
		moves = movesOf(b)
	}
	for try := 0; ; try++ {
		w, dir, err := hire()
		if err != nil {
			return nil, explain(c.program, c.command.Dir, err)
		}
		order.Dir = c.dir(dir)
		a, err := w.Start(order, moves, c.in, c.out)
		switch {
		case err == nil:
			return &warded{c.Handler, a, moves}, nil
		case errors.Is(err, warden.ErrGone) && try == 0: // it died while nobody looked
		case errors.Is(err, warden.ErrGone), errors.Is(err, warden.ErrLate):
			return nil, fmt.Errorf("%w: %w", abort.ErrNotStarted, err)
		case errors.Is(err, warden.ErrDied):
			return nil, fmt.Errorf("%w: %w", abort.ErrLost, err)
		default:
			return nil, explain(c.program, c.command.Dir, err)
		}
	}
}

// dir is where the command is to work, for a warden that works in its own folder.
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

func (p *warded) group() int { return p.Group() }

func (p *warded) attend(ctx context.Context) (syscall.WaitStatus, error, error) {
	stopped := p.stop(ctx)
	end := p.End()
	switch {
	case end.Err != nil:
		return 0, nil, fmt.Errorf("%w: %w", abort.ErrLost, end.Err)
	case end.Why == "":
		return end.Status, nil, nil // it ended by itself, whatever happened meanwhile
	case stopped == nil && end.Why == warden.Alone:
		return 0, nil, fmt.Errorf("%w: the warden could not hear this replica any more, so it stopped the command", abort.ErrLost)
	case stopped == nil:
		return 0, nil, fmt.Errorf("%w: this replica did not renew the attempt's time in time, so its command was stopped: %w",
			abort.ErrLost, verdict(end.Status, errOverdue))
	}
	return end.Status, stopped, nil
}

var errOverdue = errors.New("its time was over")

// stop waits for the end of the command, moves the end of its time, and stops it once ctx is done. Its time moves
// on while it is being stopped: a grace period may be longer than what is left of it. stop returns the cause of a stop.
func (p *warded) stop(ctx context.Context) error {
	var moved <-chan struct{}
	move := func() {
		var until []boottime.Stamp
		until, moved = p.moves()
		p.Move(until)
	}
	if p.moves != nil {
		move() // it may have moved since the start
	}
	for waiting := true; waiting; {
		select {
		case <-p.Ended():
			return nil
		case <-ctx.Done():
			waiting = false
		case <-moved:
			move()
		}
	}
	cause := context.Cause(ctx)
	grace, kill := p.grace(cause)
	p.Stop(grace)
	deaf := time.NewTimer(max(grace, 0) + deafAfter)
	defer deaf.Stop()
	for {
		select {
		case <-p.Ended():
			return cause
		case <-moved:
			move()
		case <-kill:
			p.Stop(0)
			deaf.Reset(deafAfter)
			kill = nil
		case <-deaf.C:
			p.GiveUp()
		}
	}
}

// deafAfter is how long after the end of a grace period a warden must have said that all is over.
const deafAfter = 15 * time.Second

func movesOf(b *bound.Bound) warden.Moves {
	return func() ([]boottime.Stamp, <-chan struct{}) {
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
