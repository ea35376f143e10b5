package jobs

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Compiler makes schedules and hashes of the jobs of a set with the set's calendars, each of which it reads once, when it is needed. It may be used by
// several goroutines. Calendars that [Set.Validate] refuses have what could be read of them.
type Compiler struct {
	set   Set
	mu    sync.Mutex // guards ready
	ready map[string]*calendar
}

// Compiler returns one for the set.
func (s Set) Compiler() *Compiler { return &Compiler{set: s, ready: map[string]*calendar{}} }

// Compile is [Job.Compile] of a job that has this name in the set, or is as it would be in it, within its calendars.
func (c *Compiler) Compile(name string, j Job) (*Schedule, error) {
	s, err := j.compile(name)
	if err != nil || !j.Calendars.Any() {
		return s, err
	}
	of := j.Calendars.hashed()
	s.closed = closures{c.own(of.Exclude), c.own(of.Only), of.Otherwise == OtherwiseNext}
	return s, nil
}

// Hash is [Job.Hash] with the content of the job's calendars. It is the same for calendars with the same times.
func (c *Compiler) Hash(j Job) string { return c.withContent(j, j.Hash()) }

// ScheduleHash is [Job.ScheduleHash] with the content of the job's calendars.
func (c *Compiler) ScheduleHash(j Job) string { return c.withContent(j, j.ScheduleHash()) }

// Calendars says of each calendar of the set what is in it: how much, and a digest that is another one when its times are, as in "12 dates, 3f9a12bc34de".
func (c *Compiler) Calendars() map[string]string {
	all := make(map[string]string, len(c.set.Calendars))
	for _, own := range c.own(slices.Collect(maps.Keys(c.set.Calendars))) {
		all[own.name] = own.size + ", " + own.content[:min(12, len(own.content))]
	}
	return all
}

func (c *Compiler) withContent(j Job, hash string) string {
	if !j.Calendars.Any() {
		return hash
	}
	whole := []string{hash}
	for _, own := range c.own(j.Calendars.names()) {
		whole = append(whole, own.content)
	}
	return fingerprint(whole)
}

// own are the calendars with these names; one that the set does not have has no moment.
func (c *Compiler) own(names []string) (all []ownCalendar) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		if c.ready[name] == nil {
			c.ready[name] = c.set.Calendars[name].read(&problems{}, "")
		}
		all = append(all, ownCalendar{name, c.ready[name]})
	}
	return all
}

// NeverDue returns the names, sorted, of jobs whose schedules have due times after now, none of which their calendars allow: within 50 years beyond
// the last date of a calendar, and 20,000 closures.
func (s Set) NeverDue(now time.Time) (names []string) {
	c := s.Compiler()
	for name, j := range s.Jobs {
		if !j.Calendars.Any() {
			continue
		}
		if schedule, err := c.Compile(name, j); err == nil && schedule.Next(now).IsZero() && !schedule.nextDue(now).IsZero() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
