package work

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// replica is the work of a replica that decides nothing.
type replica struct {
	store   ledger.Store
	plan    *plan.Plan
	members *membership.Member
	locks   *membership.LockService
	work    *Executor

	wakeGovern chan struct{} // another configuration governs a pool
}

// newOn makes a replica; zero options have the defaults of package scheduler.
func newOn(st ledger.Store, lk membership.Locks, set jobs.Set, o Options) (*replica, error) {
	fill(&o.Workers, 64)
	fill(&o.SessionTTL, 10*time.Second)
	fill(&o.DrainTimeout, 25*time.Second)
	fill(&o.StopGrace, 10*time.Second)
	fill(&o.OutputLimit, 64<<10)
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
	r := &replica{store: st, plan: p, wakeGovern: wake.Signal()}
	r.members = membership.New(st, membership.Options{
		ID: o.ID, Workers: o.Workers, SessionTTL: o.SessionTTL, MaxClockSkew: 2 * time.Second, Local: lk == nil && st.Local(), Logger: o.Logger,
	}, membership.Hooks{
		Renewed: func(ctx context.Context) { r.work.Renewed(ctx) },
		Died:    func(session string) { r.work.SessionDied(session) },
		Peers:   func([]string) {},
		Expired: func() { r.work.Wake() },
		Changed: func() {},
	})
	r.locks = r.members.LockService(lk, false)
	r.work = New(st, r.members, r.locks, plan.NewCurrent(p), o, Hooks{
		Recorded: func(string, jobs.State) {}, Outdated: func() { wake.Send(r.wakeGovern) },
	})
	return r, nil
}

func fill[T comparable](field *T, def T) {
	var zero T
	if *field == zero {
		*field = def
	}
}

// replicaOn makes a replica with a pool p of four workers.
func replicaOn(t *testing.T, st ledger.Store, h jobs.Handler) *replica {
	t.Helper()
	r, err := newOn(st, nil, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: h, Workers: 4}}}, Options{ID: "a", DrainTimeout: time.Second, StopGrace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// runs starts a replica that ends with the test's bubble.
func runs(t *testing.T, st ledger.Store, set jobs.Set, o Options) *replica {
	t.Helper()
	r, err := newOn(st, nil, set, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

// Run works until ctx is done, as a Scheduler does.
func (r *replica) Run(ctx context.Context) error {
	if err := r.members.Join(ctx); err != nil {
		return err
	}
	d := r.plan.Definitions()
	d.Now = r.members.Clock().Check
	if _, err := r.store.Load(ctx, r.members.Session().ID, d); err != nil {
		return err
	}
	taking, stopTaking := context.WithCancel(context.WithoutCancel(ctx))
	keeping, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	var takers, keepers sync.WaitGroup
	keepers.Go(func() { wake.Loops(keeping, r.members.Keep, r.members.Watch, r.work.Keep) })
	takers.Go(func() { r.work.Take(taking) })
	select {
	case <-ctx.Done():
	case <-r.work.Halted():
	}
	r.members.Drain()
	stopTaking()
	takers.Wait()
	err := r.work.Drain()
	stopKeeping()
	keepers.Wait()
	r.work.Leave(context.WithoutCancel(ctx))
	return err
}

// Halt and Wake are those of the work.
func (r *replica) Halt() { r.work.Halt() }

func (r *replica) Wake(pools ...string) { r.work.Wake(pools...) }

// assume makes it the session of the replica, which has none of the store.
func (r *replica) assume(ses *membership.Session) { r.work.assume(ses) }

// storeAnswers reports whether the store counts as there.
func (r *replica) storeAnswers() bool { return r.work.storeAnswers() }

// assumed is a membership whose session is given by a test.
type assumed struct {
	*membership.Member
	session atomic.Pointer[membership.Session]
}

func (a *assumed) Session() *membership.Session { return a.session.Load() }

// assume makes it the session of this work. The first call comes before anything runs.
func (e *Executor) assume(ses *membership.Session) {
	a, ok := e.member.(*assumed)
	if !ok {
		a = &assumed{Member: e.member.(*membership.Member)}
		e.member = a
	}
	a.session.Store(ses)
}

// storeAnswers reports whether the store counts as there.
func (e *Executor) storeAnswers() bool {
	m, ok := e.member.(*membership.Member)
	if !ok {
		m = e.member.(*assumed).Member
	}
	m.SetLoaded()
	return m.Vitals().StoreUp
}

// unmeasured is the Observer of a replica without metrics.
type unmeasured struct{}

func (unmeasured) Claimed(jobs.ClaimTry)                      {}
func (unmeasured) Started(jobs.Task, time.Duration)           {}
func (unmeasured) Ended(jobs.Task, jobs.State, time.Duration) {}
func (unmeasured) Recorded(jobs.Task, jobs.State, bool)       {}
func (unmeasured) HandedBack(jobs.Task)                       {}
func (unmeasured) Fenced(jobs.Task, jobs.State)               {}
func (unmeasured) Reaped(jobs.Task, string)                   {}
