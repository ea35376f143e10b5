package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
)

func newJobsBackfillCommand(a *app) *cobra.Command {
	var b wire.NewBackfill
	var from, to, rate string
	var yes, preview, wait bool
	cmd := &cobra.Command{
		Use:   "backfill JOB",
		Short: "Run the past due times of a job that have not run",
		Long: "Run the due times of a job from --from on and before --to that have not run, as its schedule has them by now, the oldest first. Each run has its due\n" +
			"time as the scheduled time. Without --yes that is a preview, and changes nothing.\n\n" +
			"The runs take slots of the job as others do, and come after its due times. 'scheduler orders get' shows how far it has come, and\n" +
			"'scheduler orders cancel' stops it.\n\n" +
			"With --wait: wait until all its runs have ended, print on standard error how far it has come, and exit with 1 unless each of\n" +
			"them succeeded. With -o json the order is printed, once, as it is then. The backfill goes on if the wait breaks off.",
		Example: "  scheduler jobs backfill nightly-report --from 2026-11-01 --to 2026-12-01\n" +
			"  scheduler jobs backfill hourly-import --from 7d --max-running 3 --rate 10/m --yes --wait",
		RunE: a.call(func(ctx context.Context, c *client.Client, args []string) (err error) {
			if from == "" {
				return usagef("--from is missing: the first time to look for due times, or a duration ago, such as 7d")
			}
			if b.From, err = a.moment(from, -1); err != nil {
				return usagef("--from: %w", err)
			}
			if b.To, err = a.moment(to, -1); err != nil {
				return usagef("--to: %w", err)
			}
			if rate != "" {
				if err := b.Rate.UnmarshalText([]byte(rate)); err != nil {
					return usagef("--rate: %w", err)
				}
			}
			if b.MaxRunning < 1 || b.MaxRunning > ledger.MostBackfilling {
				return usagef("--max-running %d: must be 1 to %d", b.MaxRunning, ledger.MostBackfilling)
			}
			if wait && (!yes || preview) {
				return usagef("--wait waits for runs, and a preview makes none: add --yes, and remove --preview")
			}
			if !yes || preview {
				would, err := c.PreviewBackfill(ctx, args[0], b)
				if err != nil {
					return err
				}
				return a.print(would, func(w io.Writer) error { return showPreview(w, would) })
			}
			order, err := c.Backfill(ctx, args[0], b)
			if err != nil {
				return err
			}
			if !wait {
				return a.print(order, textLine(order.ID))
			}
			if a.output == "table" {
				fmt.Fprintln(a.stdout, order.ID)
			}
			return a.followBackfill(ctx, c, order)
		}),
	}
	cmd.Flags().StringVar(&from, "from", "", "due times from `TIME` on, or a duration ago, such as 7d")
	cmd.Flags().StringVar(&to, "to", "", "due times before `TIME`, or a duration ago; default now")
	cmd.Flags().IntVar(&b.MaxRunning, "max-running", 1, "at most `N` of these runs at once, on all replicas, 1 to 100")
	cmd.Flags().StringVar(&rate, "rate", "", "make runs no faster than `RATE`, such as 10/m")
	cmd.Flags().BoolVar(&b.Again, "again", false, "also the due times that have run")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it; without, it is a preview")
	cmd.Flags().BoolVarP(&wait, "wait", "w", false, "wait until its runs have ended")
	cmd.Flags().BoolVar(&preview, "preview", false, "a preview, also with --yes")
	return cmd
}

func showPreview(w io.Writer, p wire.BackfillPreview) error {
	runs, has := p.DueTimes, "are left out"
	if p.Again {
		has = "are run again"
	} else {
		runs -= p.Ran
	}
	fmt.Fprintf(w, "%s would be made, %d at once; add --yes to do it\n", count(runs, "run"), p.MaxRunning)
	return fields(w,
		field{"due times", number(p.DueTimes)},
		field{"first", p.First.Format(time.RFC3339)},
		field{"last", p.Last.Format(time.RFC3339)},
		field{"have run", fmt.Sprintf("%d, which %s", p.Ran, has)},
	)
}
