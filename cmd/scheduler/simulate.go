package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/internal/foresight"
	"github.com/lockstep-scheduler/lockstep/internal/zone"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

const (
	busiestShown = 5
	namesShown   = 100 // of a minute, or of a jump of a clock
	maxDue       = 20_000_000
	maxMaxDue    = 1_000_000_000
)

// withServer says what the flags of a replica need where --server is given by hand alone.
const withServer = "it is for a replica, and none is asked without --server URL. Add that, or remove it"

func newSimulateCommand(a *app) *cobra.Command {
	var (
		from, to, timezone, step string
		labels                   []string
		most                     = maxDue
	)
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Show what the jobs' schedules have to come: load, overlaps, and jumps of clocks",
		Long: "Count the due times of the file's jobs in a range of time: the starts per minute as a chart, the busiest minutes with their jobs,\n" +
			"due times that calendars leave out, and those that a jump of a zone's clock moves, skips or repeats. A due time counts where it is\n" +
			"to start: with jitter, and at the end of a closure, that is later. Suspended jobs and those on demand are left out.\n\n" +
			"With --server, the replica's ledger says how long runs took: then the chart has the runs at once, and jobs are named whose\n" +
			"due times find an earlier run, if runs take as long as nine of ten did. No run is expected to be retried, or to wait for a\n" +
			"worker or a lock. Without --server nothing but the file is read.",
		Example: "  scheduler simulate --from 2026-12-01 --to 2027-01-01\n" +
			"  scheduler simulate --to 7d --server http://127.0.0.1:8080\n" +
			"  scheduler simulate --step 1h --label team=infra -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.serverFlag == "" {
				if err := unused(cmd, withServer, ofServers...); err != nil {
					return err
				}
			}
			in, err := zone.Load(timezone)
			if err != nil {
				return usagef("--timezone: %w", err)
			}
			r, err := a.simulatedRange(from, to, in)
			if err != nil {
				return err
			}
			if step != "" {
				if r.step, err = duration.Parse(step); err != nil {
					return usagef("--step: %w", err)
				}
				if r.step < time.Minute || r.step%time.Minute != 0 {
					return usagef("--step %s: must be a number of whole minutes", step)
				}
			}
			if most < 1 || most > maxMaxDue {
				return usagef("--max-due %d: must be 1 to %d", most, maxMaxDue)
			}
			wanted, err := parseLabels(labels)
			if err != nil {
				return err
			}
			c, chosen, err := a.labelled(wanted)
			if err != nil {
				return err
			}
			s := simulated{File: c.Path, zone: in}
			var all []foresight.Simulated
			compiler := c.Set.Compiler()
			for _, name := range slices.Sorted(maps.Keys(chosen)) {
				job := chosen[name].WithDefaults()
				switch {
				case job.Suspend:
					s.Suspended++
				case len(job.Specs()) == 0:
					s.OnDemand++
				default:
					schedule, err := compiler.Compile(name, job)
					if err != nil {
						return fmt.Errorf("job %s: %w", name, err)
					}
					all = append(all, foresight.Simulated{Name: name, Schedule: schedule, Starts: job.Starts(schedule, name, c.Set.Name), Concurrency: job.Concurrency, Beside: job.Concurrency == jobs.Allow || job.MaxRunning > 1})
				}
			}
			if a.serverFlag != "" {
				if s.Past, err = a.pastLengths(cmd.Context(), all); err != nil {
					return a.explain(err)
				}
			}
			sim := foresight.Simulate(all, r.from, r.to, most)
			shifts := foresight.Shifts(all, func(job string) string { return cmp.Or(chosen[job].Timezone, "UTC") }, sim.From, sim.To, namesShown)
			closings, closingsCut := foresight.Closings(all, func(job string) jobs.JobCalendars { return chosen[job].Calendars }, sim.From, sim.To, namesShown)
			s.fill(all, sim, shifts, closings, r)
			if s.CalendarsCut = closingsCut; !closingsCut.IsZero() {
				fmt.Fprintf(a.stderr, "note: the list of calendars ends at %s, as there are too many closures; a shorter range or --label has all\n", closingsCut.In(in).Format(time.RFC3339))
			}
			if c.Set.Name == "" && slices.ContainsFunc(all, func(j foresight.Simulated) bool { return chosen[j.Name].Jitter > 0 }) {
				fmt.Fprintln(a.stderr, "note: the file has no name, so jitter is drawn as an example: other runs share a minute in the cluster, about as many")
			}
			if sim.Cut {
				fmt.Fprintf(a.stderr, "note: counting ended at %s, after %d due times; --max-due N counts more, --label fewer jobs\n", sim.To.In(in).Format(time.RFC3339), sim.Due)
			}
			return a.print(s, s.write)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "", "beginning of the range, a `TIME`: RFC 3339, or 2006-01-02 or 2006-01-02T15:04 in the zone (default now); seconds are cut")
	flags.StringVar(&to, "to", "", "end of the range, a `TIME` as --from, or a duration such as 12h or 30d, 366d at most (default 24h)")
	flags.StringVar(&timezone, "timezone", "", "IANA `ZONE` to read and show times in (default UTC)")
	flags.StringVar(&step, "step", "", "`DURATION` of a line of the chart, in whole minutes (default what fits the range; 1m with -o json and yaml)")
	flags.StringArrayVar(&labels, "label", nil, "only jobs with this label, `KEY=VALUE`; may be repeated, for jobs that have all of them")
	flags.IntVar(&most, "max-due", maxDue, "stop after `N` due times")
	return cmd
}

// simulatedRange is a range of whole minutes, in steps of a length.
type simulatedRange struct {
	from, to time.Time
	step     time.Duration // zero: not given
}

// simulatedRange reads --from and --to.
func (a *app) simulatedRange(from, to string, in *time.Location) (r simulatedRange, err error) {
	r.from = a.now()
	if from != "" {
		if r.from, err = parseTime(from, in); err != nil {
			return r, usagef("--from: %w", err)
		}
	}
	r.from = r.from.UTC().Truncate(time.Minute)
	length, err := 24*time.Hour, error(nil)
	if to != "" {
		if length, err = duration.Parse(to); errors.Is(err, duration.ErrTooLong) {
			length = foresight.MaxRange + 1
		} else if err != nil {
			end, err := parseTime(to, in)
			if err != nil {
				return r, usagef("--to: %w, or as a duration, such as 12h or 7d", err)
			}
			length = end.Sub(r.from)
		}
	}
	if length < time.Minute {
		return r, usagef("--to: must be a minute after --from, %s, or later", r.from.In(in).Format(time.RFC3339))
	}
	if length > foresight.MaxRange {
		return r, usagef("--to: the range is longer than %d days; make it shorter", foresight.MaxRange/(24*time.Hour))
	}
	r.to = r.from.Add(length)
	return r, nil
}
