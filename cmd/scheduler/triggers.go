package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

func newTriggersCommand(a *app) *cobra.Command {
	return group("triggers", "Show due times and their outcomes", newTriggersListCommand(a))
}

func newTriggersListCommand(a *app) *cobra.Command {
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
	return cmd
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
