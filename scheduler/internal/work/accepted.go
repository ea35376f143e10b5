package work

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/accepted"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// elsewhere is what an attempt knows of another process that says how it ends.
type elsewhere struct {
	since time.Time     // when its handler began to wait for that; zero: it does not wait
	gone  chan struct{} // closed when its row is no longer one of this session's
	ended *endedAs      // it has ended so; nil: not as far as is known
}

// endedAs is how an attempt has ended by what another process has recorded.
type endedAs struct {
	end  jobs.State // of the attempt; pending if it was snoozed
	task jobs.State // of its task, then
}

// wait is for the handler of an attempt. It returns within a second or two after another process has recorded the end, under the token of
// the attempt. That process has counted it and said so in its log: this one records nothing.
//
//  1. wait until the row is not one of the replica's session, or ctx is done
//  2. read the row: if the attempt has ended, or another one has its place, return
//  3. else it was lost, as this replica had no session for a while, and goes on: its end still replaces the loss. Begin again
func (e *Executor) wait(a *attempt) accepted.Wait {
	return func(ctx context.Context) error {
		for {
			a.mu.Lock()
			gone := make(chan struct{})
			a.elsewhere = elsewhere{since: time.Now(), gone: gone}
			a.mu.Unlock()
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-gone:
			}
			if is := e.endedElsewhere(ctx, a); is != nil {
				a.mu.Lock()
				a.elsewhere.ended = is
				a.mu.Unlock()
				if is.end == jobs.StateSucceeded {
					return nil
				}
				return accepted.ErrEnded
			}
		}
	}
}

// endedElsewhere is how an attempt has ended; nil: it goes on, as far as is known.
func (e *Executor) endedElsewhere(ctx context.Context, a *attempt) *endedAs {
	ctx, cancel := context.WithTimeout(ctx, rowsCall)
	defer cancel()
	t, err := e.store.TaskRow(ctx, a.task.ID)
	same := t.Token == a.task.Token
	switch {
	case errors.Is(err, jobs.ErrNotFound): // it has ended, and was deleted since
		return &endedAs{jobs.StateFailed, jobs.StateFailed}
	case err != nil, same && (t.State == jobs.StateLost || t.State == jobs.StateRunning):
		return nil
	case same && t.State.Ended():
		return &endedAs{t.State, t.State}
	case t.Lost > a.task.Lost:
		return &endedAs{jobs.StateLost, t.State}
	case t.State == jobs.StatePending && t.Attempt < a.task.Attempt, t.State != jobs.StatePending && t.Attempt == a.task.Attempt: // it does not count
		return &endedAs{jobs.StatePending, t.State}
	}
	return &endedAs{jobs.StateFailed, t.State}
}

// recordedElsewhere forgets an attempt that another process has ended, and wakes what waits for its end.
func (e *Executor) recordedElsewhere(t *jobs.Task, task jobs.State) {
	e.register.record(t)
	e.releases.recorded(t)
	e.register.recorded(t)
	e.feeder(t.Pool).placeFreed()
	if task == jobs.StatePending {
		wake.Send(e.wakePoll)
	}
	e.on.Recorded(t.Job, task)
}

func (a *attempt) endedElsewhere() *endedAs {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.elsewhere.ended
}

// endElsewhere has attempts that wait look at their rows, unless these are among those of the session, which were asked for at that time.
func (e *Executor) endElsewhere(session string, rows []ledger.Own, asked time.Time) {
	own := map[claimKey]bool{}
	for _, row := range rows {
		own[claimKey{row.TaskID, row.Token}] = true
	}
	for _, a := range e.register.attempts() {
		a.mu.Lock()
		if w := &a.elsewhere; !w.since.IsZero() && w.since.Before(asked) && (a.session != session || !own[keyOf(a.task)]) {
			close(w.gone)
			*w = elsewhere{ended: w.ended}
		}
		a.mu.Unlock()
	}
}
