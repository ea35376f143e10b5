package jobs

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/internal/zone"
)

func (p *problems) schedules(path, name string, job Job) (rules []readRule) {
	zone, err := zone.Load(job.Timezone)
	if err != nil { // the expressions can be judged without it
		p.add(path+".timezone", "%s", err)
	}
	index := 0
	check := func(path, spec string) {
		due, err := p.expression(spec, zone, seed{&name, index})
		index++
		switch {
		case err != nil:
			p.add(path, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		case due.rule != nil && job.Jitter > 0:
			rules = append(rules, readRule{spec, due.rule})
		}
	}
	if job.Schedule != "" {
		check(path+".schedule", job.Schedule)
	}
	if n := len(job.Specs()); n > maxSpecs {
		p.add(path+".schedules", "%d schedules, at most %d are allowed", n, maxSpecs)
		return nil
	}
	for i, spec := range job.Schedules {
		check(fmt.Sprintf("%s.schedules[%d]", path, i), spec)
	}
	return rules
}

// expression checks one expression. Many jobs have the same ones, and without H they mean the same in each.
func (p *problems) expression(spec string, zone *time.Location, s seed) (dueBy, error) {
	key := read{spec, zone}
	if was, known := p.read[key]; known {
		return was.due, was.err
	}
	due, err := parseSpec(spec, zone, s)
	if !usesHash(spec) {
		if p.read == nil {
			p.read = map[read]wasRead{}
		}
		p.read[key] = wasRead{due, err}
	}
	return due, err
}

// bounds checks the time in which the job is due.
func (p *problems) bounds(path string, job Job) {
	for _, bound := range []struct {
		key string
		at  time.Time
	}{{".starts_at", job.StartsAt}, {".ends_at", job.EndsAt}} {
		switch year := bound.at.UTC().Year(); {
		case bound.at.IsZero():
		case year < 1970 || year > 9999:
			p.add(path+bound.key, "%d is out of range 1970–9999 for its year; leave it out for no bound", year)
		case len(job.Specs()) == 0:
			p.add(path+bound.key, "has no effect, as the job has no schedule; remove it, or give the job a schedule")
		}
	}
	if !job.StartsAt.IsZero() && !job.EndsAt.IsZero() && !job.EndsAt.After(job.StartsAt) {
		p.add(path+".ends_at", "%s is not after starts_at, %s; the job would never be due", job.EndsAt.Format(time.RFC3339), job.StartsAt.Format(time.RFC3339))
	}
}

// spread checks by how much the job's due times may be moved.
func (p *problems) spread(path string, job Job) {
	switch d := job.Spread; {
	case d == 0:
	case d < 0 || d > limits.Spread:
		p.add(path, "%v is out of range 1s–%v; leave it out for none, and choose days with H", d, limits.Spread)
	case d%time.Second != 0:
		p.add(path, "%v is not a whole number of seconds", d)
	case !job.Recurs():
		p.add(path, "has no effect, as the job has no schedule but @at, which is not moved; remove it, or give the job a schedule")
	}
}

// jitter checks how much later than due the job's triggers may start.
func (p *problems) jitter(path string, job Job, rules []readRule) {
	d := job.Jitter
	p.duration(path, d)
	switch {
	case d <= 0:
	case d%jitterUnit != 0:
		p.add(path, "%v is not a whole number of milliseconds", d)
	case len(job.Specs()) == 0:
		p.add(path, "has no effect, as the job has no schedule; remove it, or give the job a schedule")
	default:
		if why := tooClose(rules, d); why != "" {
			p.add(path, "%v is too long, as %s; a trigger has to start before the next due time, so make it shorter than that, or 0s for none", d, why)
		}
	}
}
