package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
)

func newJobsSuspendCommand(a *app, action wire.SuspendAction, short string) *cobra.Command {
	var (
		many   wire.SuspendMany
		labels []string
		until  string
		yes    bool
	)
	afterwards := ""
	if action == wire.ResumeJobs {
		afterwards = "If the job's definition does not suspend it, there is no override afterwards: a later suspend: true of the file holds.\n"
	}
	cmd := &cobra.Command{
		Use:   string(action) + " [JOB]",
		Short: short,
		Long: short + ". This overrides the configuration, survives another file and restarts, and holds until --reset.\n" +
			afterwards + "\n" +
			"With --label, and no JOB: all jobs with these labels, as the replica that answers defines them. Without --yes that is a\n" +
			"preview: it says which they are, and changes nothing.",
		RunE: a.call(func(ctx context.Context, c *client.Client, args []string) (err error) {
			if many.Until, err = a.moment(until, +1); err != nil {
				return usagef("--until: %w", err)
			}
			switch {
			case many.Reset && until != "":
				return usagef("--reset removes the override at once: remove --until")
			case len(labels) == 0 && len(args) == 0:
				return usagef("which jobs? Name one JOB, or all with a --label NAME=VALUE")
			case len(labels) > 0 && len(args) > 0:
				return usagef("--label selects jobs, and %s is one: remove one of them", args[0])
			case len(labels) == 0 && (yes || many.DryRun):
				return usagef("--yes and --dry-run are for the jobs of a --label: remove them")
			case len(labels) == 0:
				return a.suspendOne(ctx, c, action, args[0], many)
			}
			if many.Labels, err = parseLabels(labels); err != nil {
				return err
			}
			many.DryRun = many.DryRun || !yes
			done, err := c.SuspendJobs(ctx, action, many)
			if err != nil {
				return err
			}
			if done.Matched == 0 {
				return noSuchJobs(many.Labels)
			}
			return a.print(done, func(w io.Writer) error { return showSuspended(w, action, many, done) })
		}),
	}
	cmd.Flags().BoolVar(&many.Reset, "reset", false, "remove the override: the configuration applies again")
	cmd.Flags().StringArrayVar(&labels, "label", nil, "all jobs with this label, as `NAME=VALUE`; may be repeated: with all of them")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it; without, --label is a preview")
	cmd.Flags().BoolVar(&many.DryRun, "dry-run", false, "a preview, also with --yes")
	if action == wire.SuspendJobs {
		cmd.Example = "  scheduler jobs suspend report --until 2h\n  scheduler jobs suspend --label team=infra --until 2026-12-27T00:00:00Z --yes"
		cmd.Flags().StringVar(&until, "until", "", "end the override by itself at `TIME`, or in a duration, such as 2h")
	} else {
		cmd.Example = "  scheduler jobs resume --label team=infra --yes"
	}
	return cmd
}

// suspendOne does the action with one job.
func (a *app) suspendOne(ctx context.Context, c *client.Client, action wire.SuspendAction, name string, o wire.SuspendMany) error {
	job, err := wire.Job{}, error(nil)
	switch {
	case o.Reset:
		job, err = c.ResetJob(ctx, name)
	case action == wire.ResumeJobs:
		job, err = c.ResumeJob(ctx, name)
	case !o.Until.IsZero():
		job, err = c.SuspendJobUntil(ctx, name, o.Until)
	default:
		job, err = c.SuspendJob(ctx, name)
	}
	if err != nil {
		return err
	}
	return a.print(job, textLine(job.Name+" is "+suspension(job)))
}

func showSuspended(w io.Writer, action wire.SuspendAction, many wire.SuspendMany, done wire.SuspendedMany) error {
	what := "suspended"
	switch {
	case many.Reset:
		what = "as configured again"
	case action == wire.ResumeJobs:
		what = "resumed"
	case !many.Until.IsZero():
		what += " until " + utc(many.Until) + " UTC"
	}
	if many.DryRun {
		fmt.Fprintf(w, "%s would be %s; add --yes to do it\n", count(done.Done, "job"), what)
	} else {
		fmt.Fprintf(w, "%s: %s\n", count(done.Done, "job"), what)
	}
	for _, name := range done.Jobs {
		fmt.Fprintln(w, "  "+name)
	}
	if more := done.Done - len(done.Jobs); more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
	return nil
}

// suspension describes whether a job is suspended, and by which setting.
func suspension(j wire.Job) string {
	state := "active"
	if j.Suspended {
		state = "suspended"
	}
	if !j.SuspendedUntil.IsZero() {
		state += " until " + j.SuspendedUntil.UTC().Format(time.RFC3339)
	}
	if j.Override != nil && !*j.Override && j.SuspendedDefined != nil {
		return state + cmp.Or(after(", by ", j.SuspendedBy), ", overridden") + resumedOver(j)
	}
	switch {
	case j.Override == nil:
		return state + ", as configured"
	case j.SuspendedReason != "":
		return state + ", by " + j.SuspendedBy + ": " + j.SuspendedReason
	case j.SuspendedBy != "":
		return state + ", by " + j.SuspendedBy
	}
	return state + ", overridden"
}

// resumedOver says what an override that keeps a job active holds over, and how it ends.
func resumedOver(j wire.Job) string {
	over := "; this would hold over a later suspend: true of the file, too"
	if *j.SuspendedDefined {
		over = "; its definition suspends it"
	}
	return over + ": 'scheduler jobs resume " + j.Name + " --reset' has the definition hold again"
}

// skipping says which due times a user has skipped; "" if none.
func skipping(j wire.Job) string {
	if j.SkipNext == 0 {
		return ""
	}
	text := "its next due time"
	if j.SkipNext > 1 {
		text = fmt.Sprintf("its next %d due times", j.SkipNext)
	}
	if j.SkipBy != "" {
		text += ", by " + j.SkipBy
	}
	return text
}

func newJobsSkipNextCommand(a *app) *cobra.Command {
	n := 1
	cmd := newOneCommand(a, "skip-next JOB", "Skip the next due time of a job, or the next few", func(c *client.Client, ctx context.Context, name string) (wire.Job, error) {
		return c.SkipNext(ctx, name, n)
	}, func(w io.Writer, j wire.Job) error {
		if j.SkipNext == 0 {
			return textLine(j.Name + " skips nothing")(w)
		}
		return textLine(j.Name + " skips " + skipping(j))(w)
	})
	cmd.Long = "Skip the next N due times of a job that are not decided yet; they are skipped, reason skip_next. This counts down by itself.\n" +
		"It takes the place of what was to be skipped before, and -n 0 undoes it. Runs by hand are not concerned."
	cmd.Example = "  scheduler jobs skip-next nightly-backup\n  scheduler jobs skip-next nightly-backup -n 0"
	cmd.Flags().IntVarP(&n, "number", "n", 1, "how many, 0 to 1000")
	return cmd
}
