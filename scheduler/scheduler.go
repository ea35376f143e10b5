package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/nilcheck"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
)

// Locks is what a replica needs of the lock service; *locks.Locker is one.
type Locks interface {
	TryAcquire(ctx context.Context, requests ...locks.Request) ([]locks.Attempt, error)
	Release(ctx context.Context, leases ...*locks.Lease) error
}

// Scheduler is one replica. Make it with New, run it once with Run.
type Scheduler struct {
	store Store
	locks Locks // nil: the lock service is the store's own database, its rows are the guards
	opt   Options
	log   *slog.Logger
	plan  *plan
	clock *clock

	metrics      Metrics
	backend      string       // of locks, for metrics
	local        bool         // all replicas are on this machine, whatever they share
	sessionsLost atomic.Int64 // of this replica
	buried       atomic.Int64 // sessions of others

	session  atomic.Pointer[session]
	joined   string       // a session whose first beat has had no answer; of join alone
	died     string       // the session that was declared dead last; of keep alone
	config   atomic.Int64 // number of the configuration that was loaded
	health   health
	slots    *slots
	room     room
	stripes  *stripes
	upcoming *upcoming
	feeders  map[string]*feeder
	register *register
	foreign  foreign
	recorder *recorder
	attempts gate

	metUnknown atomic.Bool // a task that this replica has no handler for

	storeID       string // the store's Namespace, empty until it is known; of balance alone
	metOtherStore bool   // that said so; of balance alone

	nudgeWatch      chan struct{} // look at peers and cancellations now
	nudgeGovern     chan struct{} // look whose configuration holds now
	nudgeBalance    chan struct{} // look at the stripes now
	nudgeFire       chan struct{} // look at due times now
	nudgePoll       chan struct{} // look at the pools now
	nudgeNotify     chan struct{} // look at events now
	halted          chan struct{} // closed by Halt
	nudgeUnrunnable chan struct{} // look at what waits for nobody now
	halt            sync.Once
	ran             atomic.Bool // Run was called
}

// ErrRan: Run was called before. A Scheduler is one life of one replica; New makes the next one.
var ErrRan = errors.New("scheduler: Run was called before; each New is for one Run")

// New makes a replica of set on st. With lk == nil the store's own database is the lock service:
// stripe and pool guards are rows locked inside the deciding transaction. A nil pointer is an error, as whoever gave it
// meant to have locks. The error names every problem of o, or of set.
func New(st Store, lk Locks, set jobs.Set, o Options) (*Scheduler, error) {
	if nilcheck.IsNil(st) {
		return nil, errors.New("scheduler: New: the store is nil")
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := checkLocks(lk, o.LockService); err != nil {
		return nil, err
	}
	p, err := newPlan(set, o.Labels)
	if err != nil {
		return nil, err
	}
	s := &Scheduler{
		store: st, locks: lk, opt: o, log: o.Logger, plan: p, metrics: o.Metrics,
		clock: &clock{maxSkew: o.MaxClockSkew}, health: health{log: o.Logger}, room: room{log: o.Logger},
		upcoming:        newUpcoming(),
		feeders:         map[string]*feeder{},
		register:        newRegister(),
		nudgeWatch:      make(chan struct{}, 1),
		nudgeGovern:     make(chan struct{}, 1),
		nudgeBalance:    make(chan struct{}, 1),
		nudgeFire:       make(chan struct{}, 1),
		nudgePoll:       make(chan struct{}, 1),
		nudgeNotify:     make(chan struct{}, 1),
		halted:          make(chan struct{}),
		nudgeUnrunnable: make(chan struct{}, 1),
	}
	s.backend = backend(s.locks)
	if st, ok := st.(interface{ Local() bool }); ok && s.locks == nil {
		s.local = st.Local()
	}
	fill(&s.opt.LockService, lockService(s.locks))
	s.stripes = &stripes{held: map[int]*locks.Lease{}}
	s.slots = newSlots(o.Workers, p, s.wakeFeeder)
	s.slots.shut = s.room.shut
	s.recorder = newRecorder(s)
	for name, pool := range p.pools {
		s.feeders[name] = newFeeder(s, pool)
	}
	return s, nil
}

// ID is the replica's id.
func (s *Scheduler) ID() string { return s.opt.ID }

// Set is what this replica knows.
func (s *Scheduler) Set() jobs.Set { return s.plan.set }

// Run joins the store and works until ctx is done. Then it drains: it leaves its stripes, takes
// nothing more, hands back what it claimed and did not start, lets work finish within the drain
// timeout, stops what is left, and returns nil.
//
// A drain takes no longer than the work that is under way. At most it takes the drain timeout (25 s), then the longest grace
// period of what runs ([Options].StopGrace, 10 s, or what a handler says as [jobs.Graceful]), and 4 s for work that does not end
// in it: 2 s until it is told to end at once, and 2 s more. While the store does not answer, some 30 s are added: for what is being decided, up
// to 10 s for the last results, and 4 s to sign off.
//
// It returns an error if it cannot start (the store does not answer, which takes at most 10 s; the
// replica id or another lock service is in use, which takes up to a session ttl to make sure) and if
// work was still running, deaf to its context, after the last wait. A store or lock service that
// goes away later is no error: Health says so, and work resumes when it is back. Run may be called
// once; a second call returns ErrRan at once and changes nothing.
func (s *Scheduler) Run(ctx context.Context) error {
	if !s.ran.CompareAndSwap(false, true) {
		return ErrRan
	}
	if err := s.join(ctx); err != nil {
		if ctx.Err() != nil {
			s.health.drain()
			return nil // told to stop before it had begun
		}
		return err
	}
	// Three lifetimes end one after the other: taking work, executing it, and recording it.
	taking, stopTaking := context.WithCancel(context.WithoutCancel(ctx))
	keeping, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	defer stopTaking()
	defer stopKeeping()

	var takers, keepers sync.WaitGroup
	for _, loop := range []func(context.Context){s.keep, s.watch, s.expire, s.govern, s.recorder.run} {
		keepers.Go(func() { loop(keeping) })
	}
	failed := s.load(ctx) // while it beats: many definitions take a while
	if failed == nil {
		s.readPeers(ctx)
		s.meetLocks(ctx)
		s.health.start()
		s.log.Info("joined", "replica", s.opt.ID, "jobs", len(s.plan.jobs), "pools", len(s.plan.pools), "configuration", s.config.Load())
		for _, loop := range []func(context.Context){s.fire, s.poll, s.sweep, s.balance, s.notify, s.unrunnable} {
			takers.Go(func() { loop(taking) })
		}
		for _, f := range s.feeders {
			takers.Go(func() { f.run(taking) })
		}
		select {
		case <-ctx.Done():
		case <-s.halted:
		}
	}
	s.health.drain()
	stopTaking()
	takers.Wait()
	err := s.drain(context.WithoutCancel(ctx))
	stopKeeping()
	keepers.Wait()
	s.leave(ctx)
	if failed != nil && ctx.Err() == nil {
		return fmt.Errorf("load definitions: %w", failed)
	}
	return err
}

// Halt makes a drain that is under way, or Run itself, stop at once: work is told to stop and
// killed after a second.
func (s *Scheduler) Halt() { s.halt.Do(func() { close(s.halted) }) }

// Wake says that tasks were enqueued in these pools. Without it they are noticed one poll later.
func (s *Scheduler) Wake(pools ...string) {
	for _, name := range pools {
		s.wakeFeeder(name)
	}
}

// Nudge makes the replica look again now: after a cancel, suspend, resume or pause.
func (s *Scheduler) Nudge() {
	nudge(s.nudgeWatch)
	nudge(s.nudgeFire)
	nudge(s.nudgePoll)
	nudge(s.nudgeNotify)
}

func (s *Scheduler) wakeFeeder(pool string) {
	if f, ok := s.feeders[pool]; ok {
		nudge(f.wake)
	}
}

// leave ends the session, so that nobody has to wait for it to expire. One with work that does not end expires by
// itself: nobody may start in its place sooner than its bound says.
func (s *Scheduler) leave(ctx context.Context) {
	ses := s.session.Load()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	s.leaveStripes(ctx)
	s.clearRows(ctx, ses)
	if n := len(s.register.attempts()); n > 0 {
		s.log.Warn("not signing off, as work goes on that was told to stop; the others will notice within the session ttl", "running", n)
		return
	}
	if err := s.store.Leave(ctx, ses.id); err != nil {
		s.log.Warn("could not sign off; the others will notice within the session ttl", "error", err)
	}
}
