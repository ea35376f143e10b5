package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

func newPoolsSetCommand(a *app) *cobra.Command {
	o := &wire.PoolLimits{PerKey: &wire.LimitFields{}, PerKind: map[string]wire.LimitFields{}, Fair: &wire.Fair{Weights: map[string]int{}}}
	var all bool
	var rate, perKeyRate string
	cmd := &cobra.Command{
		Use:   "set POOL",
		Short: "Change limits of a pool, on all replicas",
		Long: "Change limits of a pool, on all replicas from their next claim on. Running tasks go on. A limit that is not given stays\n" +
			"as it is. This overrides the configuration, survives another file and restarts, and holds until --reset, or --reset=FIELD of one:\n" +
			"max_running, rate, burst, per_key, per_key.rate, per_kind, per_kind.KIND, per_kind.KIND.burst, fair, fair.weights.KEY. The order of a\n" +
			"pool, and whether its keys share it, are those of the configuration.",
		Example: "  scheduler pools set mail --max-running 5 --rate 100/s --burst 20\n" +
			"  scheduler pools set mail --rate 0          # no limit of starts\n" +
			"  scheduler pools set mail --per-key-max-running 2 --per-kind welcome:max_running=3,rate=10/s\n" +
			"  scheduler pools set mail --weight acme=3\n" +
			"  scheduler pools set mail --reset=per_key.max_running\n" +
			"  scheduler pools set mail --reset",
	}
	cmd.RunE = a.call(func(ctx context.Context, c *client.Client, args []string) error {
		if cmd.Flags().Changed("order") {
			return usagef("--order: the order of a pool, and whether its keys share it, are not set while it runs; change the configuration")
		}
		for flag, r := range map[string]struct {
			text string
			to   **jobs.Rate
		}{"rate": {rate, &o.Rate}, "per-key-rate": {perKeyRate, &o.PerKey.Rate}} {
			if !cmd.Flags().Changed(flag) {
				continue
			}
			is, err := rateOfLimit(r.text)
			if err != nil {
				return usagef("--%s: %w", flag, err)
			}
			*r.to = &is
		}
		request := new(wire.PoolLimits{}.With(*o)) // without the parts in which nothing is set
		request.Reset = o.Reset
		switch none := o.None(); {
		case all && none:
			request = nil
		case all:
			return usagef("--reset removes all limits that were set: give it alone, or remove it, or name a field as in --reset=rate")
		case none:
			return usagef("nothing to set: give --max-running, --rate, --burst, --per-key-max-running, --per-key-rate, --per-key-burst, --per-kind or --weight, or --reset to remove what was set")
		default:
			err := o.Check()
			if wrong, ok := errors.AsType[*jobs.FieldError](err); ok {
				return usagef("%s: %s", flagOfLimit(wrong.Path), wrong.Problem)
			}
		}
		pool, err := c.LimitPool(ctx, args[0], request)
		if err != nil {
			return err
		}
		return a.print(pool, textLine(fmt.Sprintf("%s is %s; limits: %s", pool.Name, poolState(pool), limitsOf(pool))))
	})
	flags := cmd.Flags()
	flags.Var(limitNumber{&o.MaxRunning}, "max-running", "at most `N` tasks run at once; 0 or none: no limit")
	flags.StringVar(&rate, "rate", "", "at most `RATE` tasks start, as in 50/s, 100/m, 5/h or 20/10s; 0 or none: no limit")
	flags.Var(limitNumber{&o.Burst}, "burst", "with a rate, up to `N` tasks start at once after a pause; 0: as many as in a second")
	flags.Var(limitNumber{&o.PerKey.MaxRunning}, "per-key-max-running", "at most `N` tasks with the same key run at once; 0 or none: no limit")
	flags.StringVar(&perKeyRate, "per-key-rate", "", "at most `RATE` tasks with the same key start; 0 or none: no limit")
	flags.Var(limitNumber{&o.PerKey.Burst}, "per-key-burst", "with a rate by key, up to `N` tasks with the same key start at once after a pause; 0: as many as in a second")
	flags.Var(kindLimits(o.PerKind), "per-kind", "limits of one kind, as in `KIND:max_running=2,rate=10/s,burst=1`; repeat it for others; 0 or none: no limit")
	flags.Var(weights(o.Fair.Weights), "weight", "`KEY=N`: with fair, N tasks with the key start for each one with another, 1 to 1000; repeat it for others")
	flags.Var(resets{&all, &o.Reset}, "reset", "remove all limits that were set, or those of `FIELD`: the configuration applies again; repeat it for others")
	flags.Lookup("reset").NoOptDefVal = "all"
	flags.String("order", "", "")
	_ = flags.MarkHidden("order")
	return cmd
}

// flagOfLimit is the flag that sets a field of wire.PoolLimits.
func flagOfLimit(field string) string {
	of, rest, _ := strings.Cut(field, ".")
	switch {
	case of == "per_kind":
		return "--per-kind " + rest
	case of == "fair":
		return "--weight " + strings.TrimPrefix(strings.TrimPrefix(rest, "weights"), ".")
	}
	return "--" + strings.NewReplacer("_", "-", ".", "-").Replace(field)
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
	if text := perKeyText(jobs.KeyLimits(p.PerKey)); text != "" {
		words = append(words, "per key "+text)
	}
	if text := perKindText(p.PerKind); text != "" {
		words = append(words, "per kind "+text)
	}
	if p.Fair != nil && len(p.Fair.Weights) > 0 {
		var all []string
		for _, key := range slices.Sorted(maps.Keys(p.Fair.Weights)) {
			all = append(all, fmt.Sprintf("%s %d", key, p.Fair.Weights[key]))
		}
		words = append(words, "weights "+strings.Join(all, " "))
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
	for _, aside := range p.LimitsAside {
		words = append(words, fmt.Sprintf("set aside: %s, which %s", aside.Field, aside.Why))
	}
	return strings.Join(words, ", ")
}
