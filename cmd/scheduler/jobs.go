package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

func newJobsCommand(a *app) *cobra.Command {
	return group("jobs", "Show jobs, run them, suspend and resume them",
		newJobsListCommand(a),
		newOneCommand(a, "get JOB", "Show one job", (*client.Client).Job, a.showJob),
		newJobsHistoryCommand(a),
		newJobsDiffCommand(a),
		newJobsRunCommand(a),
		newJobsBackfillCommand(a),
		newJobsSuspendCommand(a, wire.SuspendJobs, "Skip the due times of a job until it is resumed"),
		newJobsSuspendCommand(a, wire.ResumeJobs, "Run the due times of a job again, from now on"),
		newJobsSkipNextCommand(a),
	)
}

func newJobsListCommand(a *app) *cobra.Command {
	return newListCommand(a, listing[wire.Job]{
		short:   "List the jobs",
		heading: "JOB SCHEDULE NEXT LAST RESULT OPEN",
		fetch:   (*client.Client).Jobs,
		row: func(j wire.Job) []string {
			last, result := a.lastOf(j)
			return []string{j.Name, strings.Join(j.Schedules, "; "), a.nextOf(j), last, result, number(j.Open)}
		},
	})
}

func newJobsRunCommand(a *app) *cobra.Command {
	var wait bool
	var force, payload, at string
	cmd := &cobra.Command{
		Use:   "run JOB",
		Short: "Run a job now, or at a time to come",
		Long: "Run a job now, due or not. It starts on the first replica that has a free slot.\n" +
			"With --payload: this run gets that payload in place of the job's. If the job has params, they judge it.\n" +
			"With --at: order the run for a time to come. It starts then, or as soon as a replica lives; until then\n" +
			"'scheduler orders list' shows it, and 'scheduler orders cancel' cancels it.\n" +
			"With --wait: wait for its end, print its output, and exit with 1 unless it succeeded. With -o json its output is\n" +
			"not printed, and its task is, once, with its state, error and result: also if the wait breaks off before the end.\n\n" +
			"When a replica is lost, the attempt that it ran may still be running, so the job is not run again before the attempt's\n" +
			"deadline. The refusal names the attempt's task, and --force=TASK runs the job nevertheless: use it when you know that\n" +
			"the attempt has ended. It overrides no other attempt. The audit, the run's reason and the log record it.\n" +
			"It does not override a run that is pending or running: cancel that first.",
		RunE: a.call(func(ctx context.Context, c *client.Client, args []string) error {
			var with jobs.NewRun
			var err error
			if with.Payload, err = a.payload(payload); err != nil {
				return usagef("--payload: %w", err)
			}
			with.Force = lostOf(force)
			if at != "" {
				if force != "" {
					return usagef("--force is about the attempt that is in the way now: remove it, or --at")
				}
				when, err := a.moment(at, +1)
				if err != nil {
					return usagef("--at: %w", err)
				}
				order, err := c.RunJobAt(ctx, args[0], with, when)
				switch {
				case err != nil:
					return err
				case wait:
					return a.followOrder(ctx, c, order)
				}
				return a.print(order, textLine(order.ID))
			}
			run := wire.Run{}
			if forces(force) && with.Force == "" {
				if with.Payload != nil {
					return usagef("--force beside --payload has to name the lost attempt: --force=TASK; without --force the refusal says which")
				}
				run, err = c.ForceRunJob(ctx, args[0], "") // the refusal names the attempt
			} else {
				run, err = c.RunJobWith(ctx, args[0], with)
			}
			switch {
			case err != nil:
				return err
			case wait:
				return a.followRun(ctx, c, run.Task)
			}
			return a.print(run, textLine(run.Task.ID))
		}),
	}
	forceFlag(cmd, &force, "also if the lost attempt of `TASK` may still run: you know that it has ended")
	cmd.Example = "  scheduler jobs run report --payload '{\"month\":\"2026-11\"}' --wait\n  scheduler jobs run report --at 2026-12-24T18:00:00Z"
	cmd.Flags().StringVar(&payload, "payload", "", "`JSON`, @FILE, or - for standard input, in place of the job's payload")
	cmd.Flags().StringVar(&at, "at", "", "start it at `TIME`, or in a duration, such as 2h")
	cmd.Flags().BoolVarP(&wait, "wait", "w", false, "wait for its end, and print its output and, on standard error, its result")
	cmd.Flags().BoolVarP(&wait, "follow", "f", false, "the same as --wait")
	return cmd
}

// forces reports whether a --force says so: it has the form of a flag that is true or false, too.
func forces(force string) bool { return force != "" && force != "false" }

// lostOf is the lost attempt that a --force names; empty: none.
func lostOf(force string) string {
	if force == "true" {
		return ""
	}
	return force
}

// forceFlag is --force=TASK. Without a value it forces a task that no live replica can run.
func forceFlag(cmd *cobra.Command, force *string, usage string) {
	cmd.Flags().StringVar(force, "force", "", usage)
	cmd.Flags().Lookup("force").NoOptDefVal = "true"
}

func (a *app) nextOf(j wire.Job) string {
	switch {
	case j.Retired:
		return "retired"
	case j.Suspended && !j.SuspendedUntil.IsZero():
		return "suspended until " + utc(j.SuspendedUntil) + " UTC"
	case j.Suspended:
		return "suspended"
	case j.SkipNext > 0:
		return fmt.Sprintf("%s, skipped (%d)", a.ago(j.NextAt), j.SkipNext)
	}
	if later := j.NextStartAt.Sub(j.NextAt); !j.NextStartAt.IsZero() && later > 0 {
		return a.ago(j.NextAt) + " +" + later.String()
	}
	return a.ago(j.NextAt)
}

// lastOf is the due time and the result of a job's latest ledger row.
func (a *app) lastOf(j wire.Job) (when, result string) {
	if j.Last == nil {
		return "", ""
	}
	return a.ago(j.Last.At), resultOf(*j.Last)
}

// resultOf is the result of a trigger in one word.
func resultOf(t jobs.Trigger) string {
	switch {
	case t.Outcome == "":
		return "open"
	case t.Outcome == jobs.Ran && t.Result != "":
		return string(t.Result)
	}
	return string(t.Outcome)
}

func newTriggersCommand(a *app) *cobra.Command {
	var (
		filter          wire.TriggerFilter
		outcome, result string
		since           string
	)
	cmd := newListCommand(a, listing[jobs.Trigger]{
		short:   "List due times, the latest first",
		heading: "JOB AT(UTC) AGO DUE CAUSE RESULT REPLICA TASK REASON",
		fetch: func(c *client.Client, ctx context.Context, p wire.Page) (wire.List[jobs.Trigger], error) {
			filter.Page, filter.Outcome, filter.Result = p, jobs.Outcome(outcome), jobs.State(result)
			return c.Triggers(ctx, filter)
		},
		row: func(t jobs.Trigger) []string {
			return []string{t.Job, utc(t.At), a.ago(t.At), several(t), string(t.Cause), resultOf(t), t.Replica, t.TaskID, t.Reason}
		},
		latest: true,
	})
	cmd.Example = "  scheduler triggers list --job nightly-backup --since 7d\n  scheduler triggers list --outcome missed"
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		if filter.Since, err = a.moment(since, -1); err != nil {
			err = fmt.Errorf("--since: %w", err)
		}
		return err
	}
	cmd.Flags().StringVar(&filter.Job, "job", "", "only this `JOB`")
	cmd.Flags().StringVar(&outcome, "outcome", "", "only `OUTCOME`: ran, skipped, missed or lost")
	cmd.Flags().StringVar(&result, "result", "", "only `RESULT`: succeeded, failed, lost or cancelled")
	cmd.Flags().StringVar(&since, "since", "", "only those due since `TIME`, or within the last duration, such as 2h or 7d")
	return group("triggers", "Show due times and their outcomes", cmd)
}

// several is the number of due times of a row that covers more than one.
func several(t jobs.Trigger) string {
	if t.Count < 2 {
		return ""
	}
	return number(t.Count)
}

// moment parses a time, or a duration from now in the given direction; zero for "".
func (a *app) moment(text string, direction time.Duration) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	switch d, err := duration.Parse(text); {
	case err == nil:
		return a.now().Add(direction * d).UTC(), nil
	case errors.Is(err, duration.ErrTooLong):
		return time.Time{}, fmt.Errorf("%w; write a time, as in 2026-03-29T00:00:00Z", err)
	}
	at, err := parseTime(text, time.UTC)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w, or as a duration, such as 10m or 7d", err)
	}
	return at, nil
}
