package scheduler

import (
	"sync"
	"time"
)

// running is what this replica executes, and which of its transactions are under way.
type running struct {
	mu    sync.Mutex
	by    map[string]*attempt // task id
	soon  map[string]bool     // task ids that are about to be in by
	open  map[int]time.Time   // transactions that may make rows ours
	count int
}

func newRunning() *running {
	return &running{by: map[string]*attempt{}, soon: map[string]bool{}, open: map[int]time.Time{}}
}

func (r *running) add(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.by[a.task.ID] = a
	delete(r.soon, a.task.ID)
}

// expect notes that a task is about to be executed, or handed back.
func (r *running) expect(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.soon[id] = true
}

// unexpect takes that back.
func (r *running) unexpect(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.soon, id)
}

// knows reports whether a task is, or is about to be, executed here.
func (r *running) knows(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[id] != nil || r.soon[id]
}

func (r *running) remove(a *attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by[a.task.ID] == a {
		delete(r.by, a.task.ID)
	}
}

func (r *running) get(id string) *attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[id]
}

func (r *running) all() []*attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*attempt, 0, len(r.by))
	for _, a := range r.by {
		all = append(all, a)
	}
	return all
}

// byPool counts what is executed, pool by pool.
func (r *running) byPool() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := map[string]int{}
	for _, a := range r.by {
		n[a.task.Pool]++
	}
	return n
}

// sessionDied marks the attempts of a session that the others declared dead.
func (r *running) sessionDied(session string) {
	for _, a := range r.all() {
		if a.session == session {
			a.mu.Lock()
			a.orphaned = true
			a.mu.Unlock()
		}
	}
}

// transaction notes that a transaction begins which may make rows ours; call the answer when it has
// ended and its tasks are known here.
func (r *running) transaction() (ended func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	n := r.count
	r.open[n] = time.Now()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, n)
	}
}

// underWaySince reports whether a transaction is under way that began at t or before.
func (r *running) underWaySince(t time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, began := range r.open {
		if !began.After(t) {
			return true
		}
	}
	return false
}
