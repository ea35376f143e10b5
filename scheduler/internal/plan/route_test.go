package plan

import (
	"context"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

func TestRoutesOfEvents(t *testing.T) {
	p, err := New(jobs.Set{
		Pools: map[string]jobs.Pool{"p": {Handler: replicatest.Nothing{}, Notify: jobs.Notify{Handler: replicatest.Nothing{}}}},
		Jobs: map[string]jobs.Job{
			"a": {Handler: replicatest.Nothing{}, Notify: jobs.Notify{Handler: replicatest.Nothing{}, On: []jobs.Event{jobs.EventMissed}}},
			"b": {Handler: replicatest.Nothing{}},
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := replicatest.Time("12:00:00")
	recent, old := now.Add(-time.Minute), now.Add(-time.Hour)
	a, b, pool := p.Jobs["a"].Hash, p.Jobs["b"].Hash, p.Pools["p"].Hash
	at := replicatest.Time("11:00:00")
	for _, c := range []struct {
		what  string
		event ledger.Event
		want  string
	}{
		{"missed", ledger.Event{Notification: jobs.Notification{Event: jobs.EventMissed, Job: "a", ScheduledAt: at, At: old}, Hash: a}, "missed/a@" + at.Format(time.RFC3339Nano)},
		{"of a backfill", ledger.Event{Notification: jobs.Notification{Event: jobs.EventMissed, Job: "a", ScheduledAt: at, At: old}, Seq: 2, Hash: a}, "missed/a@" + at.Format(time.RFC3339Nano) + "/2"},
		{"not asked for", ledger.Event{Notification: jobs.Notification{Event: jobs.EventFailed, Job: "a", At: recent}, Hash: a}, "drop"},
		{"nobody to tell", ledger.Event{Notification: jobs.Notification{Event: jobs.EventFailed, Job: "b", At: recent}, Hash: b}, "drop"},
		{"of the pool", ledger.Event{Notification: jobs.Notification{Event: jobs.EventLost, Pool: "p", TaskID: "7", At: old}, Hash: pool}, "lost/7"},
		{"of a pause", ledger.Event{Notification: jobs.Notification{ID: "1", Event: jobs.EventPaused, Pool: "p", At: old}, Hash: pool}, "paused/p/1"},
		{"of another pause", ledger.Event{Notification: jobs.Notification{ID: "2", Event: jobs.EventPaused, Pool: "p", At: old}, Hash: pool}, "paused/p/2"},
		{"a success of which nobody asked", ledger.Event{Notification: jobs.Notification{Event: jobs.EventSucceeded, Pool: "p", TaskID: "7", At: old}, Hash: pool}, "drop"},
		{"in a pool, of a job", ledger.Event{Notification: jobs.Notification{Event: jobs.EventLost, Pool: "p", Job: "b", TaskID: "7", At: old}, Hash: b}, "drop"},
		{"defined otherwise", ledger.Event{Notification: jobs.Notification{Event: jobs.EventMissed, Job: "a", At: old}, Hash: b}, "keep"},
		{"unknown here", ledger.Event{Notification: jobs.Notification{Event: jobs.EventFailed, Job: "c", At: old}, Hash: "x"}, "keep"},
		{"just retired", ledger.Event{Notification: jobs.Notification{Event: jobs.EventFailed, Job: "c", At: recent}}, "keep"},
		{"known here and just retired", ledger.Event{Notification: jobs.Notification{Event: jobs.EventMissed, Job: "a", At: recent}}, "keep"},
		{"retired long ago", ledger.Event{Notification: jobs.Notification{Event: jobs.EventFailed, Job: "c", At: old}}, "drop"},
		{"pool retired long ago", ledger.Event{Notification: jobs.Notification{Event: jobs.EventFailed, Pool: "q", At: old}}, "drop"},
	} {
		route, got := p.Route(now, c.event), "drop"
		switch {
		case route.Keep:
			got = "keep"
		case route.Task != nil:
			got = route.Task.IdempotencyKey
			if _, known := p.Execution(jobs.Task{Pool: route.Task.Pool, Kind: route.Task.Kind}); !known {
				t.Errorf("%s: no handler for kind %s", c.what, route.Task.Kind)
			}
			if _, err := route.Task.Encode(); err != nil {
				t.Errorf("%s: %v", c.what, err)
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// A notification has all that is known of the event.
func TestWhatANotificationSays(t *testing.T) {
	p, err := New(jobs.Set{
		Name:  "prod",
		Pools: map[string]jobs.Pool{"p": {Handler: replicatest.Nothing{}, Notify: jobs.Notify{Handler: replicatest.Nothing{}}}},
		Jobs: map[string]jobs.Job{"j": {Handler: replicatest.Nothing{}, Notify: jobs.Notify{
			Handler: replicatest.Nothing{}, On: []jobs.Event{jobs.EventFailed, jobs.EventLost, jobs.EventMissed, jobs.EventRecovered, jobs.EventSucceeded},
		}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	at, until, happened := replicatest.Time("11:00:00"), replicatest.Time("11:30:00"), replicatest.Time("11:59:00")
	of := func(e jobs.Event) ledger.Event {
		return ledger.Event{Seq: 6, Hash: p.Jobs["j"].Hash, Notification: jobs.Notification{
			ID: "5", Event: e, Job: "j", Pool: "p", ScheduledAt: at, TaskID: "7", Attempt: 2, Replica: "a", Reason: "timeout", Error: "no luck", At: happened, Count: 1,
		}}
	}
	ofPool, missed := of(jobs.EventFailed), of(jobs.EventMissed)
	ofPool.Job, ofPool.ScheduledAt, ofPool.Hash = "", time.Time{}, p.Pools["p"].Hash
	missed.TaskID, missed.Pool, missed.Attempt, missed.Error, missed.Until, missed.Count = "", "", 0, "", until, 3
	told := func(change func(n *jobs.Notification)) jobs.Notification {
		n := jobs.Notification{
			Name: "prod", Job: "j", Pool: "p", ScheduledAt: at, TaskID: "7", Attempt: 2, Replica: "a", Reason: "timeout", Error: "no luck", At: happened,
		}
		change(&n)
		return n
	}
	const run = ", the run of 2026-03-01T11:00:00Z: "
	for _, c := range []struct {
		event ledger.Event
		want  jobs.Notification
	}{
		{of(jobs.EventFailed), told(func(n *jobs.Notification) {
			n.ID, n.Event, n.Text = "failed/7", jobs.EventFailed, "[prod] job j failed"+run+"timeout"
		})},
		{of(jobs.EventLost), told(func(n *jobs.Notification) {
			n.ID, n.Event, n.Text = "lost/7", jobs.EventLost, "[prod] job j: a task was lost"+run+"timeout"
		})},
		{of(jobs.EventRecovered), told(func(n *jobs.Notification) {
			n.ID, n.Event, n.Text = "recovered/7", jobs.EventRecovered, "[prod] job j works again"
		})},
		{of(jobs.EventSucceeded), told(func(n *jobs.Notification) {
			n.ID, n.Event, n.Text = "succeeded/7", jobs.EventSucceeded, "[prod] job j succeeded"+run+"timeout"
		})},
		{ofPool, told(func(n *jobs.Notification) {
			n.ID, n.Event, n.Text = "failed/7", jobs.EventFailed, "[prod] pool p failed (task 7): timeout"
			n.Job, n.ScheduledAt = "", time.Time{}
		})},
		{missed, told(func(n *jobs.Notification) {
			n.ID, n.Event = "missed/j@2026-03-01T11:00:00Z/6", jobs.EventMissed
			n.Text = "[prod] job j missed 3 due times from 2026-03-01T11:00:00Z to 2026-03-01T11:30:00Z: timeout"
			n.TaskID, n.Pool, n.Attempt, n.Error, n.Until, n.Count = "", "", 0, "", until, 3
		})},
	} {
		route := p.Route(replicatest.Time("12:00:00"), c.event)
		if route.Task == nil {
			t.Errorf("no notification of %s", c.want.ID)
			continue
		}
		kind := p.Jobs["j"].notifier
		if c.event.Job == "" {
			kind = p.Pools["p"].notifier
		}
		want := &jobs.NewTask{Pool: naming.NotificationsPool, Kind: kind, Payload: c.want, IdempotencyKey: c.want.ID}
		if diff := cmp.Diff(want, route.Task); diff != "" {
			t.Errorf("of %s (-want +got):\n%s", c.want.ID, diff)
		}
	}
}

// A notification for a webhook that was removed goes to the one that the definition has now.
func TestNotificationsOfAnEarlierConfiguration(t *testing.T) {
	got := ""
	now := jobs.Func(func(_ context.Context, _ jobs.Task, n jobs.Notification) error { got = n.ID; return nil })
	p, err := New(jobs.Set{
		Pools: map[string]jobs.Pool{"p": {Handler: replicatest.Nothing{}, Notify: jobs.Notify{Handler: now}}},
		Jobs: map[string]jobs.Job{
			"a": {Handler: replicatest.Nothing{}, Notify: jobs.Notify{Handler: now}},
			"b": {Handler: replicatest.Nothing{}},
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for job, told := range map[string]bool{"a": true, "b": false, "gone": false, "": true} { // without a job it is of the pool
		got = ""
		payload, _ := json.Marshal(jobs.Notification{ID: "7", Job: job, Pool: "p", TaskID: "8", Reason: "timeout"})
		task := jobs.Task{Pool: naming.NotificationsPool, Kind: "earlier", Payload: payload}
		w, ok := p.Execution(task)
		if !ok {
			t.Fatal("no handler")
		}
		if err := w.Handler.Run(t.Context(), task, io.Discard); jobs.IsCancel(err) == told || (got == "7") != told {
			t.Errorf("%s: %v, told %q", job, err, got)
		}
	}
}
