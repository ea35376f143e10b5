package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
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
