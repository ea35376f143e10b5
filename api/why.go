package api

import (
	"cmp"
	"context"
	"net/http"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/why"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

const (
	whyLocks   = 20 // locks of a task whose holders are asked for
	whyHolders = 20 // of each
)

// whyOfTask says why a task is in its state. What the store knows is of one moment; this replica and the lock service are asked after that,
// and without the lock service the answer has what the store knows.
func (s *server) whyOfTask(w http.ResponseWriter, r *http.Request, _ *query) error {
	facts, err := s.store.Why(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	facts.ByWorkers = facts.ByWorkers || s.jobByWorkers(facts.Task)
	return reply(w, http.StatusOK, why.Explain(facts, s.here(r.Context(), facts)))
}

// jobByWorkers reports whether workers run a pending task of a job, as far as this replica's configuration says: the job has no handler of its own, and
// its kind is for workers.
func (s *server) jobByWorkers(t jobs.Task) bool {
	set := s.Replica.Set()
	job, known := set.Jobs[t.Job]
	pool, has := set.Pool(t.Pool)
	if t.State != jobs.StatePending || !known || !has || job.Handler != nil {
		return false
	}
	if t.Kind == "" {
		return jobs.IsWorker(pool.Handler)
	}
	return jobs.IsWorker(pool.Kinds[t.Kind])
}

// here is what this replica knows of a task.
func (s *server) here(ctx context.Context, f ledger.Facts) (h why.Here) {
	h.Replica = s.Replica.ID()
	if f.Task.State != jobs.StatePending {
		return h
	}
	set := s.Replica.Set()
	pool, _ := set.Pool(f.Task.Pool)
	h.Workers, h.RunsOn = pool.Workers, set.Jobs[f.Task.Job].RunsOn
	for _, c := range s.Replica.Health() {
		if c.Name == "lock" && !c.Ready {
			h.LockWaits = cmp.Or(c.Detail, "the lock service does not answer")
		}
	}
	if s.Locks == nil || len(f.Locks) == 0 {
		return h
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	h.Holders = map[string][]wire.Lock{}
	for _, l := range f.Locks[:min(len(f.Locks), whyLocks)] {
		holders, err := s.holders(ctx, l.Key)
		if err != nil {
			h.LockError = err.Error()
			return h
		}
		h.Holders[l.Key] = holders
	}
	return h
}

// holders are who holds a key now. Inspect lists a key before those that begin with it, and its holders before those that wait for it.
func (s *server) holders(ctx context.Context, key string) (all []wire.Lock, err error) {
	for info, err := range s.Locks.Inspect(ctx, key) {
		if err != nil {
			return nil, err
		}
		if info.Key != key || info.Place > 0 || len(all) == whyHolders {
			break
		}
		all = append(all, viewLock(info))
	}
	return all, nil
}
