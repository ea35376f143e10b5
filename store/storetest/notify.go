package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var notifyCases = []Case{
	{"Notify/Rows", notifyRows},
	{"Notify/Routes", notifyRoutes},
	{"Notify/Pages", notifyPages},
	{"Notify/Once", notifyOnce},
	{"Notify/Together", notifyTogether},
}

// withNotifications adds the pool of notifications.
func withNotifications(t *testing.T, b *Bench) *scene {
	t.Helper()
	s := newScene(t, b)
	s.DB.Exec(t, "INSERT INTO {pools} (name, hash, config, max_running, max_attempts, on_lost) VALUES (?, ?, 1, 0, 21, 'retry')",
		naming.NotificationsPool, hash)
	return s
}

func (s *scene) notify(n ledger.Notify) ledger.Notified {
	s.t.Helper()
	done, err := s.Store.Notify(s.ctx(), n)
	must(s.t, err)
	return done
}

// told routes each event to a task.
func told(_ time.Time, e ledger.Event) ledger.Route {
	return ledger.Route{Task: &jobs.NewTask{
		Pool: naming.NotificationsPool, Kind: "hook", Payload: e.Event, IdempotencyKey: string(e.Event) + "/" + e.TaskID,
	}}
}

func (s *scene) wantNotified(got, want ledger.Notified) {
	s.t.Helper()
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(ledger.Notified{}, "Last")); d != "" {
		s.t.Error(d)
	}
}

func notifyRows(t *testing.T, b *Bench) {
	s := withNotifications(t, b)
	task := s.runJob("a", 1, jobs.StateFailed)
	s.DB.Exec(t, "UPDATE {events} SET error='boom', reason='exit status 3'")
	_, err := s.decide(ledger.Decision{Job: "b", Cursor: due(3), NextAt: due(4), Triggers: []ledger.Opening{
		{Trigger: jobs.Trigger{Job: "b", At: due(1), Until: due(3), Count: 3, Cause: jobs.CauseCatchUp, Outcome: jobs.Missed}},
	}})
	must(t, err)
	s.runPool("work", jobs.StateFailed)
	s.runJob("c", 1, jobs.StateFailed)
	s.DB.Exec(t, "UPDATE {jobs} SET hash='' WHERE name='b'")             // retired
	s.DB.Exec(t, "DELETE FROM {jobs} WHERE name='c'")                    // retired long ago
	s.DB.Exec(t, "UPDATE {pools} SET hash='newer' WHERE name='default'") // where the tasks of jobs run
	var events []ledger.Event
	s.notify(ledger.Notify{Limit: 10, Route: func(now time.Time, e ledger.Event) ledger.Route {
		if age := now.Sub(e.At); age < 0 || age > time.Minute {
			t.Errorf("the event is %v old", age)
		}
		events = append(events, e)
		return ledger.Route{Keep: true}
	}})
	want := []ledger.Event{
		{Notification: jobs.Notification{Event: jobs.EventFailed, Job: "a", Pool: "default", ScheduledAt: due(1), Count: 1, TaskID: task.ID, Attempt: 1, Replica: "one", Reason: "exit status 3", Error: "boom"}, Hash: hash},
		{Notification: jobs.Notification{Event: jobs.EventMissed, Job: "b", ScheduledAt: due(1), Until: due(3), Count: 3, Replica: "one"}},
		{Notification: jobs.Notification{Event: jobs.EventFailed, Pool: "work", Count: 1, Attempt: 1, Replica: "one"}, Hash: hash},
		{Notification: jobs.Notification{Event: jobs.EventFailed, Job: "c", Pool: "default", ScheduledAt: due(1), Count: 1, Attempt: 1, Replica: "one"}},
	}
	if d := cmp.Diff(want, events, cmp.FilterPath(func(p cmp.Path) bool {
		name := p.Last().String()
		return name == ".ID" || name == ".At" || name == ".TaskID" && p.Index(1).String() != "[0]"
	}, cmp.Ignore())); d != "" {
		t.Error(d)
	}
	s.wantInt(4, "SELECT COUNT(*) FROM {events}")
}

func notifyRoutes(t *testing.T, b *Bench) {
	s := withNotifications(t, b)
	s.wantNotified(s.notify(ledger.Notify{Limit: 10, Route: told}), ledger.Notified{})
	s.runJob("a", 1, jobs.StateFailed)
	s.runJob("b", 1, jobs.StateFailed)
	s.runJob("c", 1, jobs.StateFailed)
	route := func(now time.Time, e ledger.Event) ledger.Route {
		switch e.Job {
		case "a":
			return told(now, e)
		case "b":
			return ledger.Route{}
		}
		return ledger.Route{Keep: true}
	}
	s.wantNotified(s.notify(ledger.Notify{Limit: 10, Route: route}), ledger.Notified{Tasks: 1, Dropped: 1, Kept: 1})
	s.want("events", s.events(), "failed job c")
	s.wantInt(1, "SELECT COUNT(*) FROM {tasks} WHERE pool=? AND kind='hook' AND job='' AND state=0 AND max_attempts=21 AND on_lost='retry' AND payload=?",
		naming.NotificationsPool, []byte(`"failed"`))
	s.wantInt(1, "SELECT COUNT(*) FROM {tasks}")
	s.wantInt(1, "SELECT COUNT(*) FROM {idempotency}")
}

// Events that stay do not block those behind them.
func notifyPages(t *testing.T, b *Bench) {
	s := withNotifications(t, b)
	for n := range 5 {
		s.runPool([]string{"again", "again", "again", "work", "again"}[n], jobs.StateFailed)
	}
	route := func(now time.Time, e ledger.Event) ledger.Route {
		if e.Pool == "again" {
			return ledger.Route{Keep: true}
		}
		return told(now, e)
	}
	first := s.notify(ledger.Notify{Limit: 2, Route: route})
	s.wantNotified(first, ledger.Notified{Kept: 2, More: true})
	second := s.notify(ledger.Notify{After: first.Last, Limit: 2, Route: route})
	s.wantNotified(second, ledger.Notified{Tasks: 1, Kept: 1, More: true})
	third := s.notify(ledger.Notify{After: second.Last, Limit: 2, Route: route})
	s.wantNotified(third, ledger.Notified{Kept: 1})
	s.wantInt(4, "SELECT COUNT(*) FROM {events}")
}

// An event that comes back, as from a backup, is not delivered again while its task is kept.
func notifyOnce(t *testing.T, b *Bench) {
	s := withNotifications(t, b)
	task := s.runJob("a", 1, jobs.StateFailed)
	s.notify(ledger.Notify{Limit: 10, Route: told})
	s.DB.Exec(t, "INSERT INTO {events} (id, event, job, task_id, error, happened_at) VALUES ('x', 'failed', 'a', ?, '', 1)", task.ID)
	s.notify(ledger.Notify{Limit: 10, Route: func(now time.Time, e ledger.Event) ledger.Route {
		route := told(now, e)
		route.Task.Kind = "other" // the configuration changed meanwhile
		return route
	}})
	s.wantInt(1, "SELECT COUNT(*) FROM {tasks} WHERE pool=?", naming.NotificationsPool)
	s.wantEmpty("events")
}

// Replicas that poll at the same time make one task of each event.
func notifyTogether(t *testing.T, b *Bench) {
	s := withNotifications(t, b)
	other := s.second("two")
	const n = 40
	s.enqueue("work", n)
	var results []ledger.Result
	for _, task := range s.claim("work", n) {
		results = append(results, result(task, ledger.Ended, jobs.StateFailed))
	}
	s.finish(results...)
	failed := make(chan error, 4)
	for i := range 4 {
		from := []*scene{s, other}[i%2]
		ctx := from.ctx()
		go func() {
			for more := true; more; {
				done, err := from.Store.Notify(ctx, ledger.Notify{Limit: 7, Route: told})
				if err != nil {
					failed <- err
					return
				}
				more = done.Last != ""
			}
			failed <- nil
		}()
	}
	for range 4 {
		must(t, <-failed)
	}
	s.wantEmpty("events")
	s.wantInt(n, "SELECT COUNT(*) FROM {tasks}")
	s.wantInt(n, "SELECT COUNT(DISTINCT idem_key) FROM {tasks}")
}

// The event is deleted with the insertion of its task, or stays.
func notifyFails(t *testing.T, b *Bench) {
	s := withNotifications(t, b)
	s.runJob("a", 1, jobs.StateFailed)
	for _, table := range []string{"idempotency", "tasks", "pools"} {
		b.DB.Exec(t, "ALTER TABLE {"+table+"} RENAME TO {elsewhere}")
		_, err := s.Store.Notify(s.ctx(), ledger.Notify{Limit: 10, Route: told})
		b.DB.Exec(t, "ALTER TABLE {elsewhere} RENAME TO {"+table+"}")
		if err == nil {
			t.Errorf("notified without %s", table)
		}
		s.want("events", s.events(), "failed job a")
		s.wantEmpty("tasks", "idempotency")
	}
	s.DB.Exec(t, "DELETE FROM {pools} WHERE name=?", naming.NotificationsPool)
	if _, err := s.Store.Notify(s.ctx(), ledger.Notify{Limit: 10, Route: told}); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("without the pool: %v", err)
	}
	s.want("events", s.events(), "failed job a")
}

func enqueueNotification(t *testing.T, b *Bench) {
	s := withNotifications(t, b)
	_, err := s.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: naming.NotificationsPool, Kind: "hook"})
	if !errors.Is(err, jobs.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	_, err = s.SQL().EnqueueTx(s.ctx(), b.DB.Handle(), jobs.NewTask{Pool: naming.NotificationsPool})
	if !errors.Is(err, jobs.ErrInvalid) {
		t.Errorf("in a transaction: %v", fmt.Sprint(err))
	}
	s.wantEmpty("tasks")
}
