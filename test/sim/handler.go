package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// handler is the handler of every job and pool of one process.
type handler struct {
	w       *world
	r       *replica
	version int
}

// Describe makes the definitions of all processes the same.
func (*handler) Describe() string { return "simulated" }

// behaviour is the behaviour of one attempt.
type behaviour struct {
	takes   time.Duration
	end     string // "", fail, cancel, panic, goexit, retry-after
	ignores bool   // ignores its context
	code    int    // of a failure; 0: none
}

func (h *handler) behave(t jobs.Task) behaviour {
	p := h.w.plan
	if t.Pool == naming.NotificationsPool {
		return sending(p, t)
	}
	d := keyed(p.Seed, t.IdempotencyKey, t.Attempt)
	var b behaviour
	switch d.IntN(10) {
	case 0, 1, 2, 3: // at once
	case 4, 5, 6:
		b.takes = d.between(time.Millisecond, 200*time.Millisecond)
	case 7, 8:
		b.takes = d.between(200*time.Millisecond, 3*time.Second)
	default:
		b.takes = d.between(3*time.Second, 12*time.Second)
	}
	if p.slow(t) {
		b.takes = d.between(4*time.Second, 9*time.Second)
	}
	b.ignores = d.chance(0.1)
	if d.chance(0.25) {
		b.end = pick(d, "fail", "fail", "fail", "cancel", "panic", "goexit", "retry-after")
	}
	b.code = drawCode(keyed(p.Seed, t.IdempotencyKey+"/code", t.Attempt))
	return b
}

const snoozeFor = 700 * time.Millisecond

// snoozes is drawn for each token: the next attempt after a snooze has the same number.
func snoozes(p *plan, t jobs.Task) bool {
	return keyed(p.Seed, t.IdempotencyKey+"/snooze", int(t.Token)).chance(0.06)
}

var errCut = errors.New("simulated: the process is dead")

// Run behaves as the seed says, and keeps the independent ledger.
func (h *handler) Run(ctx context.Context, t jobs.Task, out io.Writer) error {
	frozen := h.r.isFrozen()
	if !h.r.goOn() {
		return errCut
	}
	b := h.behave(t)
	run := h.w.started(h, t, b, frozen)
	if run == nil {
		return errCut
	}
	if err := report(t); err != nil {
		return err
	}
	if _, err := io.WriteString(out, wrote(t.Token)); err != nil {
		return err
	}
	stopped := ctx.Done()
	if b.ignores {
		stopped = nil
	}
	if b.takes > 0 {
		timer := time.NewTimer(b.takes)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-stopped:
		case <-h.r.dead:
		}
	}
	if !h.r.goOn() {
		return errCut
	}
	var err error
	stops := ctx.Err() != nil
	if b.end == "" && snoozes(h.w.plan, t) {
		err = fmt.Errorf("simulated: %w", jobs.Snooze(snoozeFor))
	} else if !b.ignores && ctx.Err() != nil {
		err = fmt.Errorf("stopped: %w", context.Cause(ctx))
	}
	fmt.Fprintf(out, "%s takes %v", b.end, b.takes)
	switch {
	case err != nil:
	case b.end == "fail":
		err = fails(b.code, "simulated failure")
	case b.end == "cancel":
		err = jobs.Cancel(errors.New("simulated"))
	case b.end == "retry-after":
		err = jobs.RetryAfter(300*time.Millisecond, fails(b.code, "simulated"))
	}
	_, run.snoozed = jobs.SnoozeDelay(err)
	_, run.asked = jobs.RetryDelay(err)
	run.code, run.stopped = jobs.FailureCode(err), stops || ctx.Err() != nil
	h.w.ended(run, err == nil && b.end != "panic" && b.end != "goexit")
	switch {
	case err != nil:
	case b.end == "panic":
		panic("simulated")
	case b.end == "goexit":
		runtime.Goexit()
	}
	return err
}
