package triggers

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/work"
)

// replica is the triggers and the work of a replica. Its loops do not run, and its session is given by a test.
type replica struct {
	plan     *plan.Plan
	members  *assumed
	locks    *membership.LockService
	work     *work.Executor
	triggers *Triggers
}

// newOn makes a replica; zero options have the defaults of package scheduler.
func newOn(st ledger.Store, lk membership.Locks, set jobs.Set, o Options) (*replica, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = unmeasured{}
	}
	p, err := plan.New(set, nil)
	if err != nil {
		return nil, err
	}
	const workers, ttl = 64, 10 * time.Second
	m := membership.New(st, membership.Options{
		ID: o.ID, Workers: workers, SessionTTL: ttl, MaxClockSkew: 2 * time.Second, Local: lk == nil && st.Local(), Logger: o.Logger,
	}, membership.Hooks{})
	r := &replica{plan: p, members: &assumed{Member: m}, locks: m.LockService(lk, false)}
	current := plan.NewCurrent(p)
	r.work = work.New(st, r.members, r.locks, current, work.Options{
		ID: o.ID, Workers: workers, SessionTTL: ttl, StopGrace: 10 * time.Second, OutputLimit: 64 << 10, Logger: o.Logger, Observer: unmeasured{},
	}, work.Hooks{Recorded: func(string, jobs.State) {}, Outdated: func() {}})
	r.triggers = New(st, r.members, r.locks, current, r.work, o)
	return r, nil
}

// replicaOn makes a replica with a pool p of four workers.
func replicaOn(t *testing.T, st ledger.Store, h jobs.Handler) *replica {
	t.Helper()
	r, err := newOn(st, nil, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: h, Workers: 4}}}, Options{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// assume makes it the session of the replica, which has none of the store.
func (r *replica) assume(ses *membership.Session) { r.members.session.Store(ses) }

// storeAnswers reports whether the store counts as there.
func (r *replica) storeAnswers() bool {
	r.members.SetLoaded()
	return r.members.Vitals().StoreUp
}

// RunJob is that of the triggers.
func (r *replica) RunJob(ctx context.Context, name, by, force string) (jobs.Trigger, jobs.Task, error) {
	return r.triggers.RunJob(ctx, name, jobs.NewRun{By: by, Force: force})
}

// Retry is that of the triggers.
func (r *replica) Retry(ctx context.Context, id, by, force string) (jobs.Task, error) {
	return r.triggers.Retry(ctx, id, by, force)
}

// assumed is a membership whose session is given by a test.
type assumed struct {
	*membership.Member
	session atomic.Pointer[membership.Session]
}

func (a *assumed) Session() *membership.Session { return a.session.Load() }

// unmeasured is the Observer of a replica without metrics.
type unmeasured struct{}

func (unmeasured) Decided(jobs.Trigger)                       {}
func (unmeasured) Claimed(jobs.ClaimTry)                      {}
func (unmeasured) Started(jobs.Task, time.Duration)           {}
func (unmeasured) Ended(jobs.Task, jobs.State, time.Duration) {}
func (unmeasured) Recorded(jobs.Task, jobs.State, bool)       {}
func (unmeasured) HandedBack(jobs.Task)                       {}
func (unmeasured) Fenced(jobs.Task, jobs.State)               {}
func (unmeasured) Reaped(jobs.Task, string)                   {}
