package jobs

import (
	"maps"
	"slices"
)

// RunsOn is the labels of the replicas that run tasks of a pool: those of the pool, and with a job those of the job. Empty: any replica.
func (s Set) RunsOn(pool, job string) map[string]string {
	all, own := s.Pools[pool].RunsOn, s.Jobs[job].RunsOn
	switch {
	case len(all) == 0:
		return own
	case len(own) == 0:
		return all
	}
	all = maps.Clone(all)
	maps.Copy(all, own)
	return all
}

// runsBeside refuses labels of a job that no replica of its pool has.
func (p *problems) runsBeside(path string, job Job, pool Pool) {
	for _, key := range slices.Sorted(maps.Keys(job.RunsOn)) {
		if of, has := pool.RunsOn[key]; has && of != job.RunsOn[key] {
			p.add(path+".runs_on", "%.80q is %.80q, and the replicas of its pool have %.80q: none has both; change one of them, or give the job another pool", key, job.RunsOn[key], of)
		}
	}
}
