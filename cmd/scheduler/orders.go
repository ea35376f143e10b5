package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

const (
	orderEvery = time.Second // how often an order that is waited for is asked about
	orderAway  = time.Minute // how long there may be no answer, as in client.Follow
)

func newOrdersCommand(a *app) *cobra.Command {
	var filter wire.OrderFilter
	var kind, state string
	list := newListCommand(a, listing[wire.Order]{
		short:   "List orders, the latest first",
		more:    ": runs at a time to come, and backfills.",
		heading: "ORDER JOB KIND STATE BY WHAT",
		fetch: func(c *client.Client, ctx context.Context, p wire.Page) (wire.List[wire.Order], error) {
			filter.Page, filter.Kind, filter.State = p, wire.OrderKind(kind), wire.OrderState(state)
			return c.Orders(ctx, filter)
		},
		row: func(o wire.Order) []string {
			return []string{o.ID, o.Job, string(o.Kind), string(o.State), o.By, whatOf(o)}
		},
		latest: true,
	})
	list.Example = "  scheduler orders list --job nightly-report --state open"
	list.Flags().StringVar(&filter.Job, "job", "", "only of this `JOB`")
	list.Flags().StringVar(&kind, "kind", "", "only this `KIND`: run or backfill")
	list.Flags().StringVar(&state, "state", "", "only this `STATE`: open, done, skipped or cancelled")
	cancel := newOneCommand(a, "cancel ORDER", "Cancel an order that is open", (*client.Client).CancelOrder, a.showOrder)
	cancel.Long = "Cancel an order that is open: a run is not made, and a backfill makes no further ones. Runs that were made go on;\n" +
		"'scheduler tasks cancel' ends them."
	return group("orders", "Show and cancel what was ordered: runs at a time to come, and backfills", list, newOneCommand(a, "get ORDER", "Show one order", (*client.Client).Order, a.showOrder), cancel)
}

// whatOf is what was ordered, and what has become of it, in a few words.
func whatOf(o wire.Order) string {
	switch b := o.Backfill; {
	case b != nil:
		return fmt.Sprintf("%s to %s UTC: %d of %d left, %d had run, %d running, %d succeeded, %d failed, %d cancelled%s", utc(b.From), utc(b.To), b.Left, b.DueTimes, b.Ran, b.Running, b.Succeeded, b.Failed, b.Cancelled, after("; ", o.Reason))
	case o.TaskID != "":
		return "at " + utc(o.At) + " UTC: task " + o.TaskID
	}
	return "at " + utc(o.At) + " UTC" + after(": ", o.Reason)
}

// after is a text behind what separates it; "" without one.
func after(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}

func (a *app) showOrder(w io.Writer, o wire.Order) error {
	state := string(o.State) + after(": ", o.Reason)
	ordered := a.when(o.CreatedAt)
	if o.By != "" {
		ordered += ", by " + o.By
	}
	all := []field{
		{"order", o.ID}, {"job", o.Job}, {"kind", string(o.Kind)}, {"state", state}, {"ordered", ordered}, {"ended", a.when(o.EndedAt)},
		{"at", a.when(o.At)}, {"payload", string(o.Payload)}, {"task", o.TaskID},
	}
	if b := o.Backfill; b != nil {
		rate := ""
		if b.Rate.Count > 0 {
			rate = b.Rate.String()
		}
		all = append(all,
			field{"due times", fmt.Sprintf("%d from %s to %s UTC", b.DueTimes, utc(b.From), utc(b.To))}, field{"at once", number(b.MaxRunning)}, field{"rate", rate},
			field{"had run", strconv.Itoa(b.Ran)}, field{"made", strconv.Itoa(b.Made)}, field{"running", strconv.Itoa(b.Running)}, field{"succeeded", strconv.Itoa(b.Succeeded)},
			field{"failed", strconv.Itoa(b.Failed)}, field{"cancelled", strconv.Itoa(b.Cancelled)}, field{"left", strconv.Itoa(b.Left)}, field{"reached", a.when(b.Reached)},
		)
	}
	for _, c := range o.Causes {
		all = append(all, field{"waits", c.Message})
	}
	return fields(w, all...)
}

// followOrder waits for the run of an order, and follows it.
//
//  1. while the order is open, wait orderEvery and ask about it again, for as long as there is an answer at least once in orderAway
//  2. follow the run that was made; none: the error says what became of the order, which -o json prints
func (a *app) followOrder(ctx context.Context, c *client.Client, o wire.Order) error {
	told := false
	for answered := time.Now(); o.State == wire.OrderOpen; {
		select {
		case <-ctx.Done():
			return a.brokeOff(o, ctx.Err())
		case <-time.After(orderEvery):
		}
		switch next, err := c.Order(ctx, o.ID); {
		case err == nil:
			o, answered, told = next, time.Now(), false
		case ctx.Err() != nil:
		case !client.Transient(err) || time.Since(answered) > orderAway:
			return a.brokeOff(o, err)
		case !told:
			a.away(err, orderAway-time.Since(answered))
			told = true
		}
	}
	if o.TaskID == "" {
		return a.brokeOff(o, fmt.Errorf("the run was not made: the order is %s%s", o.State, after(": ", o.Reason)))
	}
	return a.followRun(ctx, c, jobs.Task{ID: o.TaskID, Job: o.Job})
}

// brokeOff prints, with -o json, an order whose run there is none to follow of, and returns the error that says why.
func (a *app) brokeOff(o wire.Order, why error) error {
	if a.output == "table" {
		return why
	}
	return cmp.Or(a.print(o, nil), why)
}

func newJobsBackfillCommand(a *app) *cobra.Command {
	var b wire.NewBackfill
	var from, to, rate string
	var yes, preview bool
	cmd := &cobra.Command{
		Use:   "backfill JOB",
		Short: "Run the past due times of a job that have not run",
		Long: "Run the due times of a job from --from on and before --to that have not run, as its schedule has them by now, the oldest first. Each run has its due\n" +
			"time as the scheduled time. Without --yes that is a preview, and changes nothing.\n\n" +
			"The runs take slots of the job as others do, and come after its due times. 'scheduler orders get' shows how far it has come, and\n" +
			"'scheduler orders cancel' stops it.",
		Example: "  scheduler jobs backfill nightly-report --from 2026-11-01 --to 2026-12-01\n" +
			"  scheduler jobs backfill hourly-import --from 7d --max-running 3 --rate 10/m --yes",
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
			return a.print(order, textLine(order.ID))
		}),
	}
	cmd.Flags().StringVar(&from, "from", "", "due times from `TIME` on, or a duration ago, such as 7d")
	cmd.Flags().StringVar(&to, "to", "", "due times before `TIME`, or a duration ago; default now")
	cmd.Flags().IntVar(&b.MaxRunning, "max-running", 1, "at most `N` of these runs at once, on all replicas")
	cmd.Flags().StringVar(&rate, "rate", "", "make runs no faster than `RATE`, such as 10/m")
	cmd.Flags().BoolVar(&b.Again, "again", false, "also the due times that have run")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it; without, it is a preview")
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
