package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// A notification is sent at once when a task has failed and when a due time was missed, with what is known of it.
func TestNotificationsAreSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New()
		var told []jobs.Notification
		var when []time.Time
		inbox := replicatest.Function(func(_ context.Context, task jobs.Task, _ io.Writer) error {
			var n jobs.Notification
			if err := json.Unmarshal(task.Payload, &n); err != nil {
				return jobs.Cancel(err)
			}
			told, when = append(told, n), append(when, time.Now())
			return nil
		})
		notify := jobs.Notify{Handler: inbox, On: []jobs.Event{jobs.EventFailed, jobs.EventMissed}}
		h := newGiven()
		set := jobs.Set{Name: "prod", Jobs: map[string]jobs.Job{
			"j": {Handler: h, Notify: notify},
			"m": {Handler: h, Schedule: "@hourly", CatchUp: jobs.CatchUp{Policy: jobs.CatchUpNone}, Notify: notify},
		}}
		before, err := newOn(&memstore.Store{Database: db}, nil, set, Options{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		runFor(t, before, time.Second)
		first := time.Now().Truncate(time.Hour).Add(time.Hour).UTC()
		time.Sleep(2*time.Hour + 10*time.Minute)
		s := runs(t, &memstore.Store{Database: db}, set, Options{ID: "b"})
		time.Sleep(2*time.Second + 300*time.Millisecond)
		synctest.Wait()
		if len(told) != 1 || told[0].Event != jobs.EventMissed || told[0].Job != "m" || told[0].Count != 2 || !told[0].ScheduledAt.Equal(first) ||
			!told[0].Until.Equal(first.Add(time.Hour)) || told[0].Text != told[0].Sentence() || told[0].Text == "" {
			t.Fatalf("after the outage this is told: %+v", told)
		}
		_, task, err := s.RunJob(t.Context(), "j", "ann", "")
		if err != nil {
			t.Fatal(err)
		}
		h.now()
		h.finish(errors.New("no luck"))
		failed := time.Now()
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		if len(told) != 2 {
			t.Fatalf("of a failure nothing is told; %+v", told)
		}
		if n := told[1]; n.Event != jobs.EventFailed || n.Job != "j" || n.Name != "prod" || n.TaskID != task.ID || n.Error != "no luck" ||
			n.Count != 0 || !n.Until.IsZero() || n.Text != n.Sentence() || n.Text == "" || when[1].Sub(failed) > 0 {
			t.Errorf("of a failure this is told, after %v: %+v", when[1].Sub(failed), n)
		}
	})
}

// A single due time that was missed is a stretch of one.
func TestOneMissedDueTimeIsTold(t *testing.T) {
	p, err := plan.New(jobs.Set{Jobs: map[string]jobs.Job{"a": {Handler: replicatest.Nothing{}, Notify: jobs.Notify{Handler: replicatest.Nothing{}}}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := replicatest.Time("11:00:00")
	route := p.Route(replicatest.Time("12:00:00"), ledger.Event{Notification: jobs.Notification{Event: jobs.EventMissed, Job: "a", ScheduledAt: at, Count: 1, At: at}, Hash: p.Jobs["a"].Hash})
	if route.Task == nil {
		t.Fatal("no notification was sent")
	}
	if n := route.Task.Payload.(jobs.Notification); !n.Until.Equal(at) || n.Count != 1 {
		t.Errorf("%+v", n)
	}
	// Events whose definition no configuration has any more are dropped after RetiredFor, and not before.
	for ago, keep := range map[time.Duration]bool{plan.RetiredFor - 1: true, plan.RetiredFor: false} {
		if route := p.Route(at, ledger.Event{Notification: jobs.Notification{Event: jobs.EventFailed, Job: "gone", At: at.Add(-ago)}}); route.Keep != keep || route.Task != nil {
			t.Errorf("%v old: %+v", ago, route)
		}
	}
}

// telling is a store that has events, and notes its calls and their times.
type telling struct {
	*memstore.Store
	answers []any // ledger.Notified or error; afterwards there is nothing
	asked   []string
	began   time.Time
	claims  atomic.Int32 // of tasks that tell somebody
}

func (s *telling) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	if c.Pool == naming.NotificationsPool {
		s.claims.Add(1)
	}
	return s.Store.Claim(ctx, c)
}

func (s *telling) Ready(ctx context.Context, now ledger.Judge) (ledger.Ready, error) {
	is, err := s.Store.Ready(ctx, now)
	is.Events = true
	return is, err
}

func (s *telling) Notify(_ context.Context, n ledger.Notify) (ledger.Notified, error) {
	s.asked = append(s.asked, fmt.Sprintf("%v after %q", time.Since(s.began), n.After))
	if len(s.answers) == 0 {
		return ledger.Notified{}, nil
	}
	next := s.answers[0]
	s.answers = s.answers[1:]
	if err, is := next.(error); is {
		return ledger.Notified{}, err
	}
	return next.(ledger.Notified), nil
}

// All events are read, a batch at a time with a pause between two, then again from the first one each second. An
// error ends the round, and is logged; if the store is away it counts for readiness. The feeder of notifications is woken
// for new tasks.
func TestHowEventsAreLookedAt(t *testing.T) {
	for what, c := range map[string]struct {
		answers   []any
		wakeAfter time.Duration
		want      []string
		up        bool
		said      int
		wakes     bool
	}{
		"nothing": {nil, 0, []string{`1s after ""`, `2.1s after ""`, `3.2s after ""`}, true, 0, false},
		"more than a batch": {
			[]any{ledger.Notified{Tasks: 3, Last: "b", More: true}, ledger.Notified{Tasks: 1, Last: "d", More: true}, ledger.Notified{Tasks: 1, Last: "e"}},
			0, []string{`1s after ""`, `1.1s after "b"`, `1.2s after "d"`, `2.3s after ""`, `3.4s after ""`}, true, 0, true,
		},
		"events, and nobody to tell": {[]any{ledger.Notified{Dropped: 3, Last: "b"}}, 0, []string{`1s after ""`, `2.1s after ""`, `3.2s after ""`}, true, 0, false},
		"one is told":                {[]any{ledger.Notified{Tasks: 1, Last: "b"}}, 0, []string{`1s after ""`, `2.1s after ""`, `3.2s after ""`}, true, 0, true},
		"the store is away": {
			[]any{ledger.Notified{Last: "b", More: true}, fmt.Errorf("notify: %w", jobs.ErrUnavailable)},
			0, []string{`1s after ""`, `1.1s after "b"`, `2.1s after ""`, `3.2s after ""`}, false, 1, false,
		},
		"it refuses": {
			[]any{ledger.Notified{Last: "b", More: true}, replicatest.ErrRefused}, 0, []string{`1s after ""`, `1.1s after "b"`, `2.1s after ""`, `3.2s after ""`}, true, 1, false,
		},
		"somebody says that there is one": {nil, 500 * time.Millisecond, []string{`500ms after ""`, `1.6s after ""`, `2.7s after ""`}, true, 0, false},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &telling{Store: &memstore.Store{Database: memstore.New()}, answers: c.answers, began: time.Now()}
				log := &replicatest.Warnings{}
				s, err := newOn(st, nil, jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: replicatest.Nothing{}, Notify: jobs.Notify{Handler: replicatest.Nothing{}}}}}, Options{ID: "a", Logger: slog.New(log)})
				if err != nil {
					t.Fatal(err)
				}
				s.members.SetLoaded()
				trusting(s)
				if c.wakeAfter > 0 {
					time.AfterFunc(c.wakeAfter, func() { wake.Send(s.wakeNotify) })
				}
				ctx, stop := context.WithTimeout(t.Context(), 3500*time.Millisecond)
				defer stop()
				wake.Loops(ctx, s.notify, s.work.Take)
				if took := time.Since(st.began); took != 3500*time.Millisecond {
					t.Errorf("it ended after %v", took)
				}
				if !slices.Equal(st.asked, c.want) {
					t.Errorf("asked %q, want %q", st.asked, c.want)
				}
				if up := s.storeAnswers(); up != c.up || len(log.Take()) != c.said {
					t.Errorf("the store is there: %v", up)
				}
				if wakes := st.claims.Load() > 0; wakes != c.wakes {
					t.Errorf("who tells them is woken: %v", wakes)
				}
			})
		})
	}
}
