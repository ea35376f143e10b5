package scheduler

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// orphans are running rows of the own session that this replica does not know, by task id: a claim
// whose answer was lost, and since when they were seen.
type orphans map[string]orphan

type orphan struct {
	token int64
	since time.Time
}

// ownRows reads what the store says is running here: cancelled work is stopped, and what nobody
// here knows is handed back.
func (s *Scheduler) ownRows(ctx context.Context, unknown orphans) {
	ctx, cancel := context.WithTimeout(ctx, watchCall)
	defer cancel()
	ses := s.session.Load()
	rows, err := s.store.Own(ctx, ses.id)
	if err != nil {
		s.storeFailed(err)
		return
	}
	read := time.Now()
	listed := map[string]bool{}
	var back []ledger.Result
	for _, row := range rows {
		listed[row.TaskID] = true
		if a := s.running.get(row.TaskID); a != nil {
			if row.Cancel != "" && a.task.Token == row.Token {
				a.stop(stopCancelled, row.Cancel, time.Time{})
			}
			delete(unknown, row.TaskID)
			continue
		}
		if s.running.knows(row.TaskID) || s.recorder.holds(row.TaskID) || s.queued(row.TaskID) {
			delete(unknown, row.TaskID)
			continue
		}
		first, seen := unknown[row.TaskID]
		if !seen || first.token != row.Token {
			unknown[row.TaskID] = orphan{row.Token, read}
			continue
		}
		// Every transaction that was under way when it was first seen has ended since.
		if !s.running.underWaySince(first.since) && read.Sub(first.since) >= s.opt.SessionTTL/3 {
			back = append(back, unheard(row))
		}
	}
	for id := range unknown {
		if !listed[id] {
			delete(unknown, id)
		}
	}
	if len(back) > 0 {
		if _, err := s.store.Finish(ctx, ses.id, back); err != nil {
			s.storeFailed(err)
		}
	}
}

// clearRows hands back whatever the store says is running here when nothing is any more: a claim
// whose answer was lost.
func (s *Scheduler) clearRows(ctx context.Context, ses *session) {
	rows, err := s.store.Own(ctx, ses.id)
	if err != nil {
		return
	}
	var back []ledger.Result
	for _, row := range rows {
		if !s.running.knows(row.TaskID) && !s.recorder.holds(row.TaskID) {
			back = append(back, unheard(row))
		}
	}
	if len(back) > 0 {
		_, _ = s.store.Finish(ctx, ses.id, back) // else the others find them lost
	}
}

// unheard hands back what was claimed, and nobody heard of it.
func unheard(row ledger.Own) ledger.Result {
	return ledger.Result{TaskID: row.TaskID, Token: row.Token, Verdict: ledger.HandBack, Reason: "claimed, but the answer was lost", Code: reason.ClaimLost}
}

func (s *Scheduler) queued(id string) bool {
	for _, f := range s.feeders {
		if f.holds(id) {
			return true
		}
	}
	return false
}
