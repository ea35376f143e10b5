package work

import (
	"context"
	"errors"
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
//
//  1. wait until the row is not one of the replica's session, or ctx is done
//  2. read the row: if the attempt has ended, or another one has its place, return
//  3. else it was lost, as this replica had no session for a while, and goes on: its end still replaces the loss. Begin again
func (e *Executor) wait(a *attempt) accepted.Wait {
	return func(ctx context.Context) error {
		for {
			a.mu.Lock()
			gone := make(chan struct{})
			a.elsewhere = elsewhere{time.Now(), gone}
			a.mu.Unlock()
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-gone:
			}
			if ended, err := e.endedElsewhere(ctx, a); ended {
				return err
			}
		}
	}
}

// endedElsewhere reports whether an attempt has ended, and with nil that it succeeded.
func (e *Executor) endedElsewhere(ctx context.Context, a *attempt) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, rowsCall)
	defer cancel()
	t, err := e.store.TaskRow(ctx, a.task.ID)
	switch {
	case errors.Is(err, jobs.ErrNotFound):
		return true, accepted.ErrEnded
	case err != nil:
		return false, nil
	case t.Token == a.task.Token && t.State == jobs.StateSucceeded:
		return true, nil
	case t.Token == a.task.Token && (t.State == jobs.StateLost || t.State == jobs.StateRunning):
		return false, nil
	}
	return true, accepted.ErrEnded
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
			*w = elsewhere{}
		}
		a.mu.Unlock()
	}
}
