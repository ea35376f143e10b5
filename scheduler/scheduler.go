package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/foresight"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/nilcheck"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/triggers"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/work"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/workers"
)

// Scheduler is one replica. Make it with New, run it once with Run.
type Scheduler struct {
	store    ledger.Store
	opt      Options
	plan     *plan.Current
	log      *slog.Logger
	members  *membership.Member
	locks    *membership.LockService
	work     *work.Executor
	workers  *workers.Workers
	triggers *triggers.Triggers

	foreignPools    atomic.Pointer[[]string] // which work of pools is left to others, for messages
	foreignSettings atomic.Pointer[[]string] // which pools have other settings in the newer configuration
	governs         atomic.Bool              // this replica's configuration is the newest, as far as is known
	wakeGovern      chan struct{}            // look which configuration governs now
	wakeNotify      chan struct{}            // look at events now
	pinged          pinged                   // what came of the last call outside
	ran             atomic.Bool              // Run was called
	given           Locks                    // the lock service that New was given; nil: none

	configuring chan struct{} // has a value while the configuration is loaded, asserted or replaced
	configAt    time.Time     // when the file of the plan was written; zero: unknown
	differs     string        // what the others were told that differs, under the session differsOf
	differsOf   string
	asserted    asserted
	saidOlder   map[string]string // by replica: which older configurations the log has named
}

// ErrRan: Run was called before. A Scheduler runs once; New makes the next one.
var ErrRan = errors.New("scheduler: Run was called before; each New is for one Run")

// New makes a replica of set on st. With lk == nil the store's own database is the lock service: stripe and pool guards are
// rows locked inside the deciding transaction. A nil pointer in lk is an error: a lock service was meant. The error names
// every problem of o, or of set.
func New(st Store, lk Locks, set jobs.Set, o Options) (*Scheduler, error) {
	if nilcheck.IsNil(st) {
		return nil, errNoStore
	}
	return newOn(st.Sides().Replica, lk, set, o)
}

var errNoStore = errors.New("scheduler: New: the store is nil")

func newOn(st ledger.Store, lk Locks, set jobs.Set, o Options) (*Scheduler, error) {
	if nilcheck.IsNil(st) {
		return nil, errNoStore
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := checkLocks(lk, o.JobLocks, o.LockService); err != nil {
		return nil, err
	}
	p, err := plan.New(set, o.Labels)
	if err != nil {
		return nil, err
	}
	keys, err := jobLocks(p, o.JobLocks, lk)
	if err != nil {
		return nil, err
	}
	fill(&o.LockService, lockService(lk, o.JobLocks, set.Name))
	current := plan.NewCurrent(p)
	s := &Scheduler{store: st, opt: o, plan: current, given: lk, configuring: make(chan struct{}, 1), configAt: o.ConfigAt, log: o.Logger, wakeGovern: wake.Signal(), wakeNotify: wake.Signal()}
	s.foreignPools.Store(new([]string))
	s.foreignSettings.Store(new([]string))
	s.members = membership.New(st, membership.Options{
		ID: o.ID, Version: o.Version, Address: o.Address, Workers: o.Workers, Labels: o.Labels, LockService: Fingerprint(o.LockService),
		SessionTTL: o.SessionTTL, MaxClockSkew: o.MaxClockSkew, Local: lk == nil && st.Local(), Logger: o.Logger,
	}, membership.Hooks{
		Renewed: func(ctx context.Context) { s.work.Renewed(ctx) },
		Died:    func(session string) { s.work.SessionDied(session) },
		Peers:   func(live []string) { s.triggers.Live(live) },
		Expired: func() { s.work.Wake() },
		Changed: func() { wake.Send(s.wakeGovern) },
	})
	s.locks = s.members.LockService(lk, o.WhenDown == DownWait)
	s.work = work.New(st, s.members, s.locks, current, work.Options{
		ID: o.ID, Workers: o.Workers, SessionTTL: o.SessionTTL, DrainTimeout: o.DrainTimeout, StopGrace: o.StopGrace,
		OutputLimit: o.OutputLimit, JobLocks: keys, Notices: noticesOf(lk, o.JobLocks), Logger: o.Logger, Observer: o.Observer,
	}, work.Hooks{Recorded: s.recordedHere, Outdated: s.outdated, Arrived: func(pool string) { s.workers.Arrived(pool) }})
	s.workers = workers.New(st, s.members, s.work, current, workers.Options{SessionTTL: o.SessionTTL, OutputLimit: o.OutputLimit, Logger: o.Logger, Observer: o.Observer},
		workers.Hooks{Recorded: s.recordedHere, Pending: s.work.LookSoon, Freed: s.work.PlaceFreed, Outdated: s.outdated, Governs: s.governs.Load})
	s.triggers = triggers.New(st, s.members, s.locks, current, s.work, triggers.Options{ID: o.ID, Logger: o.Logger, Observer: o.Observer})
	return s, nil
}

// ID is the replica's id.
func (s *Scheduler) ID() string { return s.opt.ID }

// Set is the set that New was given, or Replace since.
func (s *Scheduler) Set() jobs.Set { return s.plan.Load().Set }

// Definitions are those of Set, with the schedules that triggers are decided by.
func (s *Scheduler) Definitions() *foresight.Definitions { return s.plan.Load().Foresight() }

// Namespace is what the jitter of jobs is drawn in, see jobs.Starts: the set's name or, without one, what the store has minted, which is known
// once the replica is loaded; false before.
func (s *Scheduler) Namespace() (namespace string, known bool) {
	if namespace, known = s.plan.Namespace(); known {
		return namespace, true
	}
	name := s.plan.Load().Set.Name
	return name, name != ""
}

// Run joins the store and works until ctx is done. Then it drains, and returns nil.
//
//  1. join: take a session, send heartbeats, and make this replica's configuration the newest
//  2. decide due times, claim tasks and execute them, until ctx is done or Halt is called
//  3. drain: release the stripes, take nothing more, hand back what is claimed and not started, let work finish within the
//     drain timeout, and stop the rest
//  4. leave: end the session, unless work goes on that was told to stop
//
// A drain takes no longer than the work that is under way. At most it takes the drain timeout (25 s), then the longest
// grace period of what runs ([Options].StopGrace, 10 s, or what a handler says as [jobs.Graceful]), and 4 s for work that
// does not end in it: 2 s until it is told to end at once, and 2 s more. While the store does not answer, some 30 s are
// added: for what is being decided, up to 10 s for the last results, and 4 s to end the session.
//
// It returns an error if it cannot start (the store does not answer, which takes at most 10 s; the
// replica id or another lock service is in use, which takes up to a session ttl to make sure) and if
// work that ignores its context was still running after the last wait. A store or lock service that
// goes away later is no error: Health says so, and work resumes when it is back. Run may be called
// once; a second call returns ErrRan at once and changes nothing.
func (s *Scheduler) Run(ctx context.Context) error {
	if !s.ran.CompareAndSwap(false, true) {
		return ErrRan
	}
	if err := s.members.Join(ctx); err != nil {
		if ctx.Err() != nil {
			s.members.Drain()
			return nil // told to stop before it had begun
		}
		return err
	}
	// Three contexts end one after the other: taking work; recording it and releasing its locks; and sending heartbeats.
	taking, stopTaking := context.WithCancel(context.WithoutCancel(ctx))
	keeping, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	living, stopLiving := context.WithCancel(context.WithoutCancel(ctx))
	defer stopTaking()
	defer stopKeeping()
	defer stopLiving()

	var takers, keepers, heartbeats sync.WaitGroup
	heartbeats.Go(func() { s.members.Keep(living) })
	keepers.Go(func() { wake.Loops(keeping, s.members.Watch, s.govern, s.work.Keep, s.workers.Run) })
	failed := s.load(ctx) // while heartbeats are sent: many definitions take long
	if failed == nil {
		s.members.ReadPeers(ctx)
		s.triggers.MeetLocks(ctx)
		s.members.SetLoaded()
		p := s.plan.Load()
		s.log.Info("joined", "replica", s.opt.ID, "jobs", len(p.Jobs), "pools", len(p.Pools), "configuration", s.members.Vitals().Config)
		takers.Go(func() { wake.Loops(taking, s.triggers.Run, s.notify, s.late, s.ping, s.sweep, s.work.Take) })
		stopListening := s.store.Listen(s.Wake)
		select {
		case <-ctx.Done():
		case <-s.work.Halted():
		}
		stopListening()
	}
	s.members.Drain()
	s.workers.Drained()
	stopTaking()
	takers.Wait()
	err := s.drain(context.WithoutCancel(ctx))
	stopKeeping()
	keepers.Wait()
	stopLiving()
	heartbeats.Wait()
	s.leave(ctx)
	if failed != nil && ctx.Err() == nil {
		return fmt.Errorf("load definitions: %w", failed)
	}
	return err
}

// Halt makes a drain that is under way, or Run itself, stop at once: work is told to stop and
// killed after a second.
func (s *Scheduler) Halt() { s.work.Halt() }

// Wake makes the replica look now, and not with its next poll: at pools in which tasks were enqueued. Tasks that the same
// Store has enqueued need no call. Without pools it looks at everything: after a cancel, suspend, resume or pause.
func (s *Scheduler) Wake(pools ...string) {
	s.work.Wake(pools...)
	if len(pools) == 0 {
		s.triggers.Wake()
		wake.Send(s.wakeNotify)
	}
}

// Runs reports whether this replica takes tasks of the kind in the pool by the pool's handler. It does not if a newer
// configuration governs and has the handler otherwise, as far as this replica has learned, nor while it drains.
func (s *Scheduler) Runs(pool, kind string) bool { return s.work.Runs(pool, kind) }

// RunJob runs a job now, as a trigger of cause manual. It starts here if there is room, else in the next replica that has
// room. While all slots of the job are taken it does as its [jobs.Concurrency] says: it waits for one, as a pending task, or replaces a run; or the
// trigger is recorded as skipped, and the error is jobs.ErrConflict with the reason
// and what to do; jobs.ErrNotFound if this replica does not know the job; jobs.ErrUnavailable, too, before this replica has
// joined the store, while it is stopping, or waits for its lock service. The end of ctx does not cancel a transaction that
// has begun, which takes 10 s at most: its result would be unknown.
//
// force is for the case that a lost attempt of the job is known to have ended, though the store has no result of it: it
// takes the slot that such an attempt has until it must have ended, and no other. It names the attempt as the refusal did, a
// *jobs.LostError in its field Force. If another one is in the way meanwhile, that one is named and nothing starts. The
// run's reason and the log say so.
func (s *Scheduler) RunJob(ctx context.Context, name, by, force string) (jobs.Trigger, jobs.Task, error) {
	return s.RunJobWith(ctx, name, jobs.NewRun{By: by, Force: force})
}

// RunJobWith is RunJob of a run that may have a payload of its own. A payload that is wrong, or that the job's Params do not accept, is
// joined *jobs.FieldErrors, which are jobs.ErrInvalid: nothing was recorded.
func (s *Scheduler) RunJobWith(ctx context.Context, name string, run jobs.NewRun) (jobs.Trigger, jobs.Task, error) {
	return s.triggers.RunJob(ctx, name, run)
}

// RunJobAt orders a run of a job at a time to come, by the database's clock. It is kept in the store: whichever replica lives then starts it, once; after
// an outage it starts late. When its time comes it is a run by hand: it runs also while the job is suspended, waits for the end of a pause
// of everything, and where the job's Concurrency forbids it, it is recorded as skipped. Without a payload of its own it has the job's of then, and a payload
// is judged by the Params of then once more. If the job is removed before, the order is cancelled, reason job_removed.
//
// Errors: a *jobs.FieldError for a time that has passed, or a force; those of RunJobWith about the payload; jobs.ErrNotFound, jobs.ErrConflict if a newer
// configuration governs the job, jobs.ErrUnavailable.
func (s *Scheduler) RunJobAt(ctx context.Context, name string, run jobs.NewRun, at time.Time) (wire.Order, error) {
	return s.triggers.RunJobAt(ctx, name, run, at)
}

// Backfill orders runs of the due times of a job in [b.From, b.To), which have passed (a zero b.To is now), as its schedule, bounds and calendars have them: 100,000 at most. A handler
// gets the due time as that of its task. Due times that have run, or are about to, are left out unless b.Again; what was skipped or missed is
// made up for. Runs are made oldest first, b.MaxRunning of them open at once at most over all replicas, and no faster than b.Rate. How far it has come is in the order.
//
// A backfill takes a slot of the job only while no run waits for one, and leaves one of several free. A due time that finds its runs in all
// slots waits for the first of them to end, and is not skipped; only replace replaces them. An edit of the schedule, or the removal of the job, ends the
// order; what was made goes on.
//
// Errors: *jobs.FieldError, jobs.ErrNotFound, jobs.ErrConflict if a newer configuration governs the job, jobs.ErrUnavailable.
func (s *Scheduler) Backfill(ctx context.Context, name, by string, b wire.NewBackfill) (wire.Order, error) {
	return s.triggers.Backfill(ctx, name, by, b)
}

// PreviewBackfill says what Backfill would do, and changes nothing.
func (s *Scheduler) PreviewBackfill(ctx context.Context, name string, b wire.NewBackfill) (wire.BackfillPreview, error) {
	return s.triggers.PreviewBackfill(ctx, name, b)
}

// Retry makes a new task of an ended one. A job's task needs the job's slot: jobs.ErrConflict says which run has it,
// where, since when, and what to do; force takes it from a lost attempt, as in RunJob. A pool's task that no live replica
// can run is a *jobs.KindError, or jobs.ErrNotFound if no configuration has the pool, unless force is not empty.
func (s *Scheduler) Retry(ctx context.Context, id, by, force string) (jobs.Task, error) {
	return s.triggers.Retry(ctx, id, by, force)
}

// StripeHolder reads the Meta of a stripe's lock: the id of the replica that holds it, and its store's Namespace, which is
// empty if the replica is of an older version, or its store has none.
func StripeHolder(meta string) (replica, store string) { return triggers.StripeHolder(meta) }

// outdated has govern learn which configuration governs.
func (s *Scheduler) outdated() { wake.Send(s.wakeGovern) }

// recordedHere wakes the loops that wait for the end of a task.
func (s *Scheduler) recordedHere(job string, state jobs.State) {
	s.triggers.Recorded(job, state)
	if state == jobs.StateFailed || state == jobs.StateLost {
		wake.Send(s.wakeNotify)
	}
}

// drain releases the stripes, and then ends the work.
func (s *Scheduler) drain(ctx context.Context) error {
	lctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	s.members.SetDraining(lctx)
	s.triggers.Leave(lctx)
	cancel()
	return s.work.Drain()
}

// leave ends the session, so that it need not expire. A session with work that does not end is left to expire:
// nothing may start in its place before its bound.
func (s *Scheduler) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	s.triggers.Leave(ctx)
	if n := s.work.Leave(ctx); n > 0 {
		s.log.Warn("session not ended, as attempts still run after their grace period; it expires after its ttl", "running", n)
		return
	}
	if err := s.members.Leave(ctx); err != nil {
		s.log.Warn("session not ended; it expires after its ttl", "error", err)
	}
}
