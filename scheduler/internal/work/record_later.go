package work

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
)

const (
	// laterFor is how long a result is not recorded while due times are decided.
	laterFor = time.Second
	// laterBefore is how far away the job's next due time is at least then: that after the one that has run, which may not be decided yet.
	laterBefore = 3 * time.Second
	// laterBacklog is how many results are kept back at most.
	laterBacklog = recordBacklog / 2
)

// Deciding says whether due times are being decided, and more are due. Meanwhile results are not recorded for which nothing waits, laterFor at
// most: a database that is busy with both starts what is due sooner, and records larger batches afterwards.
func (e *Executor) Deciding(is bool) { e.recorder.deciding(is) }

func (r *recorder) isDeciding() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.decided != nil
}

func (r *recorder) deciding(is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case is == (r.decided != nil):
	case is:
		r.decided = make(chan struct{})
	default:
		close(r.decided)
		r.decided = nil
	}
}

// mayWait reports whether nothing waits for the end of an attempt: it is the last one of a due time, of a job without locks whose next due time
// has not come, will not soon, and would not wait for a slot, in a pool without a limit. Of a job that must end within a time the
// record is looked at when that is over.
func mayWait(p *plan.Plan, t *jobs.Task, v ledger.Verdict, now time.Time) bool {
	if v != ledger.Ended || t.Seq > 0 || t.By != "" {
		return false
	}
	j, known := p.Jobs[t.Job]
	if !known || j.Concurrency.Queues() || j.HasLocks() || j.Expect.FinishWithin > 0 {
		return false
	}
	pool, known := p.Pools[t.Pool]
	if !known || pool.MaxRunning > 0 || len(pool.Locks) > 0 {
		return false
	}
	next := j.Next(t.ScheduledAt)
	return next.IsZero() || next.Sub(now) >= laterBefore
}

// giveWay waits while results may be recorded later.
//
//  1. return if no due times are decided, something waits for a pending result, or the first one has waited for laterFor
//  2. wait until they are decided, or laterFor is over, or another result comes; go on with 1
func (r *recorder) giveWay(ctx context.Context) {
	for {
		decided, left := r.later()
		if left <= 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-decided:
		case <-r.ready:
		case <-time.After(left):
		}
	}
}

// later is how long the pending results may still wait, and what is closed when there is nothing more to decide.
func (r *recorder) later() (decided <-chan struct{}, left time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.decided == nil || r.awaited > 0 || r.endless || len(r.pending) == 0 || len(r.pending) >= laterBacklog {
		return nil, 0
	}
	return r.decided, laterFor - time.Since(r.pending[0].since)
}
