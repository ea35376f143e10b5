package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

func newPoolsSetCommand(a *app) *cobra.Command {
	var (
		maxRunning, burst int
		rate              string
		reset             bool
	)
	cmd := &cobra.Command{
		Use:   "set POOL",
		Short: "Change limits of a pool, on all replicas",
		Long: "Change limits of a pool, on all replicas from their next claim on. Running tasks go on. A limit that is not given stays\n" +
			"as it is. This overrides the configuration, survives its reloads and restarts, and holds until --reset.",
		Example: "  scheduler pools set mail --max-running 5 --rate 100/s --burst 20\n" +
			"  scheduler pools set mail --rate 0          # no limit of starts\n" +
			"  scheduler pools set mail --reset",
	}
	cmd.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		given := cmd.Flags().Changed
		o := &wire.PoolLimits{}
		if given("max-running") {
			o.MaxRunning = &maxRunning
		}
		if given("burst") {
			o.Burst = &burst
		}
		if given("rate") {
			r, err := jobs.ParseRate(rate)
			if err != nil {
				return usagef("--rate: %w", err)
			}
			o.Rate = &r
		}
		switch none := o.None(); {
		case reset && none:
			o = nil
		case reset:
			return usagef("--reset removes all limits that were set: give it alone, or remove it")
		case none:
			return usagef("nothing to set: give --max-running, --rate or --burst, or --reset to remove what was set")
		default:
			err := o.Check()
			if wrong, ok := errors.AsType[*jobs.FieldError](err); ok {
				return usagef("--%s: %s", strings.ReplaceAll(wrong.Path, "_", "-"), wrong.Problem)
			}
		}
		pool, err := c.LimitPool(ctx, args[0], o)
		if err != nil {
			return err
		}
		return a.print(pool, textLine(fmt.Sprintf("%s is %s; limits: %s", pool.Name, poolState(pool), limitsOf(pool))))
	})
	cmd.Flags().IntVar(&maxRunning, "max-running", 0, "at most `N` tasks run at once; 0: no limit")
	cmd.Flags().StringVar(&rate, "rate", "", "at most `RATE` tasks start, as in 50/s, 100/m, 5/h or 20/10s; 0: no limit")
	cmd.Flags().IntVar(&burst, "burst", 0, "with a rate, up to `N` tasks start at once after a pause; 0: as many as in a second")
	cmd.Flags().BoolVar(&reset, "reset", false, "remove the limits that were set: the configuration applies again")
	return cmd
}

// limitsOf describes the limits that hold, and by which setting.
func limitsOf(p wire.Pool) string {
	var words []string
	if p.MaxRunning > 0 {
		words = append(words, "max running "+number(p.MaxRunning))
	}
	switch rate := rateText(p.Rate, p.Burst); {
	case p.Rate != jobs.Rate{}:
		words = append(words, "rate "+rate)
	case rate != "": // a burst without a rate
		words = append(words, rate)
	}
	if words == nil {
		words = []string{"none"}
	}
	switch {
	case p.Limits == nil:
		words = append(words, "as configured")
	case p.LimitsBy != "":
		words = append(words, "by "+p.LimitsBy)
	default:
		words = append(words, "overridden")
	}
	return strings.Join(words, ", ")
}
