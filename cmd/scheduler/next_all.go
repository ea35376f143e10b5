package main

import (
	"fmt"
	"io"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/foresight"
	"github.com/lockstep-scheduler/lockstep/internal/zone"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// nextAll are the first due times of all jobs of the file that have the labels, in the order in which they start, from from on, or after now, and before until, if that is not empty. The times of
// the output are in the zone timezone, or each in that of its job.
func (a *app) nextAll(n int, labels []string, from, until, timezone string) error {
	wanted, err := parseLabels(labels)
	if err != nil {
		return err
	}
	shown, err := zone.Load(timezone)
	if err != nil {
		return usagef("--timezone: %w", err)
	}
	start, end, err := a.bounds(from, until, shown)
	if err != nil {
		return err
	}
	c, chosen, err := a.labelled(wanted)
	if err != nil {
		return err
	}
	all := make([]foresight.Coming, 0, len(chosen))
	compiler := c.Set.Compiler()
	times := make(map[string]*jobs.Schedule, len(chosen))
	namespace := namespaceOf(c.Set)
	for name, job := range chosen {
		schedule, err := compiler.Compile(name, job)
		if err != nil {
			return fmt.Errorf("job %s: %w", name, err)
		}
		if first, ok := foresight.After(name, schedule, foresight.StartsOf(job, name, schedule, namespace), start.after()); ok {
			times[name] = schedule
			all = append(all, first)
		}
	}
	zoneOf := func(job string) *time.Location {
		if timezone != "" {
			return shown
		}
		of, _ := zone.Load(chosen[job].Timezone) // which the file's check has found
		return of
	}
	dues, later := []wire.JobDue{}, false
	for d := range foresight.Merge(all) {
		if len(dues) == n || !end.IsZero() && !d.Start.Before(end) {
			break
		}
		due := wire.JobDue{Job: d.Job, Due: wire.NewDue(d.At, zoneOf(d.Job)), Suspended: chosen[d.Job].Suspend}
		due.AddStart(chosen[d.Job], d.Job, times[d.Job], namespace)
		later = later || !due.StartAt.IsZero() || !due.StartBefore.IsZero()
		dues = append(dues, due)
	}
	if len(dues) == 0 {
		fmt.Fprintf(a.stderr, "note: %s\n", start.noneDue(end, shown))
	}
	return a.print(dues, func(w io.Writer) error {
		heading := "UTC LOCAL JOB"
		if later {
			heading = "UTC LOCAL STARTS JOB"
		}
		return table(w, heading, dues, func(d wire.JobDue) []string {
			name, cells := d.Job, []string{d.At.Format(time.RFC3339), dueText(d.Due, zoneOf(d.Job))}
			if d.Suspended {
				name += " (suspended)"
			}
			if later {
				cells = append(cells, startText(d.Due, zoneOf(d.Job)))
			}
			return append(cells, name)
		})
	})
}

// nextFrom is where due times that are asked for begin.
type nextFrom struct {
	at    time.Time
	given bool // a due time at that moment is one of them, too
}

// after is the moment after which they are.
func (b nextFrom) after() time.Time {
	if b.given {
		return b.at.Add(-time.Nanosecond)
	}
	return b.at
}

// noneDue says that there is no due time, before end if that is not zero.
func (b nextFrom) noneDue(end time.Time, in *time.Location) string {
	text := "there is no due time after " + b.at.In(in).Format(time.RFC3339)
	if b.given {
		text = "there is no due time from " + b.at.In(in).Format(time.RFC3339) + " on"
	}
	if !end.IsZero() {
		text += " and before " + end.In(in).Format(time.RFC3339)
	}
	return text
}

// bounds reads --from, by default now, and --until, by default none.
func (a *app) bounds(from, until string, in *time.Location) (start nextFrom, end time.Time, err error) {
	start.at = a.now()
	if from != "" {
		start.given = true
		if start.at, err = parseTime(from, in); err != nil {
			return start, end, usagef("--from: %w", err)
		}
	}
	if until != "" {
		if end, err = parseTime(until, in); err != nil {
			return start, end, usagef("--until: %w", err)
		}
		if !end.After(start.at) {
			return start, end, usagef("--until: %s is not after %s", end.In(in).Format(time.RFC3339), start.at.In(in).Format(time.RFC3339))
		}
	}
	return start, end, nil
}
