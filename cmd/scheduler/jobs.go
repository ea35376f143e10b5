package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

func newJobsCommand(a *app) *cobra.Command {
	return group("jobs", "Show jobs, run them, suspend and resume them",
		newJobsListCommand(a),
		newOneCommand(a, "get JOB", "Show one job", (*client.Client).Job, a.showJob),
		newJobsRunCommand(a),
		newJobsOverrideCommand(a, "suspend", "Let no due time of a job run until it is resumed", (*client.Client).SuspendJob),
		newJobsOverrideCommand(a, "resume", "Let due times of a job run again, from now on", (*client.Client).ResumeJob),
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
		Long: "Run a job now, whether it is due or not. It starts at the first replica that has room.\n" +
			"With --follow: wait until it has ended, print its output, and exit with 1 unless it succeeded.\n\n" +
			"When a replica died while it ran the job, the lost attempt may still run somewhere, so the job is not run again until the attempt's\n" +
			"time is over. The refusal names it, and the command that runs the job nevertheless, with --force=TASK, when you know that the attempt\n" +
			"has ended. No other attempt is forced aside; the audit, the run's reason and the log say so.\n" +
			"A run that is pending or running is not forced aside: cancel it first.",
		RunE: a.call(func(ctx context.Context, c *client.Client, args []string) error {
			run, err := wire.Run{}, error(nil)
			if force == "" {
				run, err = c.RunJob(ctx, args[0])
			} else {
				run, err = c.ForceRunJob(ctx, args[0], force)
			}
			switch {
			case err != nil:
				return err
			case follow:
				return a.followRun(ctx, c, run.Task.ID)
			}
			return a.print(run, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s\n", run.Task.ID)
				return err
			})
		}),
	}
	forceFlag(cmd, &force, "also while the lost attempt of `TASK` may still run: you know that it has ended")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for its end and print its output")
	return cmd
}

// forceFlag is --force=TASK. Without a task it forces what nobody can run, and a lost attempt is named by the refusal.
func forceFlag(cmd *cobra.Command, force *string, usage string) {
	cmd.Flags().StringVar(force, "force", "", usage)
	cmd.Flags().Lookup("force").NoOptDefVal = "true"
}

type setJob = func(*client.Client, context.Context, string) (wire.Job, error)

func newJobsOverrideCommand(a *app, verb, short string, set setJob) *cobra.Command {
	return newOverrideCommand(a, setting[wire.Job]{
		use: verb + " JOB", short: short, set: set, reset: (*client.Client).ResetJob,
		long: ". This overrides the configuration, survives its reloads, and holds until --reset.",
		told: func(j wire.Job) string { return j.Name + " is " + suspension(j) },
	})
}

// suspension says whether a job is suspended, and whose word that is.
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

// lastOf says when the latest ledger row of a job was due, and what became of it.
func (a *app) lastOf(j wire.Job) (when, result string) {
	if j.Last == nil {
		return "", ""
	}
	return a.ago(j.Last.At), resultOf(*j.Last)
}

// resultOf is the one word that people want of a trigger.
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
		state = "retired: the configuration that governs has it no more"
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
