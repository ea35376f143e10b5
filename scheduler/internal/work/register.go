package work

import (
	"slices"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
)

// register holds every task that this replica is concerned with, in one state; the package's drawing shows their order.
// Claiming is a state of a transaction, and not of a task: which tasks it claims is known when it has ended, so until then no
// task has an entry, and find does not know it. What asks whether a row may be one of these asks claimingSince.
//
//	claiming    a transaction is under way that may claim tasks; see claim
//	queued      a task is claimed, and waits for a worker
//	running     a worker has it
//	recording   its result, which may be that it is handed back, waits for the store's acknowledgement
//
// A task that is claimed again has another token, and is another taskEntry.
type register struct {
	mu        sync.Mutex
	claims    map[int]time.Time // those under way, by number: when each began
	last      int               // number of a claim
	tasks     map[claimKey]*taskEntry
	queues    map[string][]claimed // by pool, in the order of the claims
	unsettled int                  // results that are recording
	settled   chan struct{}        // closed when there is none; nil: nothing waits for that
}

// claimKey names one claim of a task.
type claimKey struct {
	task  string
	token int64
}

func keyOf(t *jobs.Task) claimKey { return claimKey{t.ID, t.Token} }

// claimed is a task that this replica has claimed and not started.
type claimed struct {
	task    *jobs.Task // of this replica alone, from now on
	session string     // under which it was claimed
	until   time.Time  // may_run_until; zero: as long as the session is trusted
	since   time.Time  // when it was claimed, on this machine's clock
	locks   []heldLock
	by      *plan.Plan // the definitions that it was claimed by; nil: the present ones
}

// taskState is the state of a claimed task.
type taskState int

const (
	taskUnknown taskState = iota // it is not this replica's
	taskQueued
	taskRunning
	taskRecording
)

type taskEntry struct {
	state   taskState
	attempt *attempt // of a running task, once it can be stopped
}

func newRegister() *register {
	return &register{claims: map[int]time.Time{}, tasks: map[claimKey]*taskEntry{}, queues: map[string][]claimed{}}
}

// empty reports whether no task is this replica's, nor may be claimed now.
func (r *register) empty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tasks) == 0 && len(r.claims) == 0
}

// claim notes the start of a transaction that may claim tasks. Call ended when its tasks are queued or running.
func (r *register) claim() (ended func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	n := r.last
	r.claims[n] = time.Now()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.claims, n)
	}
}

// claimingSince reports whether a transaction is under way that began at t or before.
func (r *register) claimingSince(t time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, began := range r.claims {
		if !began.After(t) {
			return true
		}
	}
	return false
}

// find returns the state of a claim, and its attempt if it can be stopped.
func (r *register) find(k claimKey) (taskState, *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, known := r.tasks[k]
	if !known {
		return taskUnknown, nil
	}
	return e.state, e.attempt
}

// running reports whether a worker has the task of a claim.
func (r *register) running(k claimKey) bool {
	state, _ := r.find(k)
	return state == taskRunning
}

// queue adds claimed tasks of one pool to its queue.
func (r *register) queue(all ...claimed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range all {
		r.enter(c.task, taskQueued)
	}
	if len(all) > 0 {
		pool := all[0].task.Pool
		r.queues[pool] = append(r.queues[pool], all...)
	}
}

// queued is how many tasks of a pool wait for a worker.
func (r *register) queued(pool string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queues[pool])
}

// next takes the first of a pool's queued tasks for a worker, and says how many there were; false if there is none.
func (r *register) next(pool string) (c claimed, of int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.queues[pool]
	if len(q) == 0 {
		return claimed{}, 0, false
	}
	c, q[0] = q[0], claimed{} // the queue does not keep the task
	r.queues[pool] = q[1:]
	r.enter(c.task, taskRunning)
	return c, len(q), true
}

// unqueue takes the tasks out of a pool's queue that have waited for so long. They count as queued until they are handed back.
func (r *register) unqueue(pool string, waited time.Duration) []claimed {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.queues[pool]
	n := slices.IndexFunc(q, func(c claimed) bool { return time.Since(c.since) < waited })
	if n < 0 {
		n = len(q)
	}
	r.queues[pool] = q[n:]
	return q[:n:n]
}

// start notes that a worker has a task that was not queued.
func (r *register) start(c claimed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.enter(c.task, taskRunning)
}

// run notes the attempt of a running task.
func (r *register) run(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.enter(a.task, taskRunning).attempt = a
}

// attempts are those under way.
func (r *register) attempts() []*attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*attempt
	for _, e := range r.tasks {
		if e.attempt != nil {
			all = append(all, e.attempt)
		}
	}
	return all
}

// attemptsByPool counts the attempts of each pool.
func (r *register) attemptsByPool() map[string]int {
	n := map[string]int{}
	for _, a := range r.attempts() {
		n[a.task.Pool]++
	}
	return n
}

// record notes that a task has a result.
func (r *register) record(t *jobs.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.enter(t, taskRecording).attempt = nil
	r.unsettled++
}

// recorded forgets a task whose result is acknowledged.
func (r *register) recorded(t *jobs.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tasks, keyOf(t))
	r.unsettled--
	r.settle()
}

// allRecorded returns a channel that is closed once every result is acknowledged. No further result may come.
func (r *register) allRecorded() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	done := make(chan struct{})
	r.settled = done
	r.settle()
	return done
}

// settle closes what allRecorded returned. The caller holds r.mu.
func (r *register) settle() {
	if r.settled != nil && r.unsettled == 0 {
		close(r.settled)
		r.settled = nil
	}
}

// enter moves a task to a state. The caller holds r.mu.
func (r *register) enter(t *jobs.Task, to taskState) *taskEntry {
	k := keyOf(t)
	e := r.tasks[k]
	if e == nil {
		e = &taskEntry{}
		r.tasks[k] = e
	}
	e.state = to
	return e
}
