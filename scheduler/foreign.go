package scheduler

import (
	"maps"
	"slices"
	"sync"
)

// foreign is the jobs that a newer configuration governs and has otherwise, or that only one of the
// two has: this replica leaves them alone until it governs again. Of pools it is what to tell people; their feeders
// know what they leave alone.
type foreign struct {
	mu    sync.Mutex
	round int // how often they were set
	jobs  map[string]bool
	pools []string
}

// asked is to be called before the store is asked for what add may then be told.
func (f *foreign) asked() (round int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.round
}

// add reports whether that is news. What was asked for before they were set last is none.
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

// setPools says which pools have tasks that are left to others, and reports whether that is news.
func (f *foreign) setPools(left []string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	news := !slices.Equal(left, f.pools)
	f.pools = left
	return news
}

func (f *foreign) leftPools() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pools
}

// set makes them these, and reports whether that is news.
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
