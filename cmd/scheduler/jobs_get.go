package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

func (a *app) showJob(w io.Writer, j wire.Job) error {
	last, result := a.lastOf(j)
	if last != "" {
		last = a.when(j.Last.At) + ": " + result
		if j.Last.Reason != "" {
			last += ", " + j.Last.Reason
		}
	}
	next := a.when(j.NextAt)
	if !j.NextStartAt.IsZero() {
		next += ", starts " + a.when(j.NextStartAt)
	}
	if j.Suspended || j.Retired {
		next = ""
	}
	state := suspension(j)
	if j.Retired {
		state = "retired: the governing configuration does not define it"
	}
	priority := ""
	if j.Priority != 0 {
		priority = number(j.Priority)
	}
	all := []field{
		{"job", j.Name},
		{"description", j.Description},
		{"state", state},
		{"skips", skipping(j)},
		{"held", pausedText(j.Paused)},
		{"waits", j.Unrunnable},
		{"schedule", strings.Join(j.Schedules, "; ")},
		{"timezone", j.Timezone},
		{"starts at", boundText(j.StartsAt)},
		{"ends at", boundText(j.EndsAt)},
		{"calendars", j.Calendars.String()},
		{"spread", j.Spread},
		{"jitter", j.Jitter},
		{"next", next},
		{"last", last},
		{"last success", a.when(j.LastSuccess)},
		{"open tasks", number(j.Open)},
		{"pool", j.Pool},
		{"kind", j.Kind},
		{"does", j.Handler},
		{"timeout", j.Timeout},
		{"concurrency", concurrencyOf(j)},
		{"on lost", onLostOf(j)},
		{"catch up", j.CatchUp.String()},
		{"retries", retriesOf(j)},
		{"locks", locksOf(j)},
		{"lock wait", j.LockWait},
		{"output", j.Output.String()},
		{"expected", j.Expect.String()},
		{"notifies", j.Notify.String()},
		{"suspend after", suspendAfterOf(j)},
		{"priority", priority},
		{"runs on", pairs(j.RunsOn)},
		{"labels", pairs(j.Labels)},
		{"payload", payloadOf(j)},
		{"params", string(j.Params)},
		{"definition", definitionText(j.Definition)},
	}
	for _, o := range j.Orders {
		all = append(all, field{"open order", fmt.Sprintf("%s: %s %s%s", o.ID, o.Kind, whatOf(o), after(", by ", o.By))})
	}
	if j.MoreOrders {
		all = append(all, field{"open orders", "more: 'scheduler orders list --state open --job " + j.Name + "' has all of them"})
	}
	return fields(w, all...)
}

// definitionText names the definition that governs, and says if what is shown is of another one.
func definitionText(d *wire.JobDefinition) string {
	if d == nil {
		return ""
	}
	text := fmt.Sprintf("%s, of configuration %d, governs since %s UTC", d.Hash, d.Config, utc(d.Since))
	if d.Differs {
		text += "; the replica that answers has another one, which is shown here" + after(": ", d.Own)
	}
	return text
}

// concurrencyOf is how many runs of a job there may be at once, and what becomes of a further one.
func concurrencyOf(j wire.Job) string {
	text := string(j.Concurrency)
	if j.MaxRunning > 1 {
		text += fmt.Sprintf(", %d at once", j.MaxRunning)
	}
	if j.QueueLimit > 0 {
		text += fmt.Sprintf(", up to %d wait", j.QueueLimit)
	}
	return text
}

// onLostOf is what becomes of a task of a job whose replica is lost, and how often.
func onLostOf(j wire.Job) string {
	if j.LostLimit > 0 {
		return fmt.Sprintf("%s, up to %d lost attempts", j.OnLost, j.LostLimit)
	}
	return string(j.OnLost)
}

// retriesOf is when a failed attempt is followed by another; "" of a job that the replica does not have.
func retriesOf(j wire.Job) string {
	if j.CatchUp == nil {
		return ""
	}
	return j.Retries.String()
}

// locksOf are the locks that the runs of a job hold.
func locksOf(j wire.Job) string {
	all := make([]string, len(j.Locks))
	for i, l := range j.Locks {
		all[i] = l.String()
	}
	return strings.Join(all, "; ")
}

// payloadOf is the payload of a job's runs, or its size where that is not shown.
func payloadOf(j wire.Job) string {
	if j.Payload == nil && j.PayloadSize > 0 {
		return fmt.Sprintf("%d bytes", j.PayloadSize)
	}
	return string(j.Payload)
}

// suspendAfterOf is after how many failures a job is suspended, and how many there are.
func suspendAfterOf(j wire.Job) string {
	if j.SuspendAfter == 0 {
		return ""
	}
	return fmt.Sprintf("%d runs that fail in a row; %d so far", j.SuspendAfter, j.Failures)
}

// boundText is a time from which on, or before which, a job is due; "" if there is none.
func boundText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
