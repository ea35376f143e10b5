package work

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

const (
	recordBatch   = 500     // what one statement takes (sqlkit.MaxRows)
	recordBytes   = 4 << 20 // of errors, outputs and results of tasks in a batch
	recordCall    = 5 * time.Second
	recordBacklog = 10_000 // with more than that, workers wait before they take more: the store is the bottleneck
	recordRetry   = 250 * time.Millisecond
)

// recorder writes results in batches. A result stays here until the store has acknowledged it, however long the store is away.
//
//  1. wait for a result, or for the time to try refused results again
//  2. while due times are decided, wait for their end, if nothing waits for the results (record_later.go)
//  3. take a batch: what has come in since, of one session, up to recordBatch results and recordBytes of text
//  4. write it; while the store is away, write it again each recordRetry
//  5. acknowledged: the register forgets its tasks
//  6. refused, or too slow: write each half alone; a single result is written without its texts, or set aside for
//     recordAgain (refusal.go)
//  7. go on with 2; wait when there is none
type recorder struct {
	executor *Executor

	// Of run alone:
	refused int              // times in a row that the store refused something
	aside   []outcome        // refused, to be tried again
	again   <-chan time.Time // when; nil: never

	mu      sync.Mutex
	room    sync.Cond
	endless bool // no caller waits for room any more
	pending []outcome
	awaited int           // of these, results that something waits for
	decided chan struct{} // closed when no more due times are being decided; nil: none are
	ready   chan struct{}
}

// outcome is a result with its task.
type outcome struct {
	session string
	result  ledger.Result
	tried   bool      // a call that had no clear answer may have written it
	since   time.Time // when it was added, if nothing waits for it; else zero
}

func newRecorder(e *Executor) *recorder {
	r := &recorder{executor: e, ready: make(chan struct{}, 1)}
	r.room.L = &r.mu
	return r
}

// add adds a result. It never waits: the caller may have other tasks to hand back.
func (r *recorder) add(session string, t *jobs.Task, result ledger.Result) {
	r.executor.register.record(t)
	p := r.executor.plan.Load()
	result.Task, result.KindLimited, result.SuspendAfter = t, p.LimitsKind(*t), p.SuspendsAfter(*t)
	result.Tells = p.Tells(*t, jobs.EventSucceeded)
	o := outcome{session: session, result: result}
	if r.isDeciding() && mayWait(p, t, result.Verdict, r.executor.clock.Now()) {
		o.since = time.Now()
	}
	r.mu.Lock()
	r.append(o)
	r.mu.Unlock()
	wake.Send(r.ready)
}

// append adds results for a caller that holds mu.
func (r *recorder) append(all ...outcome) {
	r.pending = append(r.pending, all...)
	for _, o := range all {
		if o.since.IsZero() {
			r.awaited++
		}
	}
}

// waitForRoom waits while the backlog is full: for workers, before they take more.
func (r *recorder) waitForRoom() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.pending) >= recordBacklog && !r.endless {
		r.room.Wait()
	}
}

// makeRoom ends all waits for room, and of results, now and later.
func (r *recorder) makeRoom() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endless = true
	r.room.Broadcast()
	wake.Send(r.ready)
}

// errTooSlow: a batch was not written in time. A smaller one may be.
var errTooSlow = errors.New("not recorded in time")

// run writes results until ctx is done.
func (r *recorder) run(ctx context.Context) {
	defer r.makeRoom()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.ready:
		case <-r.again:
			r.putBack()
		}
		for r.giveWay(ctx); ; r.giveWay(ctx) {
			batch := r.take()
			if len(batch) == 0 {
				break
			}
			if !r.record(ctx, batch) {
				return
			}
		}
	}
}

// take removes the next batch: results of one session, and not too much text.
func (r *recorder) take() []outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, bytes := 0, 0
	for n < min(len(r.pending), recordBatch) && r.pending[n].session == r.pending[0].session {
		bytes += len(r.pending[n].result.Error) + len(r.pending[n].result.Output) + len(r.pending[n].result.Value)
		if n > 0 && bytes > recordBytes {
			break
		}
		n++
	}
	batch := slices.Clone(r.pending[:n])
	r.pending = slices.Delete(r.pending, 0, n)
	for _, o := range batch {
		if o.since.IsZero() {
			r.awaited--
		}
	}
	r.room.Broadcast()
	return batch
}

// write returns nil once the store has acknowledged the batch: while the store is away, it
// asks again. Other errors: the store's refusal, which changes nothing; errTooSlow for several results
// that were not written in time; or ctx is done.
func (r *recorder) write(ctx context.Context, batch []outcome) error {
	for {
		finished, err := r.finish(ctx, batch)
		if err == nil {
			var freed []*feeder // one of each pool
			for i, f := range finished {
				r.executor.releases.recorded(batch[i].result.Task) // first: with the last result the replica may end
				r.executor.register.recorded(batch[i].result.Task)
				if i == 0 || batch[i].result.Task.Pool != batch[i-1].result.Task.Pool {
					if f := r.executor.present(batch[i].result.Task.Pool); f != nil && !slices.Contains(freed, f) {
						freed = append(freed, f)
					}
				}
				r.executor.recorded(batch[i], f)
			}
			for _, f := range freed {
				f.placeFreed()
			}
			return nil
		}
		if refusal(err) {
			return err
		}
		for i := range batch {
			batch[i].tried = true
		}
		r.executor.member.StoreFailed(err)
		if errors.Is(err, context.DeadlineExceeded) && len(batch) > 1 {
			return errTooSlow
		}
		if !wake.Wait(ctx, recordRetry, nil) {
			return ctx.Err()
		}
	}
}

func (r *recorder) finish(ctx context.Context, batch []outcome) ([]ledger.Finished, error) {
	results := make([]ledger.Result, len(batch))
	for i, o := range batch {
		results[i] = o.result
		if o.result.Verdict == ledger.Again || o.result.Verdict == ledger.Snoozed {
			results[i].Now = r.executor.clock.Now()
		}
	}
	ctx, cancel := context.WithTimeout(ctx, recordCall)
	defer cancel()
	finished, err := r.executor.store.Finish(ctx, batch[0].session, results)
	if err != nil && ctx.Err() != nil { // any error of a call whose time is over
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return finished, err
}

// recorded logs and counts a result, unless another process has recorded the same before, and wakes what waits for the slot that became free.
func (e *Executor) recorded(o outcome, f ledger.Finished) {
	t := *o.result.Task
	t.State = f.State
	if f.Finish == ledger.Fenced {
		e.metrics.Fenced(t, o.result.State)
		e.log.Warn("result rejected: stale token; the task no longer belongs to this replica", "task", t.ID, "job", t.Job,
			"token", t.Token, "state", o.result.State)
		return
	}
	if f.Before && !o.tried { // another process has counted it, and woke what waits there
		if o.result.Verdict != ledger.HandBack {
			e.on.Recorded(t.Job, f.State)
		}
		return
	}
	if o.result.Verdict == ledger.HandBack {
		e.metrics.HandedBack(t)
		return
	}
	e.metrics.Recorded(t, o.result.State, f.Finish == ledger.Late)
	attrs := []any{"state", o.result.State, "pool", t.Pool}
	if f.Finish == ledger.Late {
		attrs = append(attrs, "late", true)
	}
	if t.Job != "" {
		attrs = append(attrs, "job", t.Job, "at", t.ScheduledAt)
	}
	attrs = append(attrs, "task", t.ID, "attempt", t.Attempt)
	if o.result.Reason != "" {
		attrs = append(attrs, "reason", o.result.Reason)
	}
	if o.result.Error != "" {
		attrs = append(attrs, "error", o.result.Error)
	}
	switch o.result.Verdict {
	case ledger.Snoozed:
		attrs = append(attrs, "due_in", o.result.RetryIn.Round(time.Millisecond).String())
	case ledger.Again:
		attrs = append(attrs, "retry_in", o.result.RetryIn.Round(time.Millisecond).String())
	}
	level := slog.LevelInfo
	if f.State == jobs.StateFailed {
		level = slog.LevelWarn // no further attempt is due
	}
	e.log.Log(context.Background(), level, "attempt ended", attrs...)
	if f.State == jobs.StatePending {
		wake.Send(e.wakePoll)
	}
	e.on.Recorded(t.Job, f.State)
}
