package jobs

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/naming"
)

func TestNotifyIsJudged(t *testing.T) {
	h := says("h")
	err := Set{
		Pools: map[string]Pool{
			naming.NotificationsPool: {Handler: h},
			"p":                      {Handler: h, Notify: Notify{Handler: h, On: []Event{"failed", "fail", "", "failed"}}},
		},
		Jobs: map[string]Job{
			"in":     {Handler: h, Pool: naming.NotificationsPool},
			"how":    {Handler: h, Notify: Notify{On: events}},
			"nobody": {Handler: h, Notify: Notify{On: []Event{}}},
			"fine":   {Handler: h, Notify: Notify{Handler: h}},
		},
	}.Validate()
	got := found(t, err)
	for path, says := range map[string]string{
		"pools.notifications":  "only its limits can be set",
		"pools.p.notify.on[1]": `"fail" is unknown; use failed or missed or lost or recovered`,
		"pools.p.notify.on[2]": "is unknown",
		"pools.p.notify.on[3]": "is given twice",
		"jobs.in.pool":         "is for notifications alone",
		"jobs.how.notify":      "no way to send them",
	} {
		if !strings.Contains(got[path], says) {
			t.Errorf("%s: got %q, want something with %q", path, got[path], says)
		}
		delete(got, path)
	}
	for path, problem := range got {
		t.Errorf("unexpected: %s: %s", path, problem)
	}
}

// The pool of notifications is there for those who notify, and may be limited by all.
func TestPoolOfNotifications(t *testing.T) {
	if _, ok := (Set{}).WithDefaults().Pools[naming.NotificationsPool]; ok {
		t.Error("it exists without a notification")
	}
	h := says("h")
	set := Set{Jobs: map[string]Job{"a": {Handler: h, Notify: Notify{Handler: h}}}}
	pool := set.WithDefaults().Pools[naming.NotificationsPool]
	if pool.Workers != 5 || pool.Retries.Limit != 20 || pool.Timeout != time.Minute || pool.OnLost != LostRetries {
		t.Errorf("%+v, %+v", pool, pool.Retries)
	}
	set.Pools = map[string]Pool{naming.NotificationsPool: {Workers: 1, Retries: Retries{Limit: 3}}}
	if err := set.WithDefaults().Validate(); err != nil {
		t.Error(err)
	}
	if pool := set.WithDefaults().Pools[naming.NotificationsPool]; pool.Workers != 1 || pool.Retries.Limit != 3 || pool.Timeout != time.Minute {
		t.Errorf("%+v, %+v", pool, pool.Retries)
	}
}

// Each definition has a kind of its own, which says nothing of the handler: who sees the kind of a
// webhook must not be able to try guesses of its URL.
func TestKindsOfNotifications(t *testing.T) {
	closure := func(to string) Notify {
		return Notify{Handler: Func(func(context.Context, Task, Notification) error { _ = to; return nil })}
	}
	set := Set{
		Jobs: map[string]Job{
			"a": {Notify: Notify{Handler: says("hook")}},
			"b": {Notify: Notify{Handler: says("hook"), On: []Event{EventLost}}},
			"c": {Notify: Notify{Handler: says("other hook")}},
			"d": {Notify: closure("me")},
			"e": {Notify: closure("you")},
			"f": {},
		},
		Pools: map[string]Pool{"a": {Notify: Notify{Handler: says("hook")}}, "d": {Notify: closure("all")}},
	}
	kinds := set.Notifiers()
	if len(kinds) != 7 {
		t.Errorf("%d kinds", len(kinds))
	}
	if one, other := (Notify{Handler: says("hook")}).Kind("job a"), (Notify{Handler: says("other")}).Kind("job a"); one != other {
		t.Errorf("the handler shows in the kind: %s, %s", one, other)
	}
	for kind := range kinds {
		if !naming.Pattern.MatchString(kind) {
			t.Errorf("%q is no kind", kind)
		}
	}
}

func TestSentence(t *testing.T) {
	at := time.Date(2026, 6, 1, 8, 0, 0, 0, time.UTC)
	for want, n := range map[string]Notification{
		"[prod] job backup failed, the run of 2026-06-01T08:00:00Z: exit status 3": {
			Event: EventFailed, Name: "prod", Job: "backup", Pool: "default", ScheduledAt: at, TaskID: "7", Reason: "", Error: " exit status 3\nmore",
		},
		"job backup: a task was lost, the run of 2026-06-01T08:00:00Z: the session of replica a expired while it had the task": {
			Event: EventLost, Job: "backup", ScheduledAt: at, TaskID: "7", Reason: "the session of replica a expired while it had the task",
		},
		"pool mail failed (task 7): timeout after 30s":           {Event: EventFailed, Pool: "mail", TaskID: "7", Reason: "timeout after 30s", Error: "x"},
		"job a was suspended: 5 runs in a row have failed":       {Event: EventSuspended, Job: "a", TaskID: "t", Reason: "5 runs in a row have failed"},
		"pool mail was paused: 5 of the last 10 attempts failed": {Event: EventPaused, Pool: "mail", Reason: "5 of the last 10 attempts failed"},
		"pool mail failed":                                                                {Event: EventFailed, Pool: "mail"},
		"job backup failed: out of memory":                                                {Event: EventFailed, Job: "backup", TaskID: "7", Error: "\n out of memory \nmore"},
		"job backup: a task was lost":                                                     {Event: EventLost, Job: "backup", TaskID: "7"},
		"pool mail: a task was lost (task 7): replica a died":                             {Event: EventLost, Pool: "mail", TaskID: "7", Reason: "replica a died"},
		"[prod] job backup succeeded, the run of 2026-06-01T08:00:00Z":                    {Event: EventSucceeded, Name: "prod", Job: "backup", ScheduledAt: at, TaskID: "7"},
		"job backup started, the run of 2026-06-01T08:00:00Z":                             {Event: EventStarted, Job: "backup", ScheduledAt: at, TaskID: "7"},
		"pool mail succeeded (task 7)":                                                    {Event: EventSucceeded, Pool: "mail", TaskID: "7"},
		"job backup works again":                                                          {Event: EventRecovered, Job: "backup", ScheduledAt: at, TaskID: "7"},
		"job backup missed 2 due times from 2026-06-01T08:00:00Z to 2026-06-01T09:00:00Z": {Event: EventMissed, Job: "backup", ScheduledAt: at, Until: at.Add(time.Hour), Count: 2},
		"pool mail works again (task 7)":                                                  {Event: EventRecovered, Pool: "mail", TaskID: "7", Reason: "late"},
		"job backup missed its due time of 2026-06-01T08:00:00Z":                          {Event: EventMissed, Job: "backup", ScheduledAt: at, Count: 1},
		"job backup missed 3 due times from 2026-06-01T08:00:00Z to 2026-06-01T10:00:00Z: older than the window, 1h": {Event: EventMissed, Job: "backup", ScheduledAt: at, Until: at.Add(2 * time.Hour), Count: 3, Reason: "older than the window, 1h"},
	} {
		if got := n.Sentence(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// Somebody is told of what is listed, of everything where nothing is, and of nothing where there is nobody.
func TestWants(t *testing.T) {
	h := says("h")
	for _, c := range []struct {
		notify Notify
		want   []Event
	}{
		{Notify{}, nil},
		{Notify{On: events}, nil},
		{Notify{Handler: h}, events},
		{Notify{Handler: h, On: []Event{}}, nil},
		{Notify{Handler: h, On: []Event{EventLost, EventMissed}}, []Event{EventMissed, EventLost}},
	} {
		var got []Event
		for _, e := range events {
			if c.notify.Wants(e) {
				got = append(got, e)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v wants %v, not %v", c.notify, got, c.want)
		}
	}
}

// Which pools there are.
func TestPoolsOfASet(t *testing.T) {
	set := Set{Pools: map[string]Pool{"mail": {Workers: 3}, naming.NotificationsPool: {Workers: 2}}}
	for name, want := range map[string]bool{"mail": true, naming.DefaultPool: true, naming.NotificationsPool: true, "post": false, "": false} {
		if _, exists := set.Pool(name); exists != want {
			t.Errorf("pool %q is there: %v", name, exists)
		}
	}
	if _, exists := (Set{}).Pool(naming.NotificationsPool); exists {
		t.Error("notifications, and nobody notifies")
	}
	if pool, _ := set.Pool("mail"); pool.Workers != 3 || pool.Timeout != 30*time.Minute {
		t.Errorf("%+v", pool)
	}
}

// A set with a notification has the pool of notifications.
func TestNotificationsHaveTheirPool(t *testing.T) {
	h, told := says("h"), Notify{Handler: says("n")}
	for what, c := range map[string]struct {
		set  Set
		want int // kinds of notifications
	}{
		"none":          {Set{Jobs: map[string]Job{"a": {Handler: h}}, Pools: map[string]Pool{"p": {Handler: h, Notify: Notify{On: events}}}}, 0},
		"jobs":          {Set{Jobs: map[string]Job{"a": {Notify: told}, "b": {Notify: told}, "c": {Notify: told}}}, 3},
		"pools":         {Set{Pools: map[string]Pool{"p": {Notify: told}, "q": {Notify: told}, "r": {Notify: told}}}, 3},
		"a job of two":  {Set{Jobs: map[string]Job{"a": {}, "b": {Notify: told}}, Pools: map[string]Pool{"p": {}}}, 1},
		"a pool of two": {Set{Jobs: map[string]Job{"a": {}}, Pools: map[string]Pool{"p": {}, "q": {Notify: told}}}, 1},
	} {
		_, exists := c.set.Pool(naming.NotificationsPool)
		_, filled := c.set.WithDefaults().Pools[naming.NotificationsPool]
		if kinds := c.set.Notifiers(); len(kinds) != c.want || exists != (c.want > 0) || filled != exists {
			t.Errorf("%s: %d kinds, want %d; the pool is there: %v, and with defaults: %v", what, len(kinds), c.want, exists, filled)
		}
	}
}
