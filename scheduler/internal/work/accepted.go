package work

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/accepted"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// elsewhere is what an attempt knows of another process that says how it ends.
type elsewhere struct {
	since time.Time     // when its handler began to wait for that; zero: it does not wait
	gone  chan struct{} // closed when its row is no longer one of this session's
}

// wait is for the handler of an attempt. It returns within a second or two after another process has recorded the end, under the token of
// the attempt. What the handler returns then is recorded again, which changes nothing.
func (e *Executor) wait(a *attempt) accepted.Wait {
	return func(ctx context.Context) error {
		a.mu.Lock()
		gone := make(chan struct{})
		a.elsewhere = elsewhere{time.Now(), gone}
		a.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-gone:
		}
		ctx, cancel := context.WithTimeout(ctx, rowsCall)
		defer cancel()
		t, err := e.store.TaskRow(ctx, a.task.ID)
		if err == nil && t.Token == a.task.Token && t.State == jobs.StateSucceeded {
			return nil
		}
		return accepted.ErrEnded
	}
}

// endElsewhere ends the waits of attempts that are not among the rows of their session, which were asked for at that time.
func (e *Executor) endElsewhere(session string, rows []ledger.Own, asked time.Time) {
	own := map[claimKey]bool{}
	for _, row := range rows {
		own[claimKey{row.TaskID, row.Token}] = true
	}
	for _, a := range e.register.attempts() {
		a.mu.Lock()
		if w := &a.elsewhere; a.session == session && !w.since.IsZero() && w.since.Before(asked) && !own[keyOf(a.task)] {
			close(w.gone)
			*w = elsewhere{}
		}
		a.mu.Unlock()
	}
}
