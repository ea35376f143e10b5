package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
)

// heldLock is a lock of a task, with its lease.
//
//	tried, or waited for ──▶ presented to a claim ──▶ of the attempt ──▶ released, once the attempt's result is acknowledged
//	                               └──▶ released: the task was not claimed
//
// An attempt whose lease is lost has failed, reason lock_lost, unless on_lost of the lock is continue. It is told to stop as
// soon as the loss is known, and the last grace before the lease's deadline if the lease is not renewed: the lock service grants
// the lock to no other holder before that deadline.
type heldLock struct {
	plan.Lock
	lease *locks.Lease
	grace time.Duration // how long before the lease's deadline the attempt is told to stop
}

// hold is the locks of a task with their leases.
func (e *Executor) hold(all []plan.Lock, leases []*locks.Lease) []heldLock {
	held := make([]heldLock, len(all))
	for i, l := range all {
		held[i] = heldLock{l, leases[i], min(e.lastGrace(), leases[i].Left()/5)}
	}
	return held
}

// end is the moment from which the lock may have another holder.
func (l heldLock) end() boottime.Instant {
	now := boottime.Now() // read first: a process that is frozen in between must not gain time
	return now.Add(l.lease.Left())
}

// ending reports whether what holds the lock must stop now, since its lease was not renewed.
func (l heldLock) ending() bool { return l.end().Until() <= l.grace }

func (l heldLock) notRenewed() string {
	return fmt.Sprintf("lock %s: its lease could not be renewed", l.Name)
}

// forHandler is the locks as a handler sees them.
func forHandler(held []heldLock) []jobs.HeldLock {
	var all []jobs.HeldLock
	for _, l := range held {
		all = append(all, jobs.HeldLock{Key: l.Name, Token: int64(l.lease.Token()), Done: l.lease.Context().Done()})
	}
	return all
}

// lockEnd is the earliest end of the leases without which the attempt must not run; zero: it has none.
func (a *attempt) lockEnd() (first heldLock, end boottime.Instant) {
	for _, l := range a.locks {
		if l.Continue {
			continue
		}
		if at := l.end(); end.IsZero() || at.Until() < end.Until() {
			first, end = l, at
		}
	}
	return first, end
}

// lockGrace is the last grace of an attempt with locks.
func (a *attempt) lockGrace(usual time.Duration) time.Duration {
	for _, l := range a.locks {
		if !l.Continue {
			usual = min(usual, l.grace)
		}
	}
	return usual
}

// locksLast reports whether an attempt may begin: it has its locks, for longer than the last grace.
func (a *attempt) locksLast() bool {
	for _, l := range a.locks {
		if l.lease.Check() != nil || !l.Continue && l.ending() {
			return false
		}
	}
	return true
}

// watchLocks stops the attempt as soon as the loss of one of its locks is known. Call stop when the handler has returned.
func (e *Executor) watchLocks(a *attempt) (stop func()) {
	var stops []func()
	for _, l := range a.locks {
		lost := l.lease.Context()
		done := make(chan struct{})
		forget := context.AfterFunc(lost, func() {
			defer close(done)
			e.lockLost(a, l, context.Cause(lost))
		})
		stops = append(stops, func() {
			if !forget() {
				<-done
			}
		})
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

func (e *Executor) lockLost(a *attempt, l heldLock, cause error) {
	if errors.Is(cause, locks.ErrReleased) { // the Locker is closed: its process ends
		return
	}
	e.log.Warn("a lock was lost while its task runs", "lock", l.Name, "task", a.task.ID, "job", a.task.Job, "pool", a.task.Pool,
		"stopped", !l.Continue, "cause", cause)
	if !l.Continue {
		a.stop(stopLockLost, l.lostReason(cause), time.Now())
	}
}

func (l heldLock) lostReason(cause error) string { return fmt.Sprintf("lock %s: %v", l.Name, cause) }

// stopForLocks tells an attempt to stop if its leases end soon and were not renewed. It tells the handler of a renewal.
func (e *Executor) stopForLocks(a *attempt) {
	l, end := a.lockEnd()
	if end.IsZero() {
		return
	}
	if l.ending() {
		a.stop(stopLockLost, l.notRenewed(), end.Time())
		return
	}
	if at := l.lease.Deadline(); !at.Equal(a.toldLease) {
		a.toldLease = at
		e.tell([]*attempt{a})
	}
}

// noteLocks makes the loss of a lock the reason of an attempt that was ended by its deadline, and not told to stop: what watches a
// command ends it the last grace before the end of the lease, perhaps before this process looks, or while it renews the lease at last.
func (a *attempt) noteLocks(r *ledger.Result, overdue bool) bool {
	for _, l := range a.locks {
		if l.Continue {
			continue
		}
		if err := l.lease.Check(); err != nil {
			r.Reason, r.Code = l.lostReason(err), reason.LockLost
			return true
		}
		if l.ending() {
			r.Reason, r.Code = l.notRenewed(), reason.LockLost
			return true
		}
	}
	if overdue && a.overdueByLock() {
		first, _ := a.lockEnd()
		r.Reason, r.Code = first.notRenewed(), reason.LockLost
		return true
	}
	return false
}
