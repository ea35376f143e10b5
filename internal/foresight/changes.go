package foresight

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Changes are what differs between two sets.
type Changes struct {
	Jobs, Pools Names
	Ping        []FieldChange // of the monitor outside
	Due         []DueChange   // of the range, by the names of jobs
}

// Any reports whether the definitions differ, or whom the replicas call.
func (c Changes) Any() bool { return c.Jobs.any() || c.Pools.any() || len(c.Ping) > 0 }

// Names are definitions that differ, by name.
type Names struct {
	Added, Removed []string
	Changed        []Changed
}

func (n Names) any() bool { return len(n.Added)+len(n.Removed)+len(n.Changed) > 0 }

// Changed is a definition that both sets have.
type Changed struct {
	Name   string
	Fields []FieldChange
}

// DueChange is what becomes of a job's due times.
type DueChange struct {
	Job              string
	New, Gone, Moved int
	Inexact          bool         // these are lower bounds: the job has too many due times to compare all
	Times            []TimeChange // the first ones
}

// TimeChange is one due time.
type TimeChange struct {
	Old, New time.Time // zero: there is none; neither is: it moves
}

// At is when it is due, or was.
func (t TimeChange) At() time.Time {
	if t.New.IsZero() {
		return t.Old
	}
	return t.New
}

// comparedMost is how many due times of one job are compared.
const comparedMost = 10_000

// Compare says what differs between two sets, and in the due times after from, up to and including to. Of each job's due times, at most shown are
// listed. Due times move if as many are gone as are new: the first one that is gone to the first new one, and so on. A job that is suspended
// has none. Errors are those of [jobs.Compiler.Compile].
func Compare(old, now jobs.Set, from, to time.Time, shown int) (c Changes, err error) {
	before, after := old.Compiler(), now.Compiler()
	calendars := calendarChanges{old.Calendars, now.Calendars, before.Calendars(), after.Calendars()}
	c.Jobs = names(old.Jobs, now.Jobs, func(a, b jobs.Job) []FieldChange {
		differ := Differences(shownJob(a), shownJob(b))
		return append(differ, calendars.of(a, b)...)
	})
	c.Pools = names(old.Pools, now.Pools, func(a, b jobs.Pool) []FieldChange {
		return Differences(a.WithDefaults(), b.WithDefaults())
	})
	c.Ping = Differences(shownPing(old.Ping), shownPing(now.Ping))
	for _, name := range slices.Sorted(maps.Keys(union(old.Jobs, now.Jobs))) {
		a, had := old.Jobs[name]
		b, has := now.Jobs[name]
		if had && has && before.ScheduleHash(a) == after.ScheduleHash(b) && a.Suspend == b.Suspend {
			continue
		}
		was, err := due(before, name, a, had)
		if err != nil {
			return c, err
		}
		is, err := due(after, name, b, has)
		if err != nil {
			return c, err
		}
		if d := compareDue(name, was, is, from, to, shown); d.New+d.Gone+d.Moved > 0 {
			c.Due = append(c.Due, d)
		}
	}
	return c, nil
}

// shownJob is a job with one list of its schedules.
func shownJob(j jobs.Job) jobs.Job {
	j = j.WithDefaults()
	j.Schedule, j.Schedules = "", j.Specs()
	return j
}

// shownPing is a ping with its default; the zero one calls nobody.
func shownPing(g jobs.Ping) jobs.Ping {
	if g.Handler != nil {
		g.Every = g.Interval()
	}
	return g
}

// names tells apart what is added, removed and changed.
func names[T any](old, now map[string]T, differ func(a, b T) []FieldChange) (n Names) {
	for _, name := range slices.Sorted(maps.Keys(union(old, now))) {
		a, had := old[name]
		b, has := now[name]
		switch {
		case !had:
			n.Added = append(n.Added, name)
		case !has:
			n.Removed = append(n.Removed, name)
		default:
			if fields := differ(a, b); len(fields) > 0 {
				n.Changed = append(n.Changed, Changed{name, fields})
			}
		}
	}
	return n
}

func union[T any](a, b map[string]T) map[string]bool {
	all := make(map[string]bool, max(len(a), len(b)))
	for name := range a {
		all[name] = true
	}
	for name := range b {
		all[name] = true
	}
	return all
}

// due is the schedule of a job; one that is never due if the job is suspended, or does not exist.
func due(c *jobs.Compiler, name string, j jobs.Job, exists bool) (*jobs.Schedule, error) {
	if !exists || j.Suspend {
		return jobs.ParseSchedule(nil, "")
	}
	return c.Compile(name, j)
}

func compareDue(job string, before, after *jobs.Schedule, from, to time.Time, shown int) DueChange {
	d := DueChange{Job: job}
	was, more := before.Between(from, to, comparedMost)
	is, more2 := after.Between(from, to, comparedMost)
	if d.Inexact = more || more2; d.Inexact { // compare what both lists cover
		end := to
		if more {
			end = was[len(was)-1]
		}
		if more2 && is[len(is)-1].Before(end) {
			end = is[len(is)-1]
		}
		beyond := func(t time.Time) bool { return t.After(end) }
		was, is = slices.DeleteFunc(was, beyond), slices.DeleteFunc(is, beyond)
	}
	gone, fresh := without(was, is), without(is, was)
	switch {
	case len(gone) == len(fresh):
		d.Moved = len(gone)
		for i := range min(shown, len(gone)) {
			d.Times = append(d.Times, TimeChange{gone[i], fresh[i]})
		}
		return d
	default:
		d.Gone, d.New = len(gone), len(fresh)
	}
	for _, t := range gone[:min(shown, len(gone))] {
		d.Times = append(d.Times, TimeChange{Old: t})
	}
	for _, t := range fresh[:min(shown, len(fresh))] {
		d.Times = append(d.Times, TimeChange{New: t})
	}
	slices.SortStableFunc(d.Times, func(a, b TimeChange) int { return cmp.Compare(a.At().UnixNano(), b.At().UnixNano()) })
	d.Times = d.Times[:min(shown, len(d.Times))]
	return d
}

// without are the times of a that b does not have. Both are in order.
func without(a, b []time.Time) (rest []time.Time) {
	for _, t := range a {
		for len(b) > 0 && b[0].Before(t) {
			b = b[1:]
		}
		if len(b) == 0 || !b[0].Equal(t) {
			rest = append(rest, t)
		}
	}
	return rest
}
