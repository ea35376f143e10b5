package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/internal/accepted"
	"github.com/lockstep-scheduler/lockstep/internal/bound"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
)

// start executes c on a slot of its pool that the caller has taken, and then what is queued in the pool, until the queue is
// empty; then it frees the slot. Attempts outlive ctx: they end by themselves, or are stopped one by one.
func (e *Executor) start(ctx context.Context, c claimed) {
	ctx = context.WithoutCancel(ctx)
	pool := c.task.Pool
	e.register.start(c)
	if e.attempts.begin() {
		go e.work(ctx, c)
		return
	}
	e.handBack(c)
	e.slots.give(pool, 1)
}

// work executes c and then what is queued in its pool. A handler that ends its goroutine ends this one, too; then another
// goroutine takes over the queue.
func (e *Executor) work(ctx context.Context, c claimed) {
	pool := c.task.Pool
	defer func() {
		if c, ok := e.feeder(pool).next(); ok {
			go e.work(ctx, c)
			return
		}
		e.slots.give(pool, 1)
		e.attempts.end()
	}()
	for ok := true; ok; c, ok = e.feeder(pool).next() {
		e.execute(ctx, c)
	}
}

// handBack makes a claimed task that was never started pending again.
func (e *Executor) handBack(c claimed) {
	e.recorder.add(c.session, c.task, ledger.Result{TaskID: c.task.ID, Token: c.task.Token, Verdict: ledger.HandBack})
}

// execute is the one path of every attempt: it checks the session, calls the handler with its context and deadline, and
// records the result.
func (e *Executor) execute(ctx context.Context, c claimed) {
	p := cmp.Or(c.by, e.plan.Load())
	w, ok := p.Execution(*c.task)
	ses := e.member.Session()
	c.task.Replica = e.opt.ID
	c.task.IdempotencyKey = c.task.IdempotencyKeyIn(p.Set.Name)
	c.task.Locks = forHandler(c.locks)
	a := &attempt{task: c.task, session: c.session, work: w, mayRun: c.until, locks: c.locks, reports: reports{wake: e.wakeProgress}, live: newLive(cmp.Or(w.Output.Keep, e.opt.OutputLimit), e.wakeProgress)}
	t := *c.task // what the handler does to its own does not matter here
	t.Reporter = &a.reports
	if !ok || !e.mayStart(a, ses) || !a.locksLast() {
		e.handBack(c)
		return
	}
	ctx, end := a.begin(ctx)
	bounds, last := a.bounds(ses, e.clock)
	a.bound = bound.New(a.startBy(ses), a.lockGrace(e.lastGrace()), bounds...)
	a.note(last)
	ctx = bound.With(ctx, a.bound)
	e.register.run(a)
	if t.Pool != naming.NotificationsPool { // nobody says later how a notification was sent
		ctx = accepted.With(ctx, e.wait(a))
	}
	if e.member.Session() != ses {
		e.tell([]*attempt{a}) // a deadline that a heartbeat has moved meanwhile
	}
	defer e.stopOnTime(a)()
	defer e.watchLocks(a)()
	a.live.toFile(&e.files, w.Output, t)
	e.metrics.Started(t, e.lag(p, t))
	began := time.Now()
	err := errGoexit
	defer func() {
		ended := time.Now()
		end()
		e.closeFile(a)
		text, spans := a.live.Kept()
		took, result, value := ended.Sub(began), a.result(err, text, spans), a.reports.end()
		result.Ended = ended
		result.Chunked = a.live.end()
		if is := a.endedElsewhere(); is != nil {
			e.shortages.worked(t.Pool)
			e.feeder(t.Pool).ended(took)
			e.metrics.Ended(t, is.end, took)
			e.recordedElsewhere(a.task, is.task)
			return
		}
		if v := result.Verdict; v == ledger.Ended || v == ledger.Died || v == ledger.Again { // it is not attempted again if it was cancelled
			result.Value = value
		}
		result = result.Kept()
		e.noteShortage(t.Pool, result, err)
		if result.Verdict != ledger.HandBack {
			e.feeder(t.Pool).ended(took)
		}
		e.metrics.Ended(t, result.State, took)
		e.recorder.add(c.session, a.task, result)
		e.recorder.waitForRoom()
	}()
	err = run(ctx, w.Handler, t, a.live)
}

// noteShortage notes whether an attempt could be started. If it failed for a shortage, what is queued behind it
// is handed back, too.
func (e *Executor) noteShortage(pool string, r ledger.Result, err error) {
	switch {
	case r.Verdict != ledger.HandBack:
		e.shortages.worked(pool)
	case errors.Is(err, abort.ErrNoRoom):
		e.shortages.refused(pool, err)
		e.feeder(pool).handBackQueue()
	}
}

// errGoexit is the outcome of a handler that called runtime.Goexit, as the FailNow of a test does.
var errGoexit = errors.New("the handler ended its goroutine")

// run calls the handler; a panic fails this attempt only, also one of a method of the error that it returns.
func run(ctx context.Context, h jobs.Handler, t jobs.Task, out io.Writer) (err error) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(out, "panic: %v\n\n%s", p, debug.Stack())
			err = panicked(fmt.Sprintf("panic: %v", p))
		}
	}()
	return read(h.Run(ctx, t, out), out)
}

// lag is how long after it was to start, by p, an attempt starts now.
func (e *Executor) lag(p *plan.Plan, t jobs.Task) time.Duration {
	due := t.RunAt
	if j, ok := p.Jobs[t.Job]; ok && t.Attempt == 1 && t.Seq == 0 && !t.ScheduledAt.IsZero() {
		if start := j.Starts(p.Namespace()).Of(t.ScheduledAt); t.RunAt.Sub(start) <= j.CatchUp.Grace {
			due = start
		}
	}
	return max(0, e.clock.Now().Sub(due))
}
