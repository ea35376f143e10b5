package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
)

// happening is an end that changes how a job or pool stands.
type happening struct {
	job, pool string
	at        int64
	seq       int
	until     int64
	count     int
	task      string
	attempt   int
	replica   string
	event     jobs.Event // EventRecovered: a success, of whatever; "": cancelled
	reason    string
	failure   string
}

// ending is what the end of a task means; nil: nobody is told of it.
func ending(r Done) *happening {
	if r.Job == "" && r.Pool == jobs.NotificationsPool {
		return nil
	}
	h := &happening{
		job: r.Job, pool: r.Pool, at: r.TriggerAt, seq: r.TriggerSeq, count: 1, task: r.ID, attempt: r.Attempt, replica: r.Replica,
		reason: r.Reason, failure: r.Error,
	}
	switch jobs.State(r.State) {
	case jobs.StateFailed:
		h.event = jobs.EventFailed
	case jobs.StateLost:
		h.event = jobs.EventLost
	case jobs.StateSucceeded:
		h.event = jobs.EventRecovered
	}
	return h
}

func (h happening) subject() subject {
	if h.job != "" {
		return subject{"job", h.job}
	}
	return subject{"pool", h.pool}
}

func (h happening) good() bool { return h.event == jobs.EventRecovered }
func (h happening) bad() bool  { return h.event != "" && !h.good() }

// happened keeps the standings, and writes an event for each happening that is one. What happened in one
// transaction happened at once: where something failed among it, nothing recovered.
func (t *tx) happened(now time.Time, all []happening) error {
	good, bad := map[subject]bool{}, map[subject]bool{}
	var subjects []subject
	for _, h := range all {
		sub := h.subject()
		if h.job == "" && h.event == "" {
			continue
		}
		good[sub], bad[sub] = good[sub] || h.good(), bad[sub] || h.bad()
		if !slices.Contains(subjects, sub) {
			subjects = append(subjects, sub)
		}
	}
	recovered := map[subject]bool{}
	for _, sub := range subjects {
		row, exists := t.standing.rows[sub]
		if sub.kind == "pool" && row.Failing == bad[sub] {
			continue
		}
		if !exists {
			row = standing{Kind: sub.kind, Name: sub.name}
		}
		recovered[sub] = row.Failing && good[sub] && !bad[sub]
		row.Failing = bad[sub] || row.Failing && !good[sub]
		if sub.kind == "job" {
			row.EndAt = max(row.EndAt, micros(now))
			if good[sub] {
				row.SuccessAt = max(row.SuccessAt, micros(now))
			}
		}
		put(t, &t.standing, row)
	}
	for _, h := range all {
		if !h.bad() && (!h.good() || !recovered[h.subject()]) {
			continue
		}
		if h.good() {
			delete(recovered, h.subject()) // the first one tells
		}
		id, err := t.s.newID()
		if err != nil {
			return err
		}
		put(t, &t.events, event{
			ID: id, Event: string(h.event), Job: h.job, Pool: h.pool, TriggerAt: h.at, TriggerSeq: h.seq, Until: h.until, Count: h.count,
			TaskID: h.task, Attempt: h.attempt, Replica: h.replica, Reason: h.reason, Error: h.failure, HappenedAt: micros(now),
		})
	}
	return nil
}

// Notify implements scheduler.Notifications.
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
				p, err := t.s.newParcel(*route.Task)
				if err != nil {
					return err
				}
				p.body = "" // the event's key says enough
				if err := t.enqueue([]*parcel{p}); err != nil {
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
	return ledger.Event{
		ID: e.ID, Event: jobs.Event(e.Event), Job: e.Job, Pool: e.Pool, At: fromMicros(e.TriggerAt), Seq: e.TriggerSeq,
		Until: fromMicros(e.Until), Count: e.Count, TaskID: e.TaskID, Attempt: e.Attempt, Replica: e.Replica, Reason: e.Reason,
		Error: e.Error, HappenedAt: fromMicros(e.HappenedAt), Hash: hash,
	}
}
