package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
)

// HeartbeatFor renews the worker's session, notes what its attempt reports, and says how it stands. Errors: *ledger.WorkerError if the session has expired, does
// not run the task under the token, or the attempt has timed out: then the worker stops the work. jobs.ErrNotFound: the session is not
// the caller's. jobs.ErrUnavailable: nothing is known, and the work may go on until the session's ttl has passed since the last
// call that was answered was sent; where that was the claim, until two thirds of it have passed since its answer.
func (w *Workers) HeartbeatFor(ctx context.Context, a wire.WorkerAttempt, said wire.WorkerReport) (wire.Heartbeat, error) {
	if err := w.joined(); err != nil {
		return wire.Heartbeat{}, err
	}
	ses, err := w.beat(ctx, a.WorkerCaller, a.Session)
	if err != nil {
		return wire.Heartbeat{}, err
	}
	if ses.Dead {
		return wire.Heartbeat{}, errExpired(ses)
	}
	h, err := w.holds(ctx, a)
	if err != nil {
		return wire.Heartbeat{}, err
	}
	if p := said.Progress; p != nil {
		if err := w.report(ctx, a, *p); err != nil {
			return wire.Heartbeat{}, err
		}
	}
	if o := said.Output; o != nil && o.Text != "" {
		if err := w.write(ctx, a, *o); err != nil {
			return wire.Heartbeat{}, err
		}
	}
	return wire.Heartbeat{Deadline: h.Until, Cancel: h.Cancel != "", Reason: h.Cancel}, nil
}

// EndFor renews the worker's session, and records the end of its attempt. To say the same again is no error: its answer may have been
// lost. The task in the answer has no payload. Errors: as HeartbeatFor, and a *ledger.WorkerError if the attempt has ended otherwise. An
// expired session is none for an attempt that nothing has taken the place of: as with replicas, its late result replaces a loss once.
// jobs.ErrUnavailable, too, where this replica cannot know what the configuration says of the task: see execution.
func (w *Workers) EndFor(ctx context.Context, a wire.WorkerAttempt, e wire.WorkerEnd) (jobs.Task, error) {
	if err := w.joined(); err != nil {
		return jobs.Task{}, err
	}
	if a.Session == "" {
		return w.endAccepted(ctx, a, e)
	}
	ses, err := w.beat(ctx, a.WorkerCaller, a.Session)
	if err != nil {
		return jobs.Task{}, err
	}
	h, err := w.holds(ctx, a)
	if refused := (*ledger.WorkerError)(nil); err != nil && (!errors.As(err, &refused) || refused.Code != ledger.StaleToken) {
		return jobs.Task{}, err
	}
	if err != nil { // it may have ended so before: the store finds out by the token
		if err := w.had(ctx, ses, a); err != nil {
			return jobs.Task{}, err
		}
		h = ledger.Held{Task: jobs.Task{ID: a.Task, Token: a.Token}, Session: a.Session}
	}
	x, err := w.execution(h)
	if err != nil {
		return jobs.Task{}, err
	}
	return w.end(ctx, ses, h, w.resultOf(h, e, x))
}

// execution is how workers execute a task that is known. A replica that does not know the pool, the kind or the job may have an older file: then how the
// attempt is retried, what pauses the pool, and what waits for its place are for another replica to say, jobs.ErrUnavailable. Under the newest
// configuration what is not known has been removed, and the defaults hold.
func (w *Workers) execution(h ledger.Held) (plan.Execution, error) {
	e, known := w.plan.Load().ByWorker(h.Task)
	if h.Pool == "" || known || w.on.Governs() {
		return e, nil
	}
	return plan.Execution{}, fmt.Errorf("the configuration of this replica does not have what workers run as task %.64s, and another replica has a newer one; ask again, or another replica: %w",
		h.ID, jobs.ErrUnavailable)
}

// had refuses the end of a task that the session never had, as far as its row says: the token of another one's task is a small number.
func (w *Workers) had(ctx context.Context, ses ledger.Peer, a wire.WorkerAttempt) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	task, err := w.store.TaskRow(ctx, a.Task)
	switch {
	case errors.Is(err, jobs.ErrNotFound):
		return stale(a.Task, a.Token)
	case err != nil:
		return err
	case task.Pool != ses.Pool, task.Token == a.Token && task.Replica != "" && task.Replica != ses.Replica: // a pending one has no replica
		return stale(a.Task, a.Token)
	}
	return nil
}

// report writes how far an attempt has come, under its token.
func (w *Workers) report(ctx context.Context, a wire.WorkerAttempt, p wire.WorkerProgress) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	ours, err := w.store.ReportFor(ctx, a.Session, ledger.Progress{TaskID: a.Task, Token: a.Token, Done: p.Done, Text: p.Text})
	if err == nil && !ours {
		err = stale(a.Task, a.Token)
	}
	return err
}

// write writes a part of what an attempt has written, under its token.
func (w *Workers) write(ctx context.Context, a wire.WorkerAttempt, o wire.WorkerOutput) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var chunks []ledger.Chunk
	at := o.At
	for text := []byte(o.Text); len(text) > 0; {
		part := clip.Bytes(text, ledger.ChunkBytes)
		chunks = append(chunks, ledger.Chunk{TaskID: a.Task, Token: a.Token, First: at, Data: part})
		at += int64(len(part))
		text = text[len(part):]
	}
	chunks[len(chunks)-1].Forget = ledger.Forgotten(at)
	ours, err := w.store.WriteOutput(ctx, a.Session, chunks)
	if err == nil && !ours[0] {
		err = stale(a.Task, a.Token)
	}
	return err
}

// holds is the task that the session runs under the token.
func (w *Workers) holds(ctx context.Context, a wire.WorkerAttempt) (ledger.Held, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	h, runs, err := w.store.Holds(ctx, a.Session, a.Task)
	switch {
	case err != nil:
		return ledger.Held{}, err
	case !runs || h.Token != a.Token:
		return ledger.Held{}, stale(a.Task, a.Token)
	case !h.Until.After(w.member.Clock().Now()):
		return ledger.Held{}, &ledger.WorkerError{Code: ledger.TimedOut, Text: fmt.Sprintf("the attempt has timed out at %s: stop the work", h.Until.Format(time.RFC3339Nano))}
	}
	return h, nil
}

func stale(task string, token int64) error {
	return &ledger.WorkerError{Code: ledger.StaleToken, Text: fmt.Sprintf("the session does not run task %.64s under the token %d any more: stop the work", task, token)}
}

// resultOf is what a worker's end is in the ledger. Its output is kept as that of commands.
func (w *Workers) resultOf(h ledger.Held, e wire.WorkerEnd, x plan.Execution) ledger.Result {
	out := clip.NewOutput(cmp.Or(x.Output.Keep, w.opt.OutputLimit))
	_, _ = out.Write([]byte(e.Output))
	r := ledger.Result{TaskID: h.ID, Token: h.Token, Verdict: ledger.Ended, State: jobs.StateSucceeded, Value: e.Result}
	r.Output, r.Spans = out.Kept()
	if h.Pool != "" { // it is known
		r.Task = &h.Task
	}
	switch e.How {
	case wire.WorkerSnoozed:
		r.Verdict, r.State, r.RetryIn, r.Output, r.Value = ledger.Snoozed, jobs.StatePending, e.In, nil, nil
		r.Reason, r.Code = cmp.Or(e.Reason, fmt.Sprintf("snoozed for %v", e.In)), reason.Snoozed
		r.Now = w.member.Clock().Now()
	case wire.WorkerFailed:
		r.Error, r.Code = e.Error, reason.Error
		w.fail(h, &r, x.Retries, e.Final, e.In)
	}
	return r
}

// fail is the end of a failed attempt, by the policy of its task. in below 0: the next attempt is due as retries has it.
func (w *Workers) fail(h ledger.Held, r *ledger.Result, retries jobs.Retries, final bool, in time.Duration) {
	r.State = jobs.StateFailed
	failures := h.Attempt - h.Lost // this one included
	switch {
	case h.Pool == "": // it was recorded, with whatever came of it
		r.Verdict = ledger.Again
	case h.Cancel != "":
		r.State, r.Reason, r.Code = jobs.StateCancelled, h.Cancel, ledger.CancelCode(h.Cancel)
	case !final && failures < h.MaxAttempts:
		r.Verdict, r.RetryIn, r.Now = ledger.Again, in, w.member.Clock().Now()
		if in < 0 {
			r.RetryIn = retries.Delay(max(failures, 1), rand.Float64)
		}
	}
}

// ending is the end of an attempt: the session that it was claimed under, the row as it was read, and what is to be recorded.
type ending struct {
	ses    ledger.Peer
	held   ledger.Held
	result ledger.Result
}

// end records the end of one attempt.
func (w *Workers) end(ctx context.Context, ses ledger.Peer, h ledger.Held, r ledger.Result) (jobs.Task, error) {
	finished, err := w.endAll(ctx, []ending{{ses, h, r}})
	if err != nil {
		return jobs.Task{}, err
	}
	f := finished[0]
	if f.Finish != ledger.Fenced {
		return f.Row(r), nil
	}
	if is := f.Row(r); is.Token == h.Token && f.State.Ended() {
		return jobs.Task{}, &ledger.WorkerError{Code: ledger.AttemptEnded, Text: fmt.Sprintf("the attempt has ended already: the task is %s, %s",
			f.State, cmp.Or(is.Reason, is.Error, "without a reason"))}
	}
	return jobs.Task{}, stale(h.ID, h.Token)
}

// endAll records ends, at most what one call of the store takes, each under its token and the session of its attempt. It logs and counts
// those that this call has written: what another call recorded, that one has counted.
func (w *Workers) endAll(ctx context.Context, ends []ending) ([]ledger.Finished, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	slices.SortFunc(ends, func(a, b ending) int { return strings.Compare(a.held.ID, b.held.ID) })
	results, p := make([]ledger.Result, len(ends)), w.plan.Load()
	for i, e := range ends {
		results[i] = e.result
		results[i].Chunked = e.held.Chunked || e.held.Pool == "" // not known
		if e.held.Pool != "" {
			results[i].SuspendAfter, results[i].Tells = p.SuspendsAfter(e.held.Task), p.Tells(e.held.Task, jobs.EventSucceeded)
			results[i].KindLimited, results[i].PauseOn = p.LimitsKind(e.held.Task), ledger.PauseOn{Pool: e.held.Pool, PauseOn: p.PauseOn(e.held.Pool)}
		}
		if e.held.Session != ends[0].held.Session {
			results[i].Session = e.held.Session
		}
	}
	finished, err := w.store.Finish(ctx, ends[0].held.Session, results)
	if err != nil {
		w.member.StoreFailed(err)
		return nil, err
	}
	freed := map[string]bool{}
	for i, f := range finished {
		switch e := ends[i]; {
		case f.Finish == ledger.Fenced:
			w.opt.Observer.Fenced(e.held.Task, e.result.State)
			w.log.Warn("result of a worker rejected", "worker", e.ses.Replica, "task", e.held.ID, "token", e.held.Token, "state", e.result.State)
		case !f.Before:
			row := f.Row(e.result)
			w.recorded(e, f, row)
			freed[row.Pool] = true
		}
	}
	for pool := range freed { // its limits may let another one start
		w.Arrived(pool)
		l := w.known(pool)
		w.on.Freed(pool, l != nil && l.limited.Load())
	}
	return finished, nil
}

// recorded logs and counts an end, and wakes what waits for it.
func (w *Workers) recorded(e ending, f ledger.Finished, t jobs.Task) {
	r := e.result
	w.opt.Observer.Recorded(t, r.State, f.Finish == ledger.Late)
	w.log.Info("attempt of a worker ended", "worker", e.ses.Replica, "state", r.State, "pool", t.Pool, "job", t.Job, "task", t.ID, "attempt", cmp.Or(e.held.Attempt, t.Attempt),
		"reason", r.Reason, "error", r.Error)
	if t.State == jobs.StatePending {
		w.on.Pending()
	}
	w.on.Recorded(t.Job, t.State)
}

// LeaveFor ends a worker's session, and returns how many attempts it had. They end as those that a drain stops: lost, and on_lost decides at
// once. A worker hands back what it has not started by snoozing it for no time before. Errors: jobs.ErrNotFound, jobs.ErrUnavailable.
func (w *Workers) LeaveFor(ctx context.Context, c wire.WorkerCaller, session string) (stopped int, err error) {
	if err := w.joined(); err != nil {
		return 0, err
	}
	ses, err := w.beat(ctx, c, session)
	if err != nil || ses.Dead {
		return 0, err
	}
	ctx = context.WithoutCancel(ctx)
	for after := ""; ; {
		held, err := w.held(ctx, session, after)
		if err != nil {
			return stopped, err
		}
		if len(held) == 0 {
			break
		}
		ends := make([]ending, len(held))
		for i, h := range held {
			ends[i] = ending{ses, h, ledger.Result{TaskID: h.ID, Token: h.Token, Verdict: ledger.Died, State: jobs.StateLost, Reason: "its worker left", Code: reason.Drained}}
			after = h.ID
		}
		finished, err := w.endAll(ctx, ends)
		if err != nil {
			return stopped, err
		}
		for _, f := range finished {
			if f.Finish == ledger.Recorded && !f.Before {
				stopped++
			}
		}
	}
	cctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	if err := w.store.Leave(cctx, session); err != nil {
		return stopped, err
	}
	w.log.Info("worker left", "worker", ses.Replica, "pool", ses.Pool, "stopped", stopped)
	return stopped, nil
}

// held is a page of what a session runs.
func (w *Workers) held(ctx context.Context, session, after string) ([]ledger.Held, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return w.store.Held(ctx, session, after, batch)
}
