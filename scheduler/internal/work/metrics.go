package work

import (
	"errors"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Observer is told what the work of a replica does, when it does it.
type Observer interface {
	Claimed(c jobs.ClaimTry)
	Started(t jobs.Task, lag time.Duration)
	Ended(t jobs.Task, end jobs.State, took time.Duration)
	Recorded(t jobs.Task, end jobs.State, late bool)
	HandedBack(t jobs.Task)
	Fenced(t jobs.Task, end jobs.State)
	Reaped(t jobs.Task, replica string)
}

// lag is how long after it was due an attempt starts now.
func (s *Executor) lag(t jobs.Task) time.Duration {
	due := t.RunAt
	if j, ok := s.plan.Jobs[t.Job]; ok && t.Attempt == 1 && t.Seq == 0 && !t.ScheduledAt.IsZero() && t.RunAt.Sub(t.ScheduledAt) <= j.CatchUp.Grace {
		due = t.ScheduledAt
	}
	return max(0, s.clock.Now().Sub(due))
}

// Results of a jobs.ClaimTry, which describes them.
const (
	claimTook     = "took"
	claimEmpty    = "empty"
	claimFull     = "full"
	claimPaused   = "paused"
	claimOutdated = "outdated"
	claimFailed   = "failed"
)

// claimResult is the result of a claim.
func claimResult(got ledger.Claimed, err error) string {
	switch {
	case errors.Is(err, ledger.ErrOutdated):
		return claimOutdated
	case err != nil:
		return claimFailed
	case len(got.Tasks) > 0:
		return claimTook
	case got.Paused:
		return claimPaused
	case got.Full:
		return claimFull
	}
	return claimEmpty
}
