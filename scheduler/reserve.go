package scheduler

import "maps"

// reservation is what a decision may have born running here, and by what it goes: as it was when the decision was asked
// for. Its transaction may be repeated, so it looks at nothing that changes.
type reservation struct {
	slots   map[string]int       // of this replica, by pool
	governs map[string]governing // of the jobs' pools, as their feeders had it
}

// reserve takes a slot for one run of each job that this replica may start at once, as far as there are any.
func (s *Scheduler) reserve(names []string) reservation {
	r := reservation{slots: map[string]int{}, governs: map[string]governing{}}
	for _, name := range names {
		j := s.plan.jobs[name]
		if _, known := r.governs[j.Pool]; !known {
			r.governs[j.Pool] = s.feeders[j.Pool].governed()
		}
		if r.startsHere(j) && s.slots.take(j.Pool, 1) == 1 {
			r.slots[j.Pool]++
		}
	}
	return r
}

// startsHere: in pools that are limited over all replicas, the claim counts, so nothing is born running there.
func (r reservation) startsHere(j *jobPlan) bool {
	g := r.governs[j.Pool]
	return j.here && j.handler != nil && g.runs(j) && g.maxRunning == 0
}

// hashes are those of the pools' definitions.
func (r reservation) hashes() map[string]string {
	pools := map[string]string{}
	for name, g := range r.governs {
		pools[name] = g.hash
	}
	return pools
}

// claims hands the slots out to those jobs that ask first: not all that were reserved for need be free.
func (r reservation) claims(p *plan) func(job string) bool {
	left := maps.Clone(r.slots)
	return func(job string) bool {
		j := p.jobs[job]
		if left[j.Pool] == 0 || !r.startsHere(j) {
			return false
		}
		left[j.Pool]--
		return true
	}
}

func (s *Scheduler) giveBack(reserved reservation) {
	for pool, n := range reserved.slots {
		s.slots.give(pool, n)
	}
}
