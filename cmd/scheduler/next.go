package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/internal/zone"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// dueText formats a due time: "Mon 2026-03-30 01:30:00 BST".
func dueText(d wire.Due, zone *time.Location) string {
	return d.At.In(zone).Format("Mon 2006-01-02 15:04:05 MST")
}

// startText formats when the run of a due time starts, or before when, in the zone; with the day if that is another one than the due time's.
func startText(d wire.Due, zone *time.Location) string {
	layout, before, at := "15:04:05.000 MST", "", d.StartAt
	if at.IsZero() && d.StartBefore.IsZero() {
		return "at once"
	}
	if at.IsZero() {
		before, at = "before ", d.StartBefore
	}
	if at.In(zone).Format(time.DateOnly) != d.At.In(zone).Format(time.DateOnly) {
		layout = "Mon 2006-01-02 " + layout
	}
	return before + at.In(zone).Format(layout)
}

// maxNext bounds -n.
const maxNext = 10_000

func newNextCommand(a *app) *cobra.Command {
	var (
		n        int
		from     string
		until    string
		labels   []string
		timezone string
		name     string
	)
	cmd := &cobra.Command{
		Use:   "next [JOB|EXPR]",
		Short: "Show the next due times of all jobs, of one, or of an expression",
		Long: "Show the next due times of all jobs of the file, or of one, or of an expression: an argument that has a blank or\n" +
			"begins with @. H is a hash of the job's name: an expression with it needs --job. A job's starts_at\n" +
			"and ends_at hold: there is no due time outside of them. Of a job with calendars the due times that run\n" +
			"are shown, and how many before each one its calendars leave out. Spread has moved all of them.\n\n" +
			"With jitter the run of a due time starts later: STARTS says when, if the file has a name, and else before when,\n" +
			"as the store's id decides then. jobs get, and GET /api/v1/jobs/JOB/next of a replica, know it.",
		Example: "  scheduler next -n 20 --label team=infra\n" +
			"  scheduler next nightly-backup\n" +
			"  scheduler next '30 2 * * *' --timezone Europe/London --from 2026-03-28 -n 3\n" +
			"  scheduler next 'H H(0-5) LW * *' --job nightly-backup",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := unused(cmd, "next reads the file, and asks no replica; 'scheduler jobs list' and 'scheduler why JOB' do. Remove it", ofServers...); err != nil {
				return err
			}
			if n < 1 || n > maxNext {
				return usagef("-n %d: must be 1 to %d", n, maxNext)
			}
			if len(args) == 0 {
				if name != "" {
					return usagef("--job is for an expression; write 'scheduler next %s' for one job", name)
				}
				return a.nextAll(n, labels, from, until, timezone)
			}
			if name != "" && !naming.Valid(name) {
				return usagef("--job: %s is not a name for a job; %s", clip.Quoted(name, 60), naming.Hint)
			}
			if len(labels) > 0 {
				return usagef("--label is for all jobs, and %q is one: remove one of them", args[0])
			}
			set, job, named, err := a.jobOf(args[0])
			if err != nil {
				return err
			}
			if !named {
				if err := unused(cmd, fmt.Sprintf("%q is an expression, and for these no file is read. Remove it", args[0]), "config"); err != nil {
					return err
				}
			}
			if named && name != "" {
				return usagef("--job is for an expression, and %q is the name of a job: remove one of them", args[0])
			}
			if timezone != "" {
				job.Timezone = timezone
			}
			zone, err := zone.Load(job.Timezone)
			if err != nil {
				return usagef("--timezone: %w", err)
			}
			schedule, err := compile(set, job, args[0], named, name)
			if err != nil {
				return usageError{err}
			}
			start, end, err := a.bounds(from, until, zone)
			if err != nil {
				return err
			}
			due := wire.DueTimes(job, args[0], schedule, namespaceOf(set), zone, start.after(), n)
			if !end.IsZero() {
				due = slices.DeleteFunc(due, func(d wire.Due) bool { return !d.At.Before(end) })
			}
			if job.Suspend {
				fmt.Fprintf(a.stderr, "note: the file suspends job %s: these due times are skipped\n", args[0])
			}
			if len(due) == 0 && job.Calendars.Any() {
				fmt.Fprintf(a.stderr, "note: %s, as far as its calendars are known\n", start.noneDue(end, zone))
			} else if len(due) == 0 {
				fmt.Fprintf(a.stderr, "note: %s\n", start.noneDue(end, zone))
			}
			return a.print(due, func(w io.Writer) error {
				heading, row := "UTC LOCAL", func(d wire.Due) []string { return []string{d.At.Format(time.RFC3339), dueText(d, zone)} }
				add := func(words string, more func(d wire.Due) []string) {
					before := row
					heading, row = heading+" "+words, func(d wire.Due) []string { return append(before(d), more(d)...) }
				}
				if job.Calendars.Any() {
					add("RUNS LEFT-OUT", func(d wire.Due) []string { return []string{runsText(d, zone), leftOutText(d.LeftOut)} })
				}
				if job.Jitter > 0 {
					add("STARTS", func(d wire.Due) []string { return []string{startText(d, zone)} })
				}
				return table(w, heading, due, row)
			})
		},
	}
	cmd.Flags().IntVarP(&n, "number", "n", 10, "number of due times")
	cmd.Flags().StringVar(&from, "from", "", "due times from this `TIME` on, one at it too: RFC 3339, or 2006-01-02 or 2006-01-02T15:04:05 in the zone (default those after now)")
	cmd.Flags().StringVar(&until, "until", "", "only due times before this `TIME`, written in the same way")
	cmd.Flags().StringArrayVar(&labels, "label", nil, "of all jobs, only those with this label, `KEY=VALUE`; may be repeated, for jobs that have all of them")
	cmd.Flags().StringVar(&name, "job", "", "read H of an expression as in the job `NAME`, of its first expression")
	cmd.Flags().StringVar(&timezone, "timezone", "", "IANA `ZONE` to read the schedule in (default the job's, or UTC); of all jobs, to show their times in")
	return cmd
}

// namespaceOf is what the jitter of the set's jobs is drawn in; nil: without a name, which only the store knows.
func namespaceOf(set jobs.Set) *string {
	if set.Name == "" {
		return nil
	}
	return &set.Name
}

// compile reads the schedules of a job of the file, or of an expression as one of the job with that name, if there is one.
func compile(set jobs.Set, job jobs.Job, arg string, named bool, name string) (*jobs.Schedule, error) {
	switch {
	case named:
		return set.Compiler().Compile(arg, job)
	case name != "":
		return job.Compile(name)
	}
	return jobs.ParseSchedule(job.Specs(), job.Timezone)
}

// runsText is when a due time runs: "at once", or when its closure ends.
func runsText(d wire.Due, zone *time.Location) string {
	if d.RunsAt.IsZero() {
		return "at once"
	}
	return dueText(wire.Due{At: d.RunsAt}, zone)
}

// leftOutText says how many due times calendars leave out: "61 holidays, 3 office".
func leftOutText(all []wire.LeftOut) string {
	var parts []string
	for _, o := range all {
		parts = append(parts, fmt.Sprintf("%d %s", o.Count, o.Calendar))
	}
	return strings.Join(parts, ", ")
}

// jobOf returns the job of that name and its set, or one with an expression alone; named says which.
func (a *app) jobOf(arg string) (set jobs.Set, job jobs.Job, named bool, err error) {
	if strings.ContainsAny(arg, " \t") || strings.HasPrefix(arg, "@") || arg == "" {
		return set, jobs.Job{Schedules: []string{arg}, Timezone: "UTC"}, false, nil
	}
	c, err := a.loadConfig()
	if err != nil {
		return set, job, false, err
	}
	job, ok := c.Set.Jobs[arg]
	if !ok {
		return set, job, false, usagef("%s has no job %q%s", c.Path, arg, didYouMean(arg, slices.Sorted(maps.Keys(c.Set.Jobs))))
	}
	if len(job.Specs()) == 0 {
		return set, job, false, fmt.Errorf("job %s has no schedule: it runs on demand", arg)
	}
	return c.Set, job, true, nil
}

// parseTime parses a time; without an offset it is in zone.
func parseTime(text string, zone *time.Location) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05"} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errors.New("\"" + text + "\" is not a time; write it as 2026-03-29T00:00:00Z or 2026-03-29")
}
