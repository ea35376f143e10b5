package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// Claim implements ledger.Tasks.
func (s *Store) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	if c.Pools[c.Pool].Room < 1 {
		return ledger.Claimed{}, nil
	}
	out, err := s.claim(ctx, c, 0)
	if err != nil || len(out.Tasks) > 0 || len(out.Foreign) == 0 || !out.More || len(out.Locked)+len(out.Waiting)+len(out.Failed) > 0 {
		return out, err
	}
	beyond, err := s.claim(ctx, c, len(out.Foreign))
	beyond.Foreign = append(out.Foreign, beyond.Foreign...)
	return beyond, err
}

func (s *Store) claim(ctx context.Context, c ledger.Claim, skip int) (out ledger.Claimed, err error) {
	err = s.deciding(ctx, "claim", c.Session, c.Now, func(t *tx, now time.Time) error {
		if out = (ledger.Claimed{Now: now, Paused: t.paused.Is()}); out.Paused {
			return nil
		}
		c.Admission = c.Grown()
		pool := t.pools.rows[c.Pool]
		if t.makes(ClaimsRemoved) && pool.Hash == "" {
			pool.Hash = c.Pools[c.Pool].Hash
		}
		if pool.Hash == "" || pool.Hash != c.Pools[c.Pool].Hash {
			return ledger.ErrOutdated
		}
		a := &admission{Admission: c.Admission, t: t, now: now, taken: map[string]int{}, locks: true}
		out.Paused = pool.Paused != nil && *pool.Paused
		var room int
		room, out.Full = a.room(c.Pool)
		out.Limited, out.ByKey = !pool.Limits().None() || pool.ByKey(), pool.ByKey()
		defer func() {
			if a.correct(c.Pool); !out.Paused {
				after := t.pools.rows[c.Pool]
				out.OpensIn = after.Limits().OpensIn(after.Bucket, t.now())
				if out.Limited {
					out.Left = a.left(c.Pool)
				}
			}
		}()
		if out.Full {
			t.waitNoMore(c)
		}
		if room < 1 {
			return nil
		}
		if len(c.Waiting) > 0 {
			for _, r := range t.waiting(c) {
				if lets, _ := t.lets(r); !lets {
					one := c
					one.Waiting = []string{r.ID}
					t.waitNoMore(one)
					continue
				}
				a.take(c, r, &out)
			}
			out.Locked, out.Waiting = nil, nil
			return t.started(now, c.Admission, out.Tasks)
		}
		t.correctKeys(c.Pool)
		candidates := t.candidates(c, now)
		candidates = candidates[min(skip, len(candidates)):]
		candidates, shared := t.inTurn(pool, candidates, room)
		look := room
		if pool.ByKey() {
			look = max(look, keyLook)
		}
		var rest []Task
		if out.More = len(candidates) >= room; !shared {
			look = min(look, len(candidates))
			candidates, rest = candidates[:look], candidates[look:]
		}
		bytes := 0
		for _, r := range candidates {
			if c.Bytes > 0 && len(out.Tasks) > 0 && bytes+len(r.Payload) > c.Bytes {
				out.More = true
				break
			}
			if lets, _ := t.lets(r); !lets {
				t.waitForKey(r)
				out.Behind++
				continue
			}
			before := len(out.Tasks)
			a.take(c, r, &out)
			if len(out.Tasks) > before {
				bytes += len(r.Payload)
			}
			switch started := len(out.Tasks) > before; {
			case shared && started:
				t.startInTurn(t.tasks.rows[r.ID])
			case shared && !a.hasRoom(c.Pool) && r.Job == "" && !r.waitsForKey():
				r.Reason, r.ReasonCode = "it is the turn of other keys, which share the pool", reason.WaitsForKey
				put(t, &t.tasks, r)
				out.Behind++
			}
		}
		if len(out.Tasks) == 0 && out.Behind > 0 {
			t.sortKeys(rest[:min(sortLimit, len(rest))], &out)
		}
		return t.started(now, c.Admission, out.Tasks)
	})
	if err != nil {
		return ledger.Claimed{}, err
	}
	return out, nil
}

// keyLook is how many candidates a claim has at least in a pool with limits by key or kind.
const keyLook = 16

// sortLimit is how many more are sorted by their keys after a claim of which all wait for them.
const sortLimit = 1000

// sortKeys has tasks wait for their keys that these do not let start.
func (t *tx) sortKeys(tasks []Task, out *ledger.Claimed) {
	for _, r := range tasks {
		if lets, _ := t.lets(r); !lets {
			t.waitForKey(r)
			out.Behind++
		}
	}
}

// candidates are the ready tasks that the claimer does not skip, and that do not wait for their keys, in order.
func (t *tx) candidates(c ledger.Claim, now time.Time) (all []Task) {
	has := inScope(c.Scope)
	for _, r := range t.tasks.rows {
		if r.RunAt > micros(now) && r.RunAt != r.CreatedAt {
			continue // a clock that was wrong made it ready
		}
		if r.State != Ready || ledger.Expired(r.task(), now) || r.Pool != c.Pool || !has(r) {
			continue
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Task) int {
		if t.makes(ExpiringLast) && (a.ExpiresAt > 0) != (b.ExpiresAt > 0) {
			return cmp.Compare(a.ExpiresAt, b.ExpiresAt)
		}
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.RunAt, b.RunAt), cmp.Compare(a.ID, b.ID))
	})
	return slices.DeleteFunc(all, t.heldByKey)
}

// heldByKey reports whether a claim has found that a task waits for its kind or its key, and it still does: then it is no candidate.
func (t *tx) heldByKey(r Task) bool {
	lets, _ := t.lets(r)
	return !lets && r.waitsForKey() && r.ReasonCode == t.wouldWaitFor(r)
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

// take claims one task, if it is admitted.
func (a *admission) take(c ledger.Claim, r Task, out *ledger.Claimed) {
	var job *Job
	if row, ofJob := a.t.jobs.rows[r.Job]; ofJob {
		job = &row
	}
	is, started, ok, foreign := a.admit(r, job)
	switch {
	case a.locking.State == ledger.LocksWrong:
		a.t.failLocks(a.now, r, a.locking, out)
	case a.locking.State != ledger.LocksHeld:
		if r.State == Ready {
			a.t.lock(a.now, r, a.locking, out)
		}
	case foreign:
		out.Foreign = append(out.Foreign, r.task())
	case ok:
		if job != nil {
			put(a.t, &a.t.jobs, *job)
		}
		if g, born := a.t.triggers.rows[r.key()]; born && g.TaskID == r.ID && g.StartedAt == 0 && g.Outcome == "" {
			g.StartedAt, g.LockTook = micros(a.now), c.LockTook.Microseconds()
			put(a.t, &a.t.triggers, g)
		}
		is.ClaimID, is.Reason, is.ReasonCode, is.Error, is.ExitCode, is.Cancel = c.ID, "", "", "", nil, ""
		put(a.t, &a.t.tasks, is)
		a.t.forgetWaits(is.ID)
		if r.waitsForKey() {
			out.Freed++
		}
		*started.Task = is.task()
		out.Tasks = append(out.Tasks, started)
	}
}
