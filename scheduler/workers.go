package scheduler

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// ClaimFor claims tasks for a worker in another process, whose session any replica may have opened; package api serves it over HTTP. It
// waits for work at most c.Wait. Before Run has joined, and while this replica drains, it is jobs.ErrUnavailable.
func (s *Scheduler) ClaimFor(ctx context.Context, c wire.WorkerClaim) (wire.Claim, error) {
	return s.workers.ClaimFor(ctx, c)
}

// HeartbeatFor renews a worker's session, notes what its attempt reports, and says until when that may run, and whether to
// stop it.
func (s *Scheduler) HeartbeatFor(ctx context.Context, a wire.WorkerAttempt, said wire.WorkerReport) (wire.Heartbeat, error) {
	return s.workers.HeartbeatFor(ctx, a, said)
}

// EndFor renews a worker's session, and records the end of its attempt. To say the same again is no error.
func (s *Scheduler) EndFor(ctx context.Context, a wire.WorkerAttempt, e wire.WorkerEnd) (jobs.Task, error) {
	return s.workers.EndFor(ctx, a, e)
}

// LeaveFor ends a worker's session, and returns how many attempts it had, which end as in a drain.
func (s *Scheduler) LeaveFor(ctx context.Context, c wire.WorkerCaller, session string) (stopped int, err error) {
	return s.workers.LeaveFor(ctx, c, session)
}
