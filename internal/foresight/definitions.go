package foresight

import (
	"container/heap"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Definitions are a set that was made ready once: who asks parses nothing. They do not change, and may be used by several goroutines.
type Definitions struct {
	Set      jobs.Set
	schedule func(job string) *jobs.Schedule
	hash     func(job string) string
	closable func() int
	ahead    ahead
}

// Define are the definitions of a set whose jobs have these schedules and hashes. Both are called by several goroutines; a nil schedule is that of a
// job that is never due.
func Define(set jobs.Set, schedule func(job string) *jobs.Schedule, hash func(job string) string) *Definitions {
	return &Definitions{Set: set, schedule: schedule, hash: hash, closable: sync.OnceValue(func() (n int) {
		for _, job := range set.Jobs {
			if job.Calendars.Any() {
				n++
			}
		}
		return n
	})}
}

// Compile are the definitions of a set, of whose jobs each is compiled when it is asked for.
func Compile(set jobs.Set) *Definitions {
	compiler := set.Compiler()
	return Define(set, func(name string) *jobs.Schedule {
		if job := set.Jobs[name]; len(job.Specs()) > 0 {
			schedule, _ := compiler.Compile(name, job) // a set with one that cannot be is refused
			return schedule
		}
		return nil
	}, func(name string) string { return compiler.Hash(set.Jobs[name].WithDefaults()) })
}

// Schedule is that of a job within its calendars; nil: there is no such job, or it is on demand.
func (d *Definitions) Schedule(job string) *jobs.Schedule {
	if _, is := d.Set.Jobs[job]; !is {
		return nil
	}
	return d.schedule(job)
}

// Hash is that of a job's definition, with the content of its calendars; empty if there is no such job.
func (d *Definitions) Hash(job string) string {
	if _, is := d.Set.Jobs[job]; !is {
		return ""
	}
	return d.hash(job)
}

// WithCalendars counts the jobs that have some.
func (d *Definitions) WithCalendars() int { return d.closable() }

// Starts says when the triggers of a job start that has a schedule; with a nil namespace, which means that it is not known, without its jitter.
func (d *Definitions) Starts(job string, namespace *string) jobs.Starts {
	return StartsOf(d.Set.Jobs[job], job, d.schedule(job), namespace)
}

// StartsOf is [jobs.Job.Starts]; with a nil namespace, without the jitter.
func StartsOf(j jobs.Job, name string, times *jobs.Schedule, namespace *string) jobs.Starts {
	if namespace == nil {
		j.Jitter = 0
		return j.Starts(times, name, "")
	}
	return j.Starts(times, name, *namespace)
}

// First are the n jobs that start first after a moment, each with its first due time that does, in the order of their starts. The first
// call computes a due time of each job. A later one with a later moment computes those anew that have passed since the last one, and looks at
// some 2n jobs beside; one with a moment that is less than a second earlier gets the answer of the last one. So its work is bounded by the
// number of jobs, however often they are due and however long calendars leave them out.
func (d *Definitions) First(namespace *string, after time.Time, n int) []Coming {
	a := &d.ahead
	a.mu.Lock()
	defer a.mu.Unlock()
	if back := a.at.Sub(after); back > 0 && back < aMoment {
		after = a.at
	}
	if !a.fits(namespace, after) {
		a.jobs, a.namespace, a.known = a.jobs[:0], "", namespace != nil
		if a.known {
			a.namespace = *namespace
		}
		for _, name := range slices.Sorted(maps.Keys(d.Set.Jobs)) {
			times := d.Schedule(name)
			if times == nil {
				continue
			}
			if c, ok := After(name, times, d.Starts(name, namespace), after); ok {
				a.jobs = append(a.jobs, c)
			}
		}
		heap.Init(&a.jobs)
	}
	a.at = after
	for len(a.jobs) > 0 && !a.jobs[0].Start.After(after) {
		c := &a.jobs[0]
		if c.from(c.Starts.Begun(after)) {
			heap.Fix(&a.jobs, 0)
		} else {
			heap.Pop(&a.jobs)
		}
	}
	return a.first(n)
}

// aMoment is by how much those who ask at once may come in another order than they read their clocks.
const aMoment = time.Second

// ahead are the jobs that have due times after a moment, each with the first one, as a heap.
type ahead struct {
	mu        sync.Mutex
	at        time.Time // zero: it was not made yet
	namespace string
	known     bool
	jobs      queue
}

// fits reports whether what is there can be moved on to a moment.
func (a *ahead) fits(namespace *string, after time.Time) bool {
	return !a.at.IsZero() && !after.Before(a.at) && a.known == (namespace != nil) && (namespace == nil || *namespace == a.namespace)
}

// first reads the first n of the heap, which stays as it is: what may come next is a child of what came before.
func (a *ahead) first(n int) []Coming {
	found := make([]Coming, 0, min(n, len(a.jobs)))
	next := places{of: a.jobs}
	if len(a.jobs) > 0 {
		next.at = append(next.at, 0)
	}
	for len(next.at) > 0 && len(found) < n {
		i := heap.Pop(&next).(int)
		found = append(found, a.jobs[i])
		for child := 2*i + 1; child <= 2*i+2 && child < len(a.jobs); child++ {
			heap.Push(&next, child)
		}
	}
	return found
}

// places are a heap of places of another one.
type places struct {
	of queue
	at []int
}

func (p places) Len() int           { return len(p.at) }
func (p places) Less(i, j int) bool { return p.of.Less(p.at[i], p.at[j]) }
func (p places) Swap(i, j int)      { p.at[i], p.at[j] = p.at[j], p.at[i] }
func (p *places) Push(x any)        { p.at = append(p.at, x.(int)) }
func (p *places) Pop() any {
	last := p.at[len(p.at)-1]
	p.at = p.at[:len(p.at)-1]
	return last
}
