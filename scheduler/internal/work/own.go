package work

import (
	"context"
	"maps"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
)

// orphans are running rows of the own session that the register does not have: claims whose answer was lost. The value is
// when the row was first read.
type orphans map[claimKey]time.Time

// ownRows reads which tasks the store says are running here, stops those that are cancelled, and hands back those that
// the register does not have. Attempts that wait for another process to end them go on when it has. It reports whether tasks of expired sessions
// are to be reaped; where that could not be read, the next call finds out.
func (e *Executor) ownRows(ctx context.Context, unknown orphans) (reap bool) {
	ctx, cancel := context.WithTimeout(ctx, rowsCall)
	defer cancel()
	ses, asked := e.member.Session(), time.Now()
	is, err := e.store.Running(ctx, ses.ID)
	if err != nil {
		e.member.StoreFailed(err)
		return false
	}
	rows := is.Own
	e.endElsewhere(ses.ID, rows, asked)
	read := time.Now()
	orphaned := orphans{}
	var back []ledger.Result
	for _, row := range rows {
		key := claimKey{row.TaskID, row.Token}
		state, a := e.register.find(key)
		if a != nil && row.Cancel != "" {
			a.stopCancelled(row.Cancel)
		}
		if state != taskUnknown {
			continue
		}
		since, seen := unknown[key]
		if !seen {
			since = read
		}
		orphaned[key] = since
		// Every transaction that was under way when it was first seen has ended since.
		if seen && !e.register.claimingSince(since) && read.Sub(since) >= e.opt.SessionTTL/3 {
			back = append(back, unheard(row))
		}
	}
	clear(unknown)
	maps.Copy(unknown, orphaned)
	e.finishUnheard(ctx, ses, back)
	return is.Orphaned
}

// Leave hands back the tasks that the store says are running here when nothing runs any more: claims whose answer was
// lost. It returns how many attempts go on although they were told to stop.
func (e *Executor) Leave(ctx context.Context) (running int) {
	ses := e.member.Session()
	is, err := e.store.Running(ctx, ses.ID)
	if err != nil {
		is.Own = nil // the end of the session, or its expiry, hands them back
	}
	var back []ledger.Result
	for _, row := range is.Own {
		if state, _ := e.register.find(claimKey{row.TaskID, row.Token}); state == taskUnknown {
			back = append(back, unheard(row))
		}
	}
	e.finishUnheard(ctx, ses, back)
	return len(e.register.attempts())
}

func (e *Executor) finishUnheard(ctx context.Context, ses *membership.Session, back []ledger.Result) {
	if len(back) == 0 {
		return
	}
	if _, err := e.store.Finish(ctx, ses.ID, back); err != nil {
		e.member.StoreFailed(err)
	}
}

// unheard hands back a task whose claim had no answer.
func unheard(row ledger.Own) ledger.Result {
	return ledger.Result{TaskID: row.TaskID, Token: row.Token, Verdict: ledger.HandBack, Reason: "claimed, but the answer was lost", Code: reason.ClaimLost}
}
