package scheduler

import (
	"slices"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// skipMost is how many names a claim leaves out: each is an argument of its statement. What cannot be
// run and is beyond them stands in front of the rest, until who can run it has taken some.
const skipMost = 1000

// skip remembers what this replica cannot run, up to skipMost, so that it does not stand in front of the
// rest, and reports whether to ask again: there was something new, or the answer is to a question of
// before unskip.
func (f *feeder) skip(asked int, foreign []jobs.Task) (learned bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if asked != f.unskips {
		return true
	}
	for _, t := range foreign {
		list, name := &f.skipJobs, t.Job
		if name == "" {
			list, name = &f.skipKinds, t.Kind
		}
		if len(*list) < skipMost && !slices.Contains(*list, name) {
			*list, learned = append(*list, name), true
		}
	}
	return learned
}

// unskip forgets what could not be run: the configuration that governs it may be ours again.
func (f *feeder) unskip() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.skipJobs, f.skipKinds = nil, nil
	f.unskips++
}

func (f *feeder) skipped() (names, kinds []string, asked int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.skipJobs), slices.Clone(f.skipKinds), f.unskips
}
