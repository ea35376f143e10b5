package plan

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Admit says whether this replica can and may run a task of a pool under g, and until when.
func (p *Plan) Admit(g Governing, now time.Time, c ledger.Candidate) (until time.Time, ok bool) {
	if _, ok := p.Execution(c.Task); !ok {
		return time.Time{}, false
	}
	if c.Task.Job == "" {
		return time.Time{}, g.lets(c.Task.Kind)
	}
	j := p.Jobs[c.Task.Job]
	return j.Until(now), j.Hash == c.JobHash && g.runs(j)
}

// Until is how long an attempt that starts now may run even if this replica loses its connection to the
// store: until another replica may start it again, or until its timeout. Zero: no longer than the session is
// trusted.
func (j *Job) Until(now time.Time) time.Time {
	if j.OnLost == jobs.LostRetries {
		return time.Time{}
	}
	until := now.Add(j.Timeout)
	if next := j.Next(now); j.Concurrency != jobs.Allow && !next.IsZero() && next.Before(until) {
		until = next
	}
	return until
}
