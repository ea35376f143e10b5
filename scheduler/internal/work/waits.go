package work

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

const (
	keysMost  = 50_000          // that one look reads
	waitsMost = 1000            // waiters of this replica
	waitsCall = 5 * time.Second // one call of the store
	// waitsAgain is how long a task is left to others that this replica has waited for and could not start.
	waitsAgain = time.Second
	// skipFor is how long the work of tasks is skipped that this replica cannot run.
	skipFor = maxBackoff
	// freshFor is how long a waiter counts as one whose leases may come at once, and that needs a worker then.
	freshFor = time.Second
	// unqueuedFor is how long a task that no replica has queued is left to replicas with a free worker.
	unqueuedFor = 2 * time.Second
)

// waits waits at the lock service for the leases of tasks, until ctx is done. A task is waited for once it is the first for each of
// its keys, by one replica: so tasks start in the order of the store, and a key has one place in the queue of the lock service.
//
//  1. wait pollSlow, or until woken
//  2. while no work may begin, leave all waits to other replicas; those whose limit is over end also while the lock service is away
//  3. ask the store which tasks are first, and end those whose limit is over; while the lock service is away, say so in the others
//  4. queue those that no replica has queued and that can run here: as many as have a free worker, and more once the leases of
//     those have not come within freshFor. A task that no replica has queued for unqueuedFor is queued without a free worker:
//     it gets the next one, before later tasks
//  5. wait for their leases, each in a goroutine of its own (waiter)
//  6. leave the tasks that are not first any more
type waits struct {
	executor *Executor
	wake     chan struct{}

	// Of run alone:
	waiting map[string]*waiter   // by task
	skipped map[string]time.Time // work that cannot run here, and until when it is skipped
	seen    map[string]time.Time // tasks that are first and that no replica has queued, and since when
	told    map[string]bool      // tasks whose reason says that the lock service is away

	mu       sync.Mutex
	notUntil map[string]time.Time // tasks that are left to others, and until when
}

func newWaits(e *Executor) *waits {
	return &waits{
		executor: e, wake: wake.Signal(), waiting: map[string]*waiter{}, skipped: map[string]time.Time{},
		seen: map[string]time.Time{}, told: map[string]bool{}, notUntil: map[string]time.Time{},
	}
}

func (w *waits) run(ctx context.Context) {
	e := w.executor
	used := false // some definition has had locks
	for wake.Wait(ctx, pollSlow, w.wake) {
		w.tidy()
		if used = used || e.plan.Load().HasLocks(); !used {
			continue
		}
		may, blocked := e.MayBegin(), e.locks.Blocks() || e.store.SeenPause().At(e.clock.Now()).Is() // keys are left to who can use them
		if !may || blocked {
			w.leave(func(string, *waiter) bool { return true })
		}
		if !may {
			continue
		}
		ses := e.member.Session()
		first, err := w.look(ctx, ses, !blocked)
		if err != nil {
			e.member.StoreFailed(err)
			continue
		}
		w.leave(func(task string, one *waiter) bool { return one.session != ses.ID || !first[task] })
	}
	w.leave(func(string, *waiter) bool { return true })
	for _, one := range w.waiting {
		<-one.done
	}
}

// tidy forgets waiters that have ended, and times that have passed.
func (w *waits) tidy() {
	now := time.Now()
	for task, one := range w.waiting {
		select {
		case <-one.done:
			delete(w.waiting, task)
		default:
		}
	}
	for work, until := range w.skipped {
		if now.After(until) {
			delete(w.skipped, work)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for task, until := range w.notUntil {
		if now.After(until) {
			delete(w.notUntil, task)
		}
	}
}

// leave ends the waiters that which selects. They give their tasks back to the store.
func (w *waits) leave(which func(task string, one *waiter) bool) {
	for task, one := range w.waiting {
		if which(task, one) {
			one.cancel()
		}
	}
}

// look asks which waits are first, ends those whose limit is over, and, if it is to queue, queues those that choose chooses.
func (w *waits) look(ctx context.Context, ses *membership.Session, queue bool) (first map[string]bool, err error) {
	e := w.executor
	calling, cancel := context.WithTimeout(ctx, waitsCall)
	defer cancel()
	var all []ledger.Wait
	for again := true; again; again = w.skip(all) {
		var ends time.Time
		if all, ends, err = e.store.FirstWaits(calling, ses.ID, slices.Sorted(maps.Keys(w.skipped)), keysMost); err != nil {
			return nil, err
		}
		if !ends.IsZero() && !ends.After(e.clock.Now()) {
			if err := w.end(calling); err != nil {
				return nil, err
			}
		}
	}
	first = map[string]bool{}
	for _, one := range all {
		first[one.TaskID] = true
	}
	if err := w.tellAway(calling, ses, all); err != nil {
		return nil, err
	}
	if !queue {
		return first, nil
	}
	mine, err := e.store.QueueWaits(calling, ses.ID, w.choose(all))
	if err != nil {
		return nil, err
	}
	for _, t := range mine {
		w.start(ctx, ses, t)
	}
	return first, nil
}

// unqueued reports whether no replica waits at the lock service for a task, and it is not left to others for now.
func (w *waits) unqueued(one ledger.Wait) bool {
	return w.waiting[one.TaskID] == nil && !one.Queued && !w.later(one.TaskID)
}

// skip remembers the work of tasks that this replica cannot run, and reports whether there was such work: other tasks are first then.
func (w *waits) skip(all []ledger.Wait) (learned bool) {
	for _, one := range all {
		if len(w.skipped) < skipMost && w.unqueued(one) && !w.runs(one) {
			w.skipped[one.Work] = time.Now().Add(skipFor)
			learned = true
		}
	}
	return learned
}

// choose returns which tasks this replica queues now.
func (w *waits) choose(all []ledger.Wait) (queue []string) {
	seen, room := map[string]time.Time{}, map[string]*capacity{}
	for _, one := range all {
		if !w.unqueued(one) || !w.runs(one) {
			continue
		}
		since, known := w.seen[one.TaskID]
		if !known {
			since = time.Now()
		}
		seen[one.TaskID] = since
		if room[one.Pool] == nil {
			room[one.Pool] = w.capacity(one.Pool)
		}
		if room[one.Pool].take(time.Since(since) >= unqueuedFor) && len(w.waiting)+len(queue) < waitsMost {
			queue = append(queue, one.TaskID)
		}
	}
	w.seen = seen
	return queue
}

// capacity is how many tasks of a pool may be queued now.
type capacity struct {
	free int // with a free worker each
	any  int // with or without one
}

func (w *waits) capacity(pool string) *capacity {
	e := w.executor
	if e.shortages.closed(pool) {
		return &capacity{}
	}
	fresh := 0
	for _, one := range w.waiting {
		if one.pool == pool && time.Since(one.began) < freshFor {
			fresh++
		}
	}
	return &capacity{e.slots.room(pool) - fresh, e.feeder(pool).defined().Workers - fresh}
}

// take counts one more task, and reports whether it may be queued. late: no replica with a free worker has queued it in time.
func (c *capacity) take(late bool) bool {
	if c.any < 1 || c.free < 1 && !late {
		return false
	}
	c.free--
	c.any--
	return true
}

// later reports whether a task is left to others for now.
func (w *waits) later(task string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.notUntil[task])
}

// runs reports whether this replica can run a task, as far as it knows.
func (w *waits) runs(one ledger.Wait) bool {
	e := w.executor
	t := one.Task()
	f := e.present(t.Pool)
	if f == nil || f.governed().Hash == "" || f.skips(t.Job) {
		return false
	}
	_, can := e.plan.Load().Execution(t)
	return can
}

// end ends the tasks that have waited for as long as they may.
func (w *waits) end(ctx context.Context) error {
	e := w.executor
	ended, err := e.store.EndWaits(ctx, e.clock.Check, claimBatch)
	for _, t := range ended {
		e.log.Warn("a task has waited for its locks as long as it may", "task", t.ID, "job", t.Job, "pool", t.Pool, "state", t.State, "reason", t.Reason)
		e.on.Recorded(t.Job, t.State)
	}
	return err
}
