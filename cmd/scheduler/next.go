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
	"github.com/lockstep-scheduler/lockstep/internal/zone"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// dueText formats a due time: "Mon 2026-03-30 01:30:00 BST".
func dueText(d wire.Due, zone *time.Location) string {
	return d.At.In(zone).Format("Mon 2006-01-02 15:04:05 MST")
}

// maxNext bounds -n.
const maxNext = 10_000

func newNextCommand(a *app) *cobra.Command {
	var (
		n        int
		from     string
		timezone string
	)
	cmd := &cobra.Command{
		Use:   "next JOB|EXPR",
		Short: "Show the next due times of a job or an expression",
		Long: "Show the next due times of a job of the file, or of an expression: an argument that has a blank or\n" +
			"begins with @.",
		Example: "  scheduler next nightly-backup\n" +
			"  scheduler next '30 2 * * *' --timezone Europe/London --from 2026-03-28 -n 3",
		RunE: func(_ *cobra.Command, args []string) error {
			if n < 1 || n > maxNext {
				return usagef("-n %d: must be 1 to %d", n, maxNext)
			}
			specs, zoneName, suspended, err := a.specsOf(args[0])
			if err != nil {
				return err
			}
			if timezone != "" {
				zoneName = timezone
			}
			zone, err := zone.Load(zoneName)
			if err != nil {
				return usagef("--timezone: %w", err)
			}
			schedule, err := jobs.ParseSchedule(specs, zoneName)
			if err != nil {
				return usageError{err}
			}
			start := a.now()
			if from != "" {
				if start, err = parseTime(from, zone); err != nil {
					return usagef("--from: %w", err)
				}
			}
			due := wire.DueTimes(schedule, zone, start, n)
			if suspended {
				fmt.Fprintf(a.stderr, "note: the file suspends job %s: these due times are skipped\n", args[0])
			}
			return a.print(due, func(w io.Writer) error {
				return table(w, "UTC LOCAL", due, func(d wire.Due) []string {
					return []string{d.At.Format(time.RFC3339), dueText(d, zone)}
				})
			})
		},
	}
	cmd.Flags().IntVarP(&n, "number", "n", 10, "number of due times")
	cmd.Flags().StringVar(&from, "from", "", "first due time after this `TIME`: RFC 3339, or 2006-01-02 or 2006-01-02T15:04:05 in the zone (default now)")
	cmd.Flags().StringVar(&timezone, "timezone", "", "IANA `ZONE` to read the schedule in (default the job's, or UTC)")
	return cmd
}

// specsOf returns the schedules of an argument, their zone, and whether it is a suspended job.
func (a *app) specsOf(arg string) (specs []string, timezone string, suspended bool, err error) {
	if strings.ContainsAny(arg, " \t") || strings.HasPrefix(arg, "@") || arg == "" {
		return []string{arg}, "UTC", false, nil
	}
	c, err := a.loadConfig()
	if err != nil {
		return nil, "", false, err
	}
	job, ok := c.Set.Jobs[arg]
	if !ok {
		return nil, "", false, usagef("%s has no job %q%s", c.Path, arg, didYouMean(arg, slices.Sorted(maps.Keys(c.Set.Jobs))))
	}
	if len(job.Specs()) == 0 {
		return nil, "", false, fmt.Errorf("job %s has no schedule: it runs on demand", arg)
	}
	return job.Specs(), job.Timezone, job.Suspend, nil
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
