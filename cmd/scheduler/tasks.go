package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

func newTasksCommand(a *app) *cobra.Command {
	return group("tasks", "Enqueue tasks, show, change, cancel, retry and delete them",
		newTasksEnqueueCommand(a),
		newTasksListCommand(a),
		newTasksDeadCommand(a),
		newOneCommand(a, "get TASK", "Show one task and its attempts", (*client.Client).Task, a.showTask),
		newTasksWhyCommand(a),
		newTasksLogsCommand(a),
		newTasksUpdateCommand(a),
		newBulkCommand(a, wire.BulkCancel, newOneCommand(a, "cancel [TASK]", "Cancel a pending task, or ask a running one to stop", (*client.Client).Cancel, printCancelled),
			"pending or running; default both", noForce),
		newTasksRetryCommand(a),
		newTasksPurgeCommand(a),
	)
}

func newTasksRetryCommand(a *app) *cobra.Command {
	force := ""
	retry := func(c *client.Client, ctx context.Context, id string) (jobs.Task, error) {
		switch lost := lostOf(force); {
		case !forces(force):
			return c.Retry(ctx, id)
		case lost == "":
			return c.ForceRetry(ctx, id)
		default:
			return c.ForceRetryOver(ctx, id, lost)
		}
	}
	cmd := newOneCommand(a, "retry [TASK]", "Enqueue an ended task again, as a new task", retry, printID)
	forceFlag(cmd, &force, "also if no live replica can run it, or if the lost attempt of `TASK` of its job may still run: you know that it has ended")
	return newBulkCommand(a, wire.BulkRetry, cmd, "failed, lost, succeeded or cancelled; default failed and lost", func() (bool, error) {
		if forces(force) && force != "true" {
			return false, usagef("--force=%s is about the lost attempt of one task, and these are many: write --force alone", force)
		}
		return forces(force), nil
	})
}

func newTasksListCommand(a *app) *cobra.Command {
	var (
		filter              wire.TaskFilter
		state, since, until string
	)
	cmd := newListCommand(a, listing[jobs.Task]{
		short:   "List tasks, the latest first",
		heading: "TASK POOL KIND KEY JOB STATE ATTEMPT REPLICA CREATED REASON",
		fetch: func(c *client.Client, ctx context.Context, p wire.Page) (wire.List[jobs.Task], error) {
			filter.Page, filter.State = p, jobs.State(state)
			if err := a.moments(span{"since", since, &filter.Since}, span{"until", until, &filter.Until}); err != nil {
				return wire.List[jobs.Task]{}, err
			}
			return c.Tasks(ctx, filter)
		},
		row: func(t jobs.Task) []string {
			return []string{t.ID, t.Pool, t.Kind, t.Key, t.Job, string(t.State), attemptOf(t), t.Replica, a.ago(t.CreatedAt), reasonOf(t)}
		},
		latest: true,
	})
	cmd.Flags().StringVar(&filter.Pool, "pool", "", "only this `POOL`")
	cmd.Flags().StringVar(&filter.Job, "job", "", "only this `JOB`")
	cmd.Flags().StringVar(&filter.Fingerprint, "fingerprint", "", "only what ended with this `FINGERPRINT` in the pool, and was not retried since; see 'tasks dead'")
	cmd.Flags().StringVar(&state, "state", "", "only `STATE`: pending, running, succeeded, failed, lost or cancelled")
	cmd.Flags().StringVar(&filter.Kind, "kind", "", "only this `KIND`")
	cmd.Flags().StringVar(&filter.Key, "key", "", "only this `KEY`")
	cmd.Flags().StringVar(&filter.Tag, "tag", "", "only those with this `TAG`")
	cmd.Flags().StringVar(&since, "since", "", "only what ended at this `TIME` or later, or is that old (1h); of open tasks, what was created then")
	cmd.Flags().StringVar(&until, "until", "", "only what ended before this `TIME`, or is older than that")
	return cmd
}

func newTasksLogsCommand(a *app) *cobra.Command {
	var (
		follow  bool
		attempt int
	)
	cmd := &cobra.Command{
		Use:   "logs TASK",
		Short: "Print a task's output",
		Long: "Print the output of a task: head and tail of what its last attempt wrote; of one that runs, what has arrived.\n" +
			"With --follow: print what its attempts write, all of them, as it comes, until the task ends.",
		RunE: a.call(func(ctx context.Context, c *client.Client, args []string) error {
			switch {
			case attempt < 0:
				return usagef("--attempt %d: must be 1 or more", attempt)
			case follow && attempt != 0:
				return usagef("--follow prints all attempts: remove --attempt")
			case a.output != "table":
				return usagef("an output is text: remove --output")
			case follow:
				_, err := a.follow(ctx, c, jobs.Task{ID: args[0]})
				return err
			}
			output, err := c.Output(ctx, args[0], attempt)
			if err != nil {
				return err
			}
			return a.raw(output)
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "continue until the task has ended")
	cmd.Flags().IntVar(&attempt, "attempt", 0, "of attempt `N`, from 1 (default the latest with output)")
	return cmd
}

func printCancelled(w io.Writer, t jobs.Task) error {
	text := "is cancelled"
	if !t.State.Ended() {
		text = "was asked to stop"
	}
	return textLine(t.ID + " " + text)(w)
}

// printID writes the id alone, for use in scripts.
func printID(w io.Writer, t jobs.Task) error { return textLine(t.ID)(w) }

// attemptOf shows the number of attempts, and the maximum. Lost attempts do not use up retries, so the number may
// exceed it.
func attemptOf(t jobs.Task) string {
	return fmt.Sprintf("%d/%d", t.Attempt, max(t.Attempt, t.MaxAttempts))
}

func exitCode(code *int) string {
	if code == nil {
		return ""
	}
	return fmt.Sprint(*code)
}

func (a *app) showTask(w io.Writer, t wire.Task) error {
	priority := ""
	if t.Priority != 0 {
		priority = fmt.Sprint(t.Priority)
	}
	err := fields(w,
		field{"task", t.ID},
		field{"pool", t.Pool},
		field{"kind", t.Kind},
		field{"key", t.Key},
		field{"job", t.Job},
		field{"due", a.when(t.ScheduledAt)},
		field{"state", string(t.State)},
		field{"reason", t.Reason},
		field{"reason code", string(t.ReasonCode)},
		field{"attempt", attemptOf(t.Task)},
		field{"timeout", ownText(t.Timeout)},
		field{"backoff", ownText(t.Backoff)},
		field{"progress", progressOf(t.Task)},
		field{"replica", t.Replica},
		field{"token", number(int(t.Token))},
		field{"priority", priority},
		field{"run at", a.when(t.RunAt)},
		field{"expires at", a.when(t.ExpiresAt)},
		field{"created", a.when(t.CreatedAt)},
		field{"started", a.when(t.StartedAt)},
		field{"finished", a.when(t.FinishedAt)},
		field{"exit code", exitCode(t.ExitCode)},
		field{"error", t.Error},
		field{"result", string(t.Result)},
		field{"payload", string(t.Payload)},
		field{"by", t.By},
		field{"retry of", t.RetryOf},
		field{"retried as", t.RetriedAs},
		field{"fingerprint", t.Fingerprint},
		field{"tags", strings.Join(t.Tags, ", ")},
	)
	if err == nil && len(t.Quarantine) > 0 {
		fmt.Fprintln(w, "\nReplicas that died while they had it:")
		err = table(w, "ATTEMPT REPLICA STARTED(UTC) LOST(UTC)", t.Quarantine, func(l wire.LostAttempt) []string {
			return []string{fmt.Sprint(l.Attempt), l.Replica, utc(l.StartedAt), utc(l.LostAt)}
		})
	}
	if err != nil || len(t.Attempts) == 0 {
		return err
	}
	fmt.Fprintln(w, "\nEarlier attempts:")
	return table(w, "ATTEMPT STATE REPLICA STARTED(UTC) EXIT REASON ERROR", t.Attempts, func(e jobs.Attempt) []string {
		return []string{fmt.Sprint(e.Attempt), string(e.State), e.Replica, utc(e.StartedAt), exitCode(e.ExitCode), e.Reason, e.Error}
	})
}

// reasonOf is why a task is in its state, in a line: of one that has ended without a reason, its error.
func reasonOf(t jobs.Task) string {
	if t.Reason != "" || !t.State.Ended() {
		return t.Reason
	}
	line, _, _ := strings.Cut(strings.TrimSpace(t.Error), "\n")
	return clip.Text(strings.TrimSpace(line), mostInCell)
}

// mostInCell is how many bytes of an error a cell of a table has, as many as a reason.
const mostInCell = 512

// ending describes how a task ended. Of a reason and an error one of which begins with the other, the longer one says both.
func ending(t jobs.Task) string {
	text := fmt.Sprintf("task %s: %s", t.ID, t.State)
	switch {
	case t.Reason == "":
		return text + after(": ", t.Error)
	case strings.HasPrefix(t.Error, t.Reason):
		return text + ", " + t.Error
	case strings.HasPrefix(t.Reason, t.Error):
		return text + ", " + t.Reason
	}
	return text + ", " + t.Reason + ": " + t.Error
}

// progressOf is how far the running attempt has come, as it says: "40%, text".
func progressOf(t jobs.Task) string {
	if t.ProgressDone == nil {
		return ""
	}
	text := strconv.FormatFloat(math.Floor(*t.ProgressDone*1000+1e-6)/10, 'f', -1, 64) + "%"
	if t.ProgressText != "" {
		text += ", " + t.ProgressText
	}
	return text
}
