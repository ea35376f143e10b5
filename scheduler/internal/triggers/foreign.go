package triggers

import (
	"maps"
	"sync"
)

// foreign is the jobs that a newer configuration governs and has otherwise, or that only one of the
// two has: this replica leaves them alone until it governs again.
type foreign struct {
	mu    sync.Mutex
	round int // how often they were set
	jobs  map[string]bool
}

// asked returns the round for add. Call it before the store is asked.
func (f *foreign) asked() (round int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.round
}

// add adds a job, and reports whether it is new. An answer of an earlier round than the last set adds nothing.
func (f *foreign) add(asked int, job string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if asked != f.round {
		return false
	}
	if f.jobs == nil {
		f.jobs = map[string]bool{}
	}
	known := f.jobs[job]
	f.jobs[job] = true
	return !known
}

func (f *foreign) has(job string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.jobs[job]
}

func (f *foreign) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.jobs)
}

// set replaces the jobs, and reports whether they changed.
func (f *foreign) set(jobs []string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := make(map[string]bool, len(jobs))
	for _, job := range jobs {
		now[job] = true
	}
	news := !maps.Equal(now, f.jobs)
	f.jobs = now
	f.round++
	return news
}
