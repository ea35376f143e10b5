package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

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

	session  atomic.Pointer[session]
	config   atomic.Int64 // number of the configuration that was loaded
	health   health
	slots    *slots
	stripes  *stripes
	upcoming *upcoming
	feeders  map[string]*feeder
	running  *running
	foreign  foreign
	recorder *recorder
	attempts gate

	nudgeWatch chan struct{} // look at peers, cancellations and definitions now
	nudgeFire  chan struct{} // look at due times now
	nudgePoll  chan struct{} // look at the pools now
	halted     chan struct{} // closed by Halt
	halt       sync.Once
}

// New makes a replica of set on st. With lk == nil the store's own database is the lock service:
// stripe and pool guards are rows locked inside the deciding transaction. The error names every
// problem of set.
func New(st Store, lk Locks, set jobs.Set, o Options) (*Scheduler, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	p, err := newPlan(set, o.Labels)
	if err != nil {
		return nil, err
	}
	s := &Scheduler{
		store: st, opt: o, log: o.Logger, plan: p,
		clock:      &clock{maxSkew: o.MaxClockSkew},
		upcoming:   newUpcoming(),
		feeders:    map[string]*feeder{},
		running:    newRunning(),
		nudgeWatch: make(chan struct{}, 1),
		nudgeFire:  make(chan struct{}, 1),
		nudgePoll:  make(chan struct{}, 1),
		halted:     make(chan struct{}),
	}
	if l, ok := lk.(*locks.Locker); lk != nil && (!ok || l != nil) {
		s.locks = lk
	}
	s.stripes = &stripes{held: map[int]*locks.Lease{}}
	s.slots = newSlots(o.Workers, p, s.wakeFeeder)
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
// It returns an error if it cannot start (the store cannot be reached within 10 s, the replica id
// is in use, another lock service is in use) and if work was still running, deaf to its context,
// after the last wait. A store or lock service that goes away later is no error: Health says so,
// and work resumes when it is back. Run may be called once.
func (s *Scheduler) Run(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		s.leave(ctx)
		if ctx.Err() != nil {
			return nil // told to stop before it had begun
		}
		return fmt.Errorf("scheduler: %w", err)
	}
	// Three lifetimes end one after the other: taking work, executing it, and recording it.
	taking, stopTaking := context.WithCancel(context.WithoutCancel(ctx))
	keeping, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	defer stopTaking()
	defer stopKeeping()

	var takers, keepers errgroup.Group
	keepers.Go(func() error { s.keep(keeping); return nil })
	keepers.Go(func() error { s.watch(keeping); return nil })
	keepers.Go(func() error { s.expire(keeping); return nil })
	recording := make(chan struct{})
	go func() { defer close(recording); s.recorder.run(keeping) }()
	takers.Go(func() error { s.fire(taking); return nil })
	takers.Go(func() error { s.poll(taking); return nil })
	takers.Go(func() error { s.sweep(taking); return nil })
	for _, f := range s.feeders {
		takers.Go(func() error { f.run(taking); return nil })
	}

	select {
	case <-ctx.Done():
	case <-s.halted:
	}
	s.health.drain()
	stopTaking()
	takers.Wait()
	err := s.drain(context.WithoutCancel(ctx))
	stopKeeping()
	keepers.Wait()
	<-recording
	s.leave(ctx)
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
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *Scheduler) wakeFeeder(pool string) {
	if f, ok := s.feeders[pool]; ok {
		nudge(f.wake)
	}
}

// startTimeout bounds a start, beside one session ttl for outliving a silent predecessor. A single
// call of the store takes much less, so a store that cannot be reached is an error within 10 s.
const startTimeout = 10 * time.Second

func (s *Scheduler) enter(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout+s.opt.SessionTTL, errors.New("the store did not answer in time"))
	defer cancel()
	if err := s.join(ctx); err != nil {
		return err
	}
	if err := s.load(ctx); err != nil {
		return fmt.Errorf("load definitions: %w", err)
	}
	s.rebalance(ctx)
	s.health.start()
	return nil
}

// leave ends the session, so that nobody has to wait for it to expire.
func (s *Scheduler) leave(ctx context.Context) {
	ses := s.session.Load()
	if ses == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	s.leaveStripes(ctx)
	s.clearRows(ctx, ses)
	if err := s.store.Leave(ctx, ses.id); err != nil {
		s.log.Warn("could not sign off; the others will notice within the session ttl", "error", err)
	}
}
