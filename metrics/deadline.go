package metrics

import (
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// leeway is added to each due time, so that neither a scrape that is a minute old nor a restart of all replicas makes a
// job late that runs each minute.
const leeway = 5 * time.Minute

// plans are the jobs' definitions in this replica's configuration.
type plans map[string]*plan

type plan struct {
	jobs.Job
	schedule *jobs.Schedule // nil: none
	due, by  time.Time      // the last answer: the due time, and its deadline
}

// newPlans applies the set's defaults.
func newPlans(set jobs.Set) plans {
	all, compiler := plans{}, set.Compiler()
	for name, job := range set.Jobs {
		p := &plan{Job: job}
		p.RunsOn = set.RunsOn(job.WithDefaults().Pool, name)
		if len(job.Specs()) > 0 {
			p.schedule, _ = compiler.Compile(name, job) // the scheduler refused what cannot be parsed
		}
		all[name] = p
	}
	return all
}

// suspended reports whether the job is, by override or else by definition.
func (all plans) suspended(s ledger.JobStanding) bool {
	if s.Suspended != nil {
		return *s.Suspended
	}
	p := all[s.Name]
	return p != nil && p.Suspend
}

// deadline is the time by which the job must have succeeded: the first due time since the last success, or else the
// next one, plus the jitter and the duration of all attempts, bounded by the following due time, and at least leeway. Zero: never.
func (all plans) deadline(s ledger.JobStanding) time.Time {
	p := all[s.Name]
	if p == nil || p.schedule == nil || all.suspended(s) {
		return time.Time{}
	}
	due := s.Unmet
	if due.IsZero() {
		if due = s.NextAt; !due.IsZero() && p.Calendars.Any() { // it may be the time of a look at what calendars leave out
			due = p.schedule.NextFire(due.Add(-time.Nanosecond))
		}
	}
	if !due.Equal(p.due) {
		p.due, p.by = due, time.Time{}
		if !due.IsZero() {
			p.by = due.Add(p.Jitter + p.patience(due))
		}
	}
	return p.by
}

func (p *plan) patience(due time.Time) time.Duration {
	all := p.attempts()
	if next := p.schedule.NextFire(due); !next.IsZero() {
		all = min(all, next.Sub(due))
	}
	return max(all, leeway)
}

// attempts is the maximum duration of all attempts with their backoffs.
func (p *plan) attempts() time.Duration {
	const most = 10 * 365 * 24 * time.Hour
	all := p.Timeout
	for range p.Retries.Limit {
		if all = all + p.Retries.MaxBackoff + p.Timeout; all > most || all < 0 {
			return most
		}
	}
	return all
}
