package scheduler

import "maps"

// reservation is slots of this replica, by pool, for what a decision may have born running.
type reservation map[string]int

// reserve takes a slot for one run of each job that this replica may start at once, as far as there are any.
func (s *Scheduler) reserve(names []string) reservation {
	reserved := reservation{}
	for _, name := range names {
		j := s.plan.jobs[name]
		if s.startsHere(j) && s.slots.take(j.Pool, 1) == 1 {
			reserved[j.Pool]++
		}
	}
	return reserved
}

// startsHere: in pools that are limited over all replicas, the claim counts, so nothing is born running there.
func (s *Scheduler) startsHere(j *jobPlan) bool {
	g := s.feeders[j.Pool].governed()
	return j.here && j.handler != nil && g.runs(j) && g.maxRunning == 0
}

// claims hands the slots out to those jobs that ask first: not all that were reserved for need be free. pools are those
// of the request.
func (s *Scheduler) claims(reserved reservation, pools map[string]string) func(job string) bool {
	left := maps.Clone(reserved)
	return func(job string) bool {
		j := s.plan.jobs[job]
		if left[j.Pool] == 0 || !s.startsHere(j) || s.feeders[j.Pool].governed().hash != pools[j.Pool] {
			return false
		}
		left[j.Pool]--
		return true
	}
}

func (s *Scheduler) giveBack(reserved reservation) {
	for pool, n := range reserved {
		s.slots.give(pool, n)
	}
}
