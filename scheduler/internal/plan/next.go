package plan

import (
	"maps"
	"reflect"
	"slices"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Changes are what a plan has otherwise than the one before it, by name.
type Changes struct {
	Jobs, Pools wire.Changed
	names       []string // of the jobs, sorted
}

// Names are those of all jobs that were added, changed or removed, sorted.
func (c Changes) Names() []string { return c.names }

// Next compiles a set that takes the place of p's, for a replica with the same labels. Jobs that are as they were are p's own, and are neither checked nor compiled
// again, while calendars and pools are the same, and no job that has changed notifies: a file of 100,000 jobs of which some have changed costs what these do, and
// a comparison of the others.
func (p *Plan) Next(set jobs.Set, labels map[string]string) (*Plan, Changes, error) {
	names, few := p.otherJobs(set)
	if !few {
		next, err := New(set, labels)
		if err != nil {
			return nil, Changes{}, err
		}
		jobs, pools := next.Compare(p)
		return next, Changes{jobs, pools, slices.Sorted(slices.Values(slices.Concat(jobs.Added, jobs.Changed, jobs.Removed)))}, nil
	}
	has := slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, has := set.Jobs[name]; return !has })
	if err := set.ValidateChanged(p.given(names), has); err != nil {
		return nil, Changes{}, err
	}
	next := &Plan{Set: kept(set), Jobs: maps.Clone(p.Jobs), Pools: p.Pools, names: p.names, locked: p.locked, starts: p.starts, calendars: p.calendars}
	for _, name := range names {
		if was := next.Jobs[name]; was != nil && was.HasLocks() {
			next.locked--
		}
		delete(next.Jobs, name)
	}
	compiler := set.Compiler()
	for _, name := range has {
		if err := next.compile(compiler, name, set.Jobs[name].WithDefaults(), labels); err != nil {
			return nil, Changes{}, err
		}
	}
	c := Changes{Jobs: compareOnly(p.Jobs, next.Jobs, names, hashOf)}
	c.names = slices.Sorted(slices.Values(slices.Concat(c.Jobs.Added, c.Jobs.Changed, c.Jobs.Removed)))
	if len(c.Jobs.Added)+len(c.Jobs.Removed) > 0 {
		next.names = slices.DeleteFunc(slices.Concat(p.names, c.Jobs.Added), func(name string) bool { return next.Jobs[name] == nil })
		slices.Sort(next.names)
	}
	next.compiled()
	return next, c, nil
}

// otherJobs are the names, sorted, of the jobs that set has otherwise than p's, does not have, or has beside them; false: more may differ.
func (p *Plan) otherJobs(set jobs.Set) (names []string, few bool) {
	samePool := func(a, b jobs.Pool) bool { return a.Same(&b) }
	if set.Name != p.Set.Name || !maps.EqualFunc(set.Pools, p.Set.Pools, samePool) || !reflect.DeepEqual(set.Calendars, p.Set.Calendars) {
		return nil, false
	}
	had := 0
	for name, job := range set.Jobs {
		notifies := job.Notify.Handler != nil
		if was := p.Jobs[name]; was != nil {
			had++
			if filled := job.WithDefaults(); was.is(&filled) {
				continue
			}
			notifies = notifies || was.Notify.Handler != nil
		}
		if notifies {
			return nil, false // the pool of notifications has a kind for each
		}
		names = append(names, name)
	}
	if had < len(p.Jobs) {
		for name, was := range p.Jobs {
			if _, has := set.Jobs[name]; has {
				continue
			}
			if was.Notify.Handler != nil {
				return nil, false
			}
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, true
}

// is reports whether j was made of a job that has its defaults, whose payload it writes.
func (j *Job) is(job *jobs.Job) bool {
	given := job.Payload
	job.Payload = j.Job.Payload // as they were given they are compared, and not as tasks get them
	return job.Same(&j.Job) && jobs.SameValue(given, j.given)
}

// given are these jobs as they were given.
func (p *Plan) given(names []string) jobs.Set {
	all := jobs.Set{Jobs: map[string]jobs.Job{}}
	for _, name := range names {
		if j := p.Jobs[name]; j != nil {
			all.Jobs[name] = j.Job
		}
	}
	return all
}

// kept is a set whose pools are compared with those of the next one: whoever gave it may give the same map again, with other pools in it.
func kept(set jobs.Set) jobs.Set {
	set.Pools, set.Calendars = maps.Clone(set.Pools), maps.Clone(set.Calendars)
	for name, pool := range set.Pools {
		pool.Kinds = maps.Clone(pool.Kinds)
		set.Pools[name] = pool
	}
	return set
}
