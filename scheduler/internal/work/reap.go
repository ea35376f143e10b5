package work

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

const (
	rowsCall  = 5 * time.Second // for one call that reads rows of this replica; one slow call must not take the time of the others
	reapBatch = 500
	reapCall  = 3 * rowsCall // about twenty statements, each of which may take some hundred milliseconds
)

// tend looks after the tasks that run, until ctx is done.
//
//  1. wait a second or less, or until woken
//  2. unless woken, wait again while nothing runs, in this replica or any other
//  3. read what runs: stop own tasks that are cancelled, and hand back claims whose answer was lost (own.go)
//  4. reap the tasks of expired sessions, if some run
func (e *Executor) tend(ctx context.Context) {
	orphans := orphans{}
	for {
		every, began := e.member.WatchEvery(), time.Now()
		if !wake.Wait(ctx, every, e.wakeTend) {
			return
		}
		if time.Since(began) >= every && len(orphans) == 0 && e.nothingRuns() {
			continue
		}
		if e.ownRows(ctx, orphans) {
			e.reap(ctx)
		}
	}
}

// nothingRuns reports whether no task runs, in this replica or in the store.
func (e *Executor) nothingRuns() bool {
	a, fresh := e.Ahead()
	return fresh && !a.Running && e.register.empty()
}

// reap ends the attempts of expired sessions; a task may become pending again for another attempt.
func (e *Executor) reap(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reapCall)
	defer cancel()
	reaped, err := e.store.Reap(ctx, reapBatch)
	switch {
	case err == nil:
	case refusal(err): // of some of them; the others are written
		e.log.Error("the store refuses to reap tasks of an expired session; retrying", "refusal", err)
	default:
		e.member.StoreFailed(err)
	}
	for _, r := range reaped {
		e.metrics.Reaped(r.Task, r.Replica)
		e.log.Warn("attempt lost: its replica's session expired", "task", r.Task.ID, "job", r.Task.Job, "pool", r.Task.Pool,
			"replica", r.Replica, "state", r.Task.State, "reason", r.Task.Reason)
		if r.Task.State == jobs.StatePending {
			e.wakeFeeder(r.Task.Pool)
		}
	}
}
