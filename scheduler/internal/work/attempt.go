package work

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/internal/bound"
	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// stopped says why an attempt was told to stop.
type stopped int

const (
	notStopped stopped = iota
	stopTimeout
	stopCancelled
	stopDrained
	stopExpired // another replica may start the task from now on
	stopLockLost
)

// code is the reason that the ledger records.
func (s stopped) code() reason.Code {
	return [...]reason.Code{
		stopTimeout: reason.Timeout, stopCancelled: reason.Cancelled, stopDrained: reason.Drained, stopExpired: reason.SessionExpired,
		stopLockLost: reason.LockLost,
	}[s]
}

// attempt is one execution that is under way on this replica.
//
//	running ──▶ told to stop: the first reason holds ──▶ told to end at once: at killBy, which may only become earlier
//	   └────────────────┴─────────────────────────────────────────┴──▶ over: the handler has returned
type attempt struct {
	task    *jobs.Task
	session string
	work    plan.Execution
	locks   []heldLock
	bound   *bound.Bound // what the handler knows of its deadline
	reports reports      // what the handler has reported
	live    *live        // what it writes

	// Of logUnresponsive alone:
	told  time.Time // when it was first found to be told to stop
	logAt time.Time // when the log says that it goes on

	toldLease time.Time // of expire alone: the end of the leases that the handler was told last

	telling sync.Mutex
	ends    []toldEnd // of an attempt with locks: what the handler was told

	// Of its context, see begin:
	cancel  context.CancelCauseFunc
	cause   func() error       // why it is done
	timeout *jobs.Stop         // the cause if it is done by its deadline
	kill    context.CancelFunc // tells the handler to end at once

	mu       sync.Mutex
	mayRun   time.Time // database time; zero: as long as the session is trusted
	why      stopped
	reason   string
	killBy   time.Time // zero: the handler's own grace period holds
	stopKill func()    // stops the timer that kills; nil: there is none
	over     bool      // the handler has returned
	orphaned bool      // its session has expired: another replica may have started the task

	elsewhere elsewhere
}

// begin makes the context of the handler. Its deadline is the timeout: a bound that heartbeats move cannot be stated in
// advance. Call end when the handler has returned.
func (a *attempt) begin(ctx context.Context) (_ context.Context, end func()) {
	killed, kill := context.WithCancel(context.Background())
	a.kill = kill
	a.timeout = &jobs.Stop{Reason: fmt.Sprintf("timeout after %v", a.work.Timeout), Kill: killed.Done()}
	ctx, a.cancel = context.WithCancelCause(ctx)
	ctx, stopTimer := context.WithTimeoutCause(ctx, a.work.Timeout, a.timeout)
	a.cause = func() error { return context.Cause(ctx) }
	return ctx, func() {
		stopTimer()
		a.cancel(nil)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.over = true
		if a.stopKill != nil {
			a.stopKill()
		}
	}
}

// stop tells the attempt to stop; with a zero killBy its own grace period holds. The first call sets the reason, unless the
// timeout was earlier; later calls can only make it end earlier.
func (a *attempt) stop(why stopped, reason string, killBy time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.why == notStopped {
		a.cancel(&jobs.Stop{Reason: reason, KillBy: killBy, Kill: a.timeout.Kill})
		a.why, a.reason = why, reason
		a.noteTimeout()
	}
	if killBy.IsZero() || a.over { // zero: its own grace period, which the handler keeps itself
		return
	}
	if a.killBy.IsZero() || killBy.Before(a.killBy) {
		a.killBy = killBy
		if a.stopKill != nil {
			a.stopKill()
		}
		a.stopKill = wake.After(time.Until(killBy.Add(-killMargin)), a.kill)
	}
}

// grace is how long the handler may take to end after it was told to stop. StopGrace is code of the handler: if it
// panics, the panic is logged, and usual holds.
func (a *attempt) grace(usual time.Duration, log *slog.Logger) (grace time.Duration) {
	defer func() {
		if p := recover(); p != nil {
			log.Warn("StopGrace of a handler panicked; the replica's own grace period holds",
				"task", a.task.ID, "job", a.task.Job, "pool", a.task.Pool, "kind", a.task.Kind, "panic", fmt.Sprint(p))
			grace = usual
		}
	}()
	if h, ok := unwrap.As[jobs.Graceful](a.work.Handler); ok {
		return h.StopGrace()
	}
	return usual
}

func (a *attempt) stoppedBy() (stopped, string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.why == notStopped {
		a.noteTimeout()
	}
	return a.why, a.reason
}

// noteTimeout makes the timeout the reason if the context was ended by it: the handler sees the same. The caller holds a.mu.
func (a *attempt) noteTimeout() {
	if a.timeout != nil && a.cause() == error(a.timeout) {
		a.why, a.reason = stopTimeout, a.timeout.Reason
	}
}

// result is the result of an attempt whose handler returned err.
func (a *attempt) result(err error, out []byte, spans clip.Spans) ledger.Result {
	r := ledger.Result{TaskID: a.task.ID, Token: a.task.Token, Verdict: ledger.Ended, Output: out, Spans: spans, PauseOn: ledger.PauseOn{Pool: a.task.Pool, PauseOn: a.work.PauseOn}}
	if err == nil {
		r.State = jobs.StateSucceeded
		return r
	}
	r.Error, r.Code = err.Error(), reason.Error
	if exit := (*jobs.ExitError)(nil); errors.As(err, &exit) {
		r.ExitCode, r.Code = &exit.Code, reason.ExitCode
		if exit.OutOfMemory {
			r.Code = reason.MemoryLimit
		}
	}
	if errors.Is(err, errPanic) {
		r.Code = reason.Panic
	}
	why, said := a.stoppedBy()
	if why != notStopped {
		r.Reason, r.Code = said, why.code()
	}
	delay, snoozed := jobs.SnoozeDelay(err)
	switch {
	case errors.Is(err, abort.ErrNoRoom) && why != stopCancelled:
		return ledger.Result{TaskID: r.TaskID, Token: r.Token, Verdict: ledger.HandBack, Reason: err.Error(), Code: reason.NoRoom}
	case errors.Is(err, abort.ErrNotStarted) && why != stopCancelled:
		return ledger.Result{TaskID: r.TaskID, Token: r.Token, Verdict: ledger.HandBack}
	case snoozed && why != stopCancelled:
		return ledger.Result{TaskID: r.TaskID, Token: r.Token, Verdict: ledger.Snoozed, State: jobs.StatePending, RetryIn: delay, Reason: err.Error(), Code: reason.Snoozed}
	case errors.Is(err, abort.ErrLost) && why == notStopped && !a.noteLocks(&r, errors.Is(err, abort.ErrOverdue)):
		r.Verdict, r.State, r.Reason, r.Code = ledger.Died, jobs.StateLost, err.Error(), reason.OutcomeUnknown
		return r
	case why == stopDrained || why == stopExpired:
		r.Verdict, r.State = ledger.Died, jobs.StateLost
		return r
	case why == stopCancelled:
		r.State, r.Code = jobs.StateCancelled, ledger.CancelCode(said)
		return r
	case jobs.IsCancel(err):
		r.State, r.Reason, r.Code = jobs.StateCancelled, "cancelled by its handler", reason.CancelledByHandler
		return r
	}
	r.State = jobs.StateFailed
	if jobs.IsPermanent(err) {
		return r
	}
	if unlisted := a.unlisted(err, r); unlisted != "" {
		r.Reason, r.Code = unlisted, reason.NotRetried
		return r
	}
	failures := a.task.Attempt - a.task.Lost // this one included
	if failures > a.work.Retries.Limit {
		return r
	}
	r.Verdict = ledger.Again
	if d, ok := jobs.RetryDelay(err); ok {
		r.RetryIn = d
	} else {
		r.RetryIn = a.work.Retries.Delay(failures, rand.Float64)
	}
	return r
}
