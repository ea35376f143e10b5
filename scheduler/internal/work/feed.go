package work

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

const (
	// claimBatch is how many tasks one claim takes at most.
	claimBatch = 500
	// aheadFor is how much work to claim beyond the free workers: what they do in this time. With longer attempts, work is
	// left to other replicas until a worker is free.
	aheadFor = 50 * time.Millisecond
	// queuedFor is how long a claimed task may wait for a worker before it is handed back.
	queuedFor = time.Second
)

// feeder keeps one pool's workers busy. Each time that it is woken it claims batches, until there is nothing to do:
//
//  1. start queued tasks on workers that became free
//  2. if tasks are wanted and work may begin: find out which tasks to claim (look)
//  3. wait for the pool's claim lock (claimLock)
//  4. claim, and remember the tasks that this replica cannot run; try the locks of those that have some, and claim them, too
//  5. queue the tasks in the register and start those that have a worker, then release the lock
type feeder struct {
	executor *Executor
	name     string // of the pool
	wake     chan struct{}
	turn     claimLock
	last     time.Duration // how long the last claim took, without the wait for its lock

	// Of run alone, in a pool with a rate:
	opens <-chan time.Time // one more task may start, after a claim of this feeder; nil: it waits for none
	full  time.Time        // until then it claims nothing

	mu        sync.Mutex
	plan      *plan.Plan     // the definitions that it goes by
	pool      *plan.Pool     // of plan, or, once it is removed, as it was
	removed   bool           // plan does not have the pool
	governs   plan.Governing // as it was learned last
	limited   bool           // the last claim said so: an override may have set limits
	byKey     bool           // the last claim said so: the end of a task may let another one with its key start
	left      int            // how many more tasks the limits let start, by the last claim
	leftAt    time.Time      // when it said so
	took      time.Duration  // an attempt, as a moving average; 0 = none has ended yet
	more      bool           // the last claim left work behind
	skipJobs  []string       // what this replica cannot run, as candidates showed
	byKind    bool           // they showed a kind, too, that it does not know
	forgets   int            // calls of forget
	polled    bool           // the poll woke the feeder
	arrival   time.Time      // when tasks were taken that the poll had found; zero: never
	fruitless int            // claims in a row that could get nothing, though the pool has work
	notBefore time.Time      // the poll wakes the feeder again
	seen      lookout
}

func newFeeder(e *Executor, p *plan.Plan, pool *plan.Pool) *feeder {
	return &feeder{executor: e, name: pool.Name, plan: p, pool: pool, wake: make(chan struct{}, 1), turn: claimLock{executor: e, pool: pool.Name}, governs: pool.Governs()}
}

// run claims when it is woken, and when the pool's rate lets it go on, until ctx is done.
func (f *feeder) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		case <-f.opens:
			f.opens = nil
		}
		for ctx.Err() == nil && f.claim(ctx) {
		}
	}
}

// claim claims one batch and starts it; false when there is nothing to do until the next wake.
func (f *feeder) claim(ctx context.Context) bool {
	e := f.executor
	if e.register.queued(f.name) > 0 {
		f.startQueued(ctx) // a slot was freed elsewhere
	}
	ses := e.member.Session()
	want := f.wanted()
	if want == 0 || !e.MayBegin() || e.locks.Blocks() || f.governed().Hash == "" || time.Now().Before(f.full) {
		f.noteArrival(ledger.Claimed{}) // it was woken in vain
		return false
	}
	scope, p, under, asked, ok := f.look(ctx)
	if !ok {
		return false
	}
	defer e.register.claim()()
	began := time.Now()
	note := func(result string, tasks int) {
		e.metrics.Claimed(jobs.ClaimTry{Pool: f.name, LockBackend: e.locks.Name(), Result: result, Tasks: tasks, Took: time.Since(began)})
	}
	unlock, err := f.turn.take(ctx, f.last)
	if err != nil {
		note(ledger.ClaimFailed, 0)
		return false
	}
	locked := time.Now()
	waited := locked.Sub(began)
	if !e.locks.Used() { // the store's rows are the lock
		waited = 0
	}
	inTurn := !e.locks.Used() && f.last < turnsLimit // as behind a lock, while others have their turns
	// A drain does not cancel it: the tasks of a claim with no answer would stay running.
	calling, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimCall)
	name := f.name
	claim := func(room int, tried tried) (ledger.Claimed, error) {
		calling, cancel := context.WithTimeout(calling, tried.call())
		defer cancel()
		c := ledger.Claim{
			Admission: e.admission(p, ses, map[string]plan.Governing{name: under}, map[string]int{name: room}, tried),
			Pool:      name, ID: uuid.NewString(), Guard: inTurn, Scope: scope, Now: e.clock.Check,
			LockTook: waited + tried.took,
		}
		if len(tried.held)+len(tried.busy) == 0 { // what an earlier call took is not queued yet
			c.Wanted = f.wanted
		}
		return e.store.Claim(calling, c)
	}
	got, err := claim(want, tried{})
	var held map[string][]heldLock
	if err == nil && len(got.Locked) > 0 && want > len(got.Tasks) {
		held = f.claimLocked(ctx, p, &got, want-len(got.Tasks), claim)
	}
	cancel()
	f.last = time.Since(locked)
	note(got.Result(err), len(got.Tasks))
	f.noteArrival(got)
	if err != nil {
		unlock()
		f.mu.Lock()
		f.more = false // the poll is to wake it
		f.mu.Unlock()
		outdated := errors.Is(err, ledger.ErrOutdated)
		f.backOff(asked, outdated)
		if outdated {
			e.on.Outdated() // govern learns which definition holds
		}
		e.member.StoreFailed(err)
		return false
	}
	f.noteLimits(got)
	learned := f.skip(asked, got.Foreign)
	f.backOff(asked, !learned && len(got.Tasks) == 0 && len(got.Foreign) > 0)
	f.push(ctx, p, ses, got, held) // before the lock is released: its service may hang
	unlock()
	if len(got.Waiting) > 0 {
		wake.Send(e.waits.wake)
	}
	f.sayFailed(got.Failed)
	if limitReached(got) {
		return false
	}
	moved := len(got.Tasks)+len(got.Waiting)+len(got.Failed)+got.Behind > 0
	if again := got.More && (learned || moved); again || scope.Within == nil {
		return again
	}
	f.lookOn()
	return moved
}

// noteLimits notes what a claim said of the pool's limits. Of several replicas, the one that took tasks last goes on at the moment at which
// the rate lets one more start: if all did, they would all ask for each task. The poll finds what it leaves, and limits that were changed.
func (f *feeder) noteLimits(got ledger.Claimed) {
	f.mu.Lock()
	f.leftAt, f.byKey = time.Now(), got.ByKey
	if f.limited, f.left = got.Limited, got.Left; !got.Limited {
		f.left = math.MaxInt // an override has removed those of the definition
	}
	f.mu.Unlock()
	if got.OpensIn == 0 {
		return
	}
	f.full = time.Now().Add(min(got.OpensIn, pollSlow))
	if len(got.Tasks) > 0 {
		f.opens = time.After(got.OpensIn)
	}
}

// limitReached reports whether the limits let no further task start after a claim.
func limitReached(got ledger.Claimed) bool { return got.Limited && got.Left == 0 }

// placeFreed wakes the feeder if the limits may have let no further task start until now, since an attempt of this replica has ended: by
// its last claim, or since another replica may have taken what that left. That one would find the place with its poll. Where workers
// run tasks of the pool, too, their claims are woken, here and in other processes: what the place is for may be theirs, and then this replica leaves it.
func (f *feeder) placeFreed() {
	if !f.wakeFull(false) || len(f.defined().ByWorkers) == 0 {
		return
	}
	f.executor.arrived(f.name)
	f.executor.notices.Add(f.name)
}

// wakeFull wakes the feeder if the limits, which the caller may know of, may have let no further task start until now.
func (f *feeder) wakeFull(limited bool) bool {
	f.mu.Lock()
	reached := (limited || f.limited) && (f.left == 0 || f.byKey || time.Since(f.leftAt) > pollBusy)
	f.mu.Unlock()
	if reached {
		wake.Send(f.wake)
	}
	return reached
}

// wanted is how many tasks to claim: one for each free worker, and some ahead. It is 0 while the pool's work
// is left to others: tasks claimed ahead would only wait here.
func (f *feeder) wanted() int {
	free := f.executor.slots.room(f.name)
	if f.executor.shortages.closed(f.name) {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(0, min(free+f.ahead()-f.executor.register.queued(f.name), claimBatch))
}

// push queues what was claimed by p and starts as many tasks of it as there are workers. held are the leases, by task.
func (f *feeder) push(ctx context.Context, p *plan.Plan, ses *membership.Session, got ledger.Claimed, held map[string][]heldLock) {
	f.mu.Lock()
	before := f.more
	f.more = got.More && len(got.Tasks) > 0 && !limitReached(got)
	if f.more && !before { // more has come than this replica takes at once
		f.executor.notices.Add(f.name)
	}
	f.mu.Unlock()
	all, now := make([]claimed, len(got.Tasks)), time.Now()
	for i, t := range got.Tasks {
		f.executor.releases.keep(t.Task, held[t.ID])
		all[i] = claimed{task: t.Task, session: ses.ID, until: t.Until, since: now, locks: held[t.ID], by: p}
	}
	f.executor.register.queue(all...)
	f.startQueued(ctx)
}

// startQueued starts as many queued tasks as there are workers; for the rest, slots wakes the feeder when one is free. While
// the pool's work is left to others all of them are handed back: they were claimed while a start found no room.
func (f *feeder) startQueued(ctx context.Context) {
	if f.executor.shortages.closed(f.name) {
		f.handBackQueue()
		return
	}
	for f.executor.slots.take(f.name, 1) == 1 {
		c, ok := f.next()
		if !ok {
			f.executor.slots.give(f.name, 1)
			return
		}
		f.executor.start(ctx, c)
	}
}

// ahead is how many tasks to claim beyond the free workers. In a pool with limits a claimed task takes a place from other replicas, so there
// it is a quarter of what the limits leave at most. The caller holds f.mu.
func (f *feeder) ahead() int {
	if f.took == 0 {
		return 0
	}
	ahead := min(f.pool.Workers*int(aheadFor/f.took), claimBatch)
	if f.known().Limited {
		return min(ahead, f.left/4)
	}
	return ahead
}

// crowded reports whether more tasks are queued than the feeder claims ahead, and one for each worker.
func (f *feeder) crowded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.executor.register.queued(f.name) >= f.ahead()+f.pool.Workers
}

// ended adds the duration of an attempt to the average.
func (f *feeder) ended(took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	took = max(took, time.Microsecond)
	if f.took == 0 {
		f.took = took
	}
	f.took += (took - f.took) / 8
}

// next takes a claimed task from the queue, and wakes the feeder when it runs low.
func (f *feeder) next() (claimed, bool) {
	c, of, ok := f.executor.register.next(f.name)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.more && of <= f.ahead()/2 {
		wake.Send(f.wake)
	}
	return c, ok
}

// handBackQueue hands back all that is claimed and not started.
func (f *feeder) handBackQueue() { f.handBackOverdue(0) }

// handBackOverdue hands back the tasks that have waited so long for a worker: the workers have become slower.
func (f *feeder) handBackOverdue(waited time.Duration) {
	for _, c := range f.executor.register.unqueue(f.name, waited) {
		f.executor.handBack(c)
	}
}

// goBy has the feeder claim as g says, and forget which jobs could not be run: this replica may govern them again.
func (f *feeder) goBy(g plan.Governing) {
	f.mu.Lock()
	if f.removed {
		f.mu.Unlock()
		return
	}
	other := f.governs.Hash != g.Hash
	if !f.governs.Equal(g) || len(f.skipJobs) > 0 { // else the position behind the passed tasks holds
		f.governs = g
		f.forget()
	}
	f.mu.Unlock()
	if other {
		wake.Send(f.wake)
	}
}

// governed is the definition that the feeder follows now.
func (f *feeder) governed() plan.Governing {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known()
}

// governedBy is governed for who decides by p. It is none if the feeder goes by another plan: nothing is admitted then.
func (f *feeder) governedBy(p *plan.Plan) plan.Governing {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.plan != p {
		return plan.Governing{}
	}
	return f.known()
}

// forgot is how often the feeder has forgotten what it cannot run.
func (f *feeder) forgot() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.forgets
}

// defined is the pool as this replica has it, or had it, if it is removed.
func (f *feeder) defined() *plan.Pool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pool
}

// known is the definition that the feeder follows, with what claims have said of limits. The caller holds f.mu.
func (f *feeder) known() plan.Governing {
	g := f.governs
	g.Limited = g.Limited || f.limited
	return g
}
