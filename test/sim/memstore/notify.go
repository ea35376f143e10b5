package memstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Notify implements ledger.Notifications.
func (s *Store) Notify(ctx context.Context, n ledger.Notify) (out ledger.Notified, err error) {
	err = s.tx(ctx, "notify", func(t *tx) error {
		out = ledger.Notified{}
		var events []event
		for _, e := range t.events.rows {
			if e.ID > n.After {
				events = append(events, e)
			}
		}
		slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.ID, b.ID) })
		events = events[:min(n.Limit, len(events))]
		if len(events) == 0 {
			return nil
		}
		out.Last, out.More = events[len(events)-1].ID, len(events) == n.Limit
		for _, e := range events {
			route := n.Route(t.now(), t.shown(e))
			switch {
			case route.Keep:
				out.Kept++
				continue
			case route.Task == nil:
				out.Dropped++
			default:
				p, err := t.s.makeTask(*route.Task)
				if err != nil {
					return err
				}
				p.body = "" // the event's key says enough
				if err := t.enqueue([]*newTask{p}); err != nil {
					return err
				}
				out.Tasks++
			}
			remove(t, &t.events, e.ID)
		}
		return nil
	})
	if err != nil {
		return ledger.Notified{}, err
	}
	return out, nil
}

// shown is an event with the hash of its job or pool.
func (t *tx) shown(e event) ledger.Event {
	hash := t.pools.rows[e.Pool].Hash
	if e.Job != "" {
		hash = t.jobs.rows[e.Job].Hash
	}
	return ledger.Event{Seq: e.TriggerSeq, Hash: hash, Notification: jobs.Notification{
		ID: e.ID, Event: jobs.Event(e.Event), Job: e.Job, Pool: e.Pool, ScheduledAt: fromMicros(e.TriggerAt),
		Until: fromMicros(e.Until), Count: e.Count, TaskID: e.TaskID, Attempt: e.Attempt, Replica: e.Replica, Reason: e.Reason, ReasonCode: e.ReasonCode,
		Error: e.Error, At: fromMicros(e.HappenedAt),
	}}
}
