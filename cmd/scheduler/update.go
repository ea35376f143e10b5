package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

func newTasksUpdateCommand(a *app) *cobra.Command {
	var (
		payload, runAt string
		life           lifeFlags
		priority       int
		attempts       int
		tags           []string
		noTags         bool
	)
	cmd := &cobra.Command{
		Use:   "update TASK",
		Short: "Change a pending task of a pool",
		Long: "Change a pending task of a pool. What no flag names stays as it is. If a replica claims the task at the same time, the\n" +
			"change is refused, or the task starts with all of it. One that waits for a retry is retried at once with --run-at now.",
		Example: "  scheduler tasks update 019ab4b2-1c5e-7d3a-9e65-0c8a4ff0c111 --run-at now --priority 50\n" +
			"  scheduler tasks update 019ab4b2-1c5e-7d3a-9e65-0c8a4ff0c111 --payload '{\"to\":\"ann\"}'",
	}
	cmd.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		given := cmd.Flags().Changed
		var change wire.TaskChange
		if given("priority") {
			change.Priority = &priority
		}
		if given("tag") {
			change.Tags = &tags
		}
		if noTags {
			if change.Tags != nil {
				return usagef("--no-tags removes all tags: remove --tag, which sets them")
			}
			change.Tags = &[]string{}
		}
		if given("run-at") {
			at, err := a.momentOrNow(runAt)
			if err != nil {
				return usagef("--run-at: %w", err)
			}
			change.RunAt = &at
		}
		if given("expires-at") || given("expires-in") {
			at, err := life.changed(a)
			if err != nil {
				return err
			}
			change.ExpiresAt = &at
		}
		if given("payload") {
			text, err := a.payload(payload)
			if err != nil {
				return usagef("--payload: %w", err)
			}
			change.Payload, _ = text.(json.RawMessage)
		}
		if given("max-attempts") {
			change.MaxAttempts = &attempts
		}
		for flag, own := range map[string]struct {
			text string
			is   **jobs.Duration
		}{"timeout": {life.timeout, &change.Timeout}, "backoff": {life.backoff, &change.Backoff}} {
			if !given(flag) {
				continue
			}
			d, err := duration.Parse(own.text)
			if err != nil {
				return usagef("--%s: %w", flag, err)
			}
			*own.is = new(jobs.Duration(d))
		}
		if change.None() {
			return usagef("nothing to change: give --run-at, --expires-at, --expires-in, --priority, --payload, --tag, --no-tags, --max-attempts, --timeout or --backoff")
		}
		task, err := c.UpdateTask(ctx, args[0], change)
		if err != nil {
			return err
		}
		return a.print(task, textLine(task.ID+" is changed"))
	})
	cmd.Flags().StringVar(&runAt, "run-at", "", "now, not before `TIME`, or a duration from now, such as 10m")
	life.of(cmd)
	cmd.Flags().Lookup("expires-at").Usage += ", or never"
	cmd.Flags().IntVar(&priority, "priority", 0, "-100 … 100, larger first")
	cmd.Flags().StringVar(&payload, "payload", "", "`JSON`, @FILE, or - for standard input")
	cmd.Flags().StringArrayVar(&tags, "tag", nil, "`TAG` in place of all that it has; may be repeated")
	cmd.Flags().IntVar(&attempts, "max-attempts", 0, "`N` attempts, 1 to 1001, in place of what the pool's retries allow; 0: those of the pool again")
	cmd.Flags().StringVar(&life.timeout, "timeout", "", "end an attempt after `DURATION`, in place of the pool's timeout; 0s: that of the pool again")
	cmd.Flags().StringVar(&life.backoff, "backoff", "", "wait `DURATION` before the first retry, in place of the pool's backoff; 0s: that of the pool again")
	cmd.Flags().BoolVar(&noTags, "no-tags", false, "remove its tags")
	return cmd
}

// momentOrNow is the zero time for "now": the store's clock decides.
func (a *app) momentOrNow(text string) (time.Time, error) {
	if text == "now" {
		return time.Time{}, nil
	}
	return a.moment(text, +1)
}
