package store

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// Notify reads events in the order in which they happened and follows n.Route for each:
// the event becomes a task, is deleted, or stays. It implements ledger.Notifications.
//
// A task is inserted in the transaction that deletes its event, and no other replica can do the same
// meanwhile: each event becomes one task. The tasks' idempotency keys must name the event, so that
// this holds even for an event that came back with a restored database.
//
// Errors: jobs.ErrUnavailable; jobs.ErrInvalid for a task that is none.
func (s replica) Notify(ctx context.Context, n ledger.Notify) (ledger.Notified, error) {
	var events []ledger.Event
	var now time.Time
	err := s.read(ctx, "notify", func(t *tx) (err error) {
		if events, err = t.events(n.After, n.Limit); err != nil || len(events) == 0 {
			return err // in most calls there are none
		}
		if err := t.fillHashes(events); err != nil {
			return err
		}
		now, err = t.Now()
		return err
	})
	if err != nil || len(events) == 0 {
		return ledger.Notified{}, err
	}
	w := &notification{newTasks: map[string]*newTask{}}
	out := ledger.Notified{Last: events[len(events)-1].ID, More: len(events) == n.Limit}
	for _, e := range events {
		route := n.Route(now, e)
		if route.Keep {
			out.Kept++
			continue
		}
		w.events = append(w.events, e.ID)
		if route.Task == nil {
			continue
		}
		p, err := makeTask(*route.Task)
		if err != nil {
			return ledger.Notified{}, &opError{"notify", fmt.Errorf("event %s: %w", e.ID, err)}
		}
		p.body = "" // the event's key is enough
		w.newTasks[e.ID] = p
	}
	if len(w.events) == 0 {
		return out, nil
	}
	if err := s.settle(ctx, "notify", w.write, w.committed); err != nil {
		return ledger.Notified{}, err
	}
	out.Tasks, out.Dropped = w.tasks, w.dropped
	return out, nil
}

// notification is one Notify call; each call of write starts it again.
type notification struct {
	events         []string            // to be deleted, sorted
	newTasks       map[string]*newTask // by event, of those that become a task
	tasks, dropped int
}

// write locks the events that still exist, and routes them.
//
// Index: primary key.
func (w *notification) write(t *tx) error {
	w.tasks, w.dropped = 0, 0
	locked, err := column[string](t.rows("SELECT id FROM {events}{by_key} WHERE {in name id} ORDER BY id{for_update}", sqlkit.Keys(w.events)))
	if err != nil || len(locked) == 0 {
		return err
	}
	var batch []*newTask
	for _, id := range locked {
		if p := w.newTasks[id]; p != nil {
			batch = append(batch, p)
		} else {
			w.dropped++
		}
	}
	w.tasks = len(batch)
	if len(batch) > 0 {
		if err := t.enqueue(batch); err != nil {
			return err
		}
	}
	n, err := t.Exec("{delete} {events} AS t{by_key} WHERE {in name id}", sqlkit.Keys(locked))
	if err == nil && n != int64(len(locked)) {
		return sqlkit.ErrMoved
	}
	return err
}

// committed: the events no longer exist, by this transaction or by that of another replica that did the same.
func (w *notification) committed(t *tx) (bool, error) {
	still, err := t.One("SELECT id FROM {events}{by_key} WHERE id=?{for_update}", []any{w.events[0]}, new(string))
	return !still, err
}
