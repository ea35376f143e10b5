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
	facts.ByWorkers = facts.ByWorkers || facts.Task.State == jobs.StatePending && jobByWorkers(s.Replica.Set(), facts.Task)
	return reply(w, http.StatusOK, why.Explain(facts, s.here(r.Context(), facts)))
}

// jobByWorkers reports whether workers run a task of a job, as far as this replica's configuration says: the job has no handler of its own, and
// its kind is for workers.
func jobByWorkers(set jobs.Set, t jobs.Task) bool {
	job, known := set.Jobs[t.Job]
	pool, has := set.Pool(t.Pool)
	if !known || !has || job.Handler != nil {
		return false
	}
	if t.Kind == "" {
		return jobs.IsWorker(pool.Handler)
	}
	return jobs.IsWorker(pool.Kinds[t.Kind])
}

// here is what this replica knows of a task.
func (s *server) here(ctx context.Context, f ledger.Facts) (h why.Here) {
	h = s.hereOf(f.Task)
	keys := make([]string, len(f.Locks))
	for i, l := range f.Locks {
		keys[i] = l.Key
	}
	h.Holders, h.LockError = s.holdersOf(ctx, keys)
	return h
}

// hereOf is what this replica knows of where a task runs.
func (s *server) hereOf(t jobs.Task) (h why.Here) {
	h.Replica = s.Replica.ID()
	if t.State != jobs.StatePending {
		return h
	}
	set := s.Replica.Set()
	pool, _ := set.Pool(t.Pool)
	h.Workers, h.RunsOn = pool.Workers, set.RunsOn(t.Pool, t.Job)
	for _, c := range s.Replica.Health() {
		if c.Name == "lock" && !c.Ready {
			h.LockWaits = cmp.Or(c.Detail, "the lock service does not answer")
		}
	}
	return h
}

// holdersOf are who holds these keys now, of the first of them, or why the lock service does not say.
func (s *server) holdersOf(ctx context.Context, keys []string) (of map[string][]wire.Lock, wrong string) {
	if s.Locks == nil || len(keys) == 0 {
		return nil, ""
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	of = map[string][]wire.Lock{}
	for _, key := range keys[:min(len(keys), whyLocks)] {
		holders, err := s.holders(ctx, key)
		if err != nil {
			return of, err.Error()
		}
		of[key] = holders
	}
	return of, ""
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
