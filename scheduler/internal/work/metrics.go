package work

import (
	"errors"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Observer is told what the work of a replica does, when it does it.
type Observer interface {
	Claimed(c ledger.ClaimTry)
	Started(t jobs.Task, lag time.Duration)
	Ended(t jobs.Task, r ledger.Result, took time.Duration)
	Recorded(t jobs.Task, r ledger.Result, f ledger.Finished)
	Reaped(r ledger.Reaped)
}

// lag is how long after it was due an attempt starts now.
func (s *Executor) lag(t jobs.Task) time.Duration {
	due := t.RunAt
	if j, ok := s.plan.Jobs[t.Job]; ok && t.Attempt == 1 && t.Seq == 0 && !t.ScheduledAt.IsZero() && t.RunAt.Sub(t.ScheduledAt) <= j.CatchUp.Grace {
		due = t.ScheduledAt
	}
	return max(0, s.clock.Now().Sub(due))
}

// claimResult is the result of a claim.
func claimResult(got ledger.Claimed, err error) ledger.ClaimResult {
	switch {
	case errors.Is(err, ledger.ErrOutdated):
		return ledger.ClaimOutdated
	case err != nil:
		return ledger.ClaimFailed
	case len(got.Tasks) > 0:
		return ledger.ClaimTook
	case got.Paused:
		return ledger.ClaimPaused
	case got.Full:
		return ledger.ClaimFull
	}
	return ledger.ClaimEmpty
}
