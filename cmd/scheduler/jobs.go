package main

import (
	"context"
	"fmt"
	"io"
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
		newJobsRunCommand(a),
		newJobsOverrideCommand(a, "suspend", "Skip the due times of a job until it is resumed", (*client.Client).SuspendJob),
		newJobsOverrideCommand(a, "resume", "Run the due times of a job again, from now on", (*client.Client).ResumeJob),
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
	var follow bool
	var force string
	cmd := &cobra.Command{
		Use:   "run JOB",
		Short: "Run a job now",
		Long: "Run a job now, due or not. It starts on the first replica that has a free worker.\n" +
			"With --follow: wait for its end, print its output, and exit with 1 unless it succeeded.\n\n" +
			"When a replica is lost, the attempt that it ran may still be running, so the job is not run again before the attempt's\n" +
			"deadline. The refusal names the attempt's task, and --force=TASK runs the job nevertheless: use it when you know that\n" +
			"the attempt has ended. It overrides no other attempt. The audit, the run's reason and the log record it.\n" +
			"It does not override a run that is pending or running: cancel that first.",
		RunE: a.call(func(ctx context.Context, c *client.Client, args []string) error {
			run, err := wire.Run{}, error(nil)
			if forces(force) {
				run, err = c.ForceRunJob(ctx, args[0], force)
			} else {
				run, err = c.RunJob(ctx, args[0])
			}
			switch {
			case err != nil:
				return err
			case follow:
				return a.followRun(ctx, c, run.Task.ID)
			}
			return a.print(run, textLine(run.Task.ID))
		}),
	}
	forceFlag(cmd, &force, "also if the lost attempt of `TASK` may still run: you know that it has ended")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for its end and print its output")
	return cmd
}

// forces reports whether a --force says so: it has the form of a flag that is true or false, too.
func forces(force string) bool { return force != "" && force != "false" }

// forceFlag is --force=TASK. Without a value it forces a task that no live replica can run.
func forceFlag(cmd *cobra.Command, force *string, usage string) {
	cmd.Flags().StringVar(force, "force", "", usage)
	cmd.Flags().Lookup("force").NoOptDefVal = "true"
}

func newJobsOverrideCommand(a *app, verb, short string, set request[wire.Job]) *cobra.Command {
	return newOverrideCommand(a, setting[wire.Job]{
		use: verb + " JOB", short: short, set: set, reset: (*client.Client).ResetJob,
		long:    ". This overrides the configuration, survives another file and restarts, and holds until --reset.",
		message: func(j wire.Job) string { return j.Name + " is " + suspension(j) },
	})
}

// suspension describes whether a job is suspended, and by which setting.
func suspension(j wire.Job) string {
	state := "active"
	if j.Suspended {
		state = "suspended"
	}
	switch {
	case j.Override == nil:
		return state + ", as configured"
	case j.SuspendedBy != "":
		return state + ", by " + j.SuspendedBy
	}
	return state + ", overridden"
}

func (a *app) nextOf(j wire.Job) string {
	switch {
	case j.Retired:
		return "retired"
	case j.Suspended:
		return "suspended"
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

func (a *app) showJob(w io.Writer, j wire.Job) error {
	last, result := a.lastOf(j)
	if last != "" {
		last = a.when(j.Last.At) + ": " + result
		if j.Last.Reason != "" {
			last += ", " + j.Last.Reason
		}
	}
	next := a.when(j.NextAt)
	if j.Suspended || j.Retired {
		next = ""
	}
	state := suspension(j)
	if j.Retired {
		state = "retired: the governing configuration does not define it"
	}
	return fields(w,
		field{"job", j.Name},
		field{"description", j.Description},
		field{"state", state},
		field{"waits", j.Unrunnable},
		field{"schedule", strings.Join(j.Schedules, "; ")},
		field{"timezone", j.Timezone},
		field{"next", next},
		field{"last", last},
		field{"last success", a.when(j.LastSuccess)},
		field{"open tasks", number(j.Open)},
		field{"pool", j.Pool},
		field{"kind", j.Kind},
		field{"does", j.Handler},
		field{"timeout", j.Timeout},
		field{"concurrency", string(j.Concurrency)},
		field{"on lost", string(j.OnLost)},
		field{"runs on", pairs(j.RunsOn)},
		field{"labels", pairs(j.Labels)},
	)
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
	if d, err := duration.Parse(text); err == nil {
		return a.now().Add(direction * d).UTC(), nil
	}
	at, err := parseTime(text, time.UTC)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w, or as a duration, such as 10m or 7d", err)
	}
	return at, nil
}
