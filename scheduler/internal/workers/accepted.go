package workers

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// endAccepted records the end of an attempt of a replica whose work a server has accepted; the server knows the task and the token from the
// request. Nothing else is ended so: tokens are small numbers, and not secret. The replica finds that its row has gone.
//
// Where this replica does not know what the task is, it cannot tell: jobs.ErrUnavailable. It can once the attempt is no longer running, if its
// configuration is the newest: no other replica will know more, the attempt was lost, or has ended, and the store goes by the token.
func (w *Workers) endAccepted(ctx context.Context, a wire.WorkerAttempt, e wire.WorkerEnd) (jobs.Task, error) {
	cctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	h, runs, err := w.store.Holds(cctx, "", a.Task)
	if err != nil {
		return jobs.Task{}, err
	}
	task, running := h.Task, runs && h.Token == a.Token
	if !running {
		h = ledger.Held{Task: jobs.Task{ID: a.Task, Token: a.Token}}
		if task, err = w.store.TaskRow(cctx, a.Task); err != nil {
			return jobs.Task{}, err
		}
	}
	if a.Pools != nil && !slices.Contains(a.Pools, task.Pool) {
		return jobs.Task{}, fmt.Errorf("task %.64q: %w", a.Task, jobs.ErrNotFound)
	}
	by, known := w.plan.Load().Anywhere(task)
	if !known && (running || !w.on.Governs()) {
		return jobs.Task{}, fmt.Errorf("the configuration of this replica does not have what runs task %.64s; ask again, or another replica: %w", a.Task, jobs.ErrUnavailable)
	}
	handler, may := unwrap.As[interface{ EndsElsewhere() bool }](by.Handler)
	if known && (!may || !handler.EndsElsewhere()) {
		return jobs.Task{}, &jobs.FieldError{Path: "session", Problem: "is missing; without one, an attempt of an http handler that answered 202 is ended, and this is none"}
	}
	r := w.resultOf(h, e, by)
	return w.end(ctx, ledger.Peer{Member: ledger.Member{Replica: h.Replica}, Session: h.Session}, h, r)
}
