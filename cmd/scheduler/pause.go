package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
)

func newPauseCommand(a *app) *cobra.Command {
	var reason, until string
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Start nothing, on all replicas, until it is resumed",
		Long: "Start nothing, on all replicas, until 'scheduler resume', or until a time: for maintenance of what the jobs work on.\n\n" +
			"Running tasks go on. Due times are held, and decided after that as after an outage, by the catch_up of each job. Tasks\n" +
			"are taken and wait; runs by hand, too. Expiries and retention go on. It survives restarts.",
		Example: "  scheduler pause --reason \"database upgrade, ask ann\" --until 2h\n  scheduler resume",
		RunE: a.call(func(ctx context.Context, c *client.Client, _ []string) error {
			p := wire.Pause{Reason: reason}
			var err error
			if p.Until, err = a.moment(until, +1); err != nil {
				return usagef("--until: %w", err)
			}
			set, err := c.PauseAll(ctx, p)
			if err != nil {
				return err
			}
			return a.print(set, func(w io.Writer) error { return textLine(pausedText(set.Pause))(w) })
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`TEXT` that is shown wherever somebody asks why nothing starts")
	cmd.Flags().StringVar(&until, "until", "", "resume by itself at `TIME`, or in a duration, such as 2h")
	return cmd
}

func newResumeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "resume",
		Short: "Start work again after a pause of everything",
		Long:  "Start work again after 'scheduler pause'. Jobs that are suspended and pools that are paused stay so.",
		RunE: a.call(func(ctx context.Context, c *client.Client, _ []string) error {
			set, err := c.ResumeAll(ctx)
			if err != nil {
				return err
			}
			if set.WasPaused != nil && !*set.WasPaused {
				return a.print(set, textLine("nothing was paused as a whole; 'scheduler pools list' and 'scheduler jobs list' show what is by itself"))
			}
			return a.print(set, textLine("work starts again"))
		}),
	}
}

// pausedText is a sentence about a pause of everything; "" for none.
func pausedText(p *wire.Pause) string {
	if p == nil {
		return ""
	}
	text := "everything is paused"
	if p.By != "" {
		text += " by " + p.By
	}
	text += " since " + p.Since.UTC().Format(time.RFC3339)
	if !p.Until.IsZero() {
		text += ", until " + p.Until.UTC().Format(time.RFC3339)
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}
