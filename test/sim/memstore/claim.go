package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

// Claim implements scheduler.Tasks.
func (s *Store) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	if c.Limit < 1 {
		return ledger.Claimed{}, nil
	}
	out, err := s.claim(ctx, c, 0)
	if err != nil || len(out.Tasks) > 0 || len(out.Foreign) == 0 || !out.More {
		return out, err
	}
	beyond, err := s.claim(ctx, c, len(out.Foreign))
	beyond.Foreign = append(out.Foreign, beyond.Foreign...)
	return beyond, err
}

func (s *Store) claim(ctx context.Context, c ledger.Claim, skip int) (out ledger.Claimed, err error) {
	err = s.deciding(ctx, "claim", c.Session, c.Now, func(t *tx, now time.Time) error {
		out = ledger.Claimed{Now: now}
		pool := t.pools.rows[c.Pool]
		if pool.Hash == "" || pool.Hash != c.Hash {
			return ledger.ErrOutdated
		}
		if out.Paused = pool.Paused != nil && *pool.Paused; out.Paused {
			return nil
		}
		room := c.Limit
		if c.MaxRunning > 0 {
			left := c.MaxRunning
			for _, r := range t.tasks.rows {
				if r.Pool == c.Pool && r.State == Running {
					left--
				}
			}
			out.Full = left <= 0
			room = min(room, left)
		}
		if room < 1 {
			return nil
		}
		candidates := t.candidates(c, now)
		candidates = candidates[min(skip, len(candidates)):]
		candidates = candidates[:min(room, len(candidates))]
		out.More = len(candidates) == room
		for _, r := range candidates {
			t.take(c, pool, now, r, &out)
		}
		return nil
	})
	if err != nil {
		return ledger.Claimed{}, err
	}
	return out, nil
}

// candidates are the ready tasks that the claimer does not skip, in order.
func (t *tx) candidates(c ledger.Claim, now time.Time) (all []Task) {
	has := inScope(c.Scope)
	for _, r := range t.tasks.rows {
		if r.RunAt > micros(now) && r.RunAt != r.CreatedAt {
			continue // a clock that was wrong made it ready
		}
		if r.State != Ready || r.Pool != c.Pool || !has(r) {
			continue
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Task) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.RunAt, b.RunAt), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// inScope reports which tasks a scope has.
func inScope(s ledger.Scope) func(Task) bool {
	skipped := map[string]bool{}
	for _, job := range s.SkipJobs {
		skipped[job] = true
	}
	return func(r Task) bool {
		if w := s.Within; w != nil && (r.Rank != -w.Priority || !w.After.IsZero() && r.RunAt <= micros(w.After) || !w.UpTo.IsZero() && r.RunAt > micros(w.UpTo)) {
			return false
		}
		if r.Job != "" {
			return !skipped[r.Job]
		}
		return s.Kinds == nil || slices.Contains(s.Kinds, r.Kind)
	}
}

// take claims one task, if the claimer admits it.
func (t *tx) take(c ledger.Claim, pool Pool, now time.Time, r Task, out *ledger.Claimed) {
	candidate := ledger.Candidate{Task: r.task(), Policy: ledger.Policy{MaxAttempts: pool.MaxAttempts, OnLost: jobs.OnLost(pool.OnLost)}}
	job, ofJob := t.jobs.rows[r.Job]
	if r.Job != "" {
		candidate.Policy = ledger.Policy{MaxAttempts: r.MaxAttempts, OnLost: jobs.OnLost(r.OnLost)}
	}
	if ofJob {
		candidate.JobHash = job.Hash
	}
	until, ok := c.Admit(now, candidate)
	if !ok || r.Job != "" && !ofJob {
		out.Foreign = append(out.Foreign, candidate.Task)
		return
	}
	r.Token++
	if ofJob {
		job.Fence++
		r.Token = job.Fence
		put(t, &t.jobs, job)
	}
	if g, born := t.triggers.rows[r.key()]; born && g.TaskID == r.ID && g.StartedAt == 0 && g.Outcome == "" {
		g.StartedAt = micros(now)
		put(t, &t.triggers, g)
	}
	r.State, r.Attempt, r.Session, r.Replica, r.ClaimID = Running, r.Attempt+1, c.Session, c.Replica, c.ID
	r.MayRunUntil, r.StartedAt = micros(until), micros(now)
	r.MaxAttempts, r.OnLost = candidate.Policy.MaxAttempts, string(candidate.Policy.OnLost)
	r.Reason, r.ReasonCode, r.Error, r.ExitCode, r.Cancel = "", "", "", nil, ""
	put(t, &t.tasks, r)
	out.Tasks, out.Until = append(out.Tasks, r.task()), append(out.Until, until)
}
