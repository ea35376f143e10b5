package api

import (
	"context"
	"fmt"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

func (b *backend) Workers(context.Context) ([]ledger.WorkerStatus, error) { return b.workers, b.err }

func (b *backend) ClaimFor(_ context.Context, c wire.WorkerClaim) (wire.Claim, error) {
	if b.err == nil {
		b.wrote("claim %s %q %q max %d wait %v have %q for %s of %q", c.Pool, c.Session, c.Kinds, c.Max, c.Wait, c.Have, c.Owner, c.Pools)
	}
	return wire.Claim{Session: "s-1", Items: []wire.ClaimedTask{}}, b.err
}

func (b *backend) HeartbeatFor(_ context.Context, a wire.WorkerAttempt, said wire.WorkerReport) (wire.Heartbeat, error) {
	if b.err == nil {
		b.wrote("heartbeat %s %d of %s for %s of %q", a.Task, a.Token, a.Session, a.Owner, a.Pools)
	}
	return wire.Heartbeat{}, b.err
}

func (b *backend) EndFor(_ context.Context, a wire.WorkerAttempt, e wire.WorkerEnd) (jobs.Task, error) {
	if b.err == nil {
		b.wrote("end %s %d of %s: %s", a.Task, a.Token, a.Session, fmt.Sprintf("%+v", e))
	}
	return jobs.Task{ID: a.Task}, b.err
}

func (b *backend) LeaveFor(_ context.Context, c wire.WorkerCaller, session string) (int, error) {
	if b.err == nil {
		b.wrote("leave %s for %s", session, c.Owner)
	}
	return 0, b.err
}
