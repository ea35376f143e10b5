package triggers

import "sync"

// freed is the jobs of other replicas' stripes of which a run has ended here: another may wait for its slot.
type freed struct {
	mu   sync.Mutex
	jobs map[string]bool
}

func (f *freed) add(job string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.jobs == nil {
		f.jobs = map[string]bool{}
	}
	f.jobs[job] = true
}

// take returns some of the jobs, at most decideBatch, and forgets them.
func (f *freed) take() (taken []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for job := range f.jobs {
		if len(taken) == decideBatch {
			break
		}
		taken = append(taken, job)
		delete(f.jobs, job)
	}
	return taken
}
