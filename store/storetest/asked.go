package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// askedCases are about events that are written where somebody has asked for them: of starts and successes.
var askedCases = []Case{
	{"Asked/Starts", askedStarts},
	{"Asked/OneNotification", askedOnce},
	{"Asked/Successes", askedSuccesses},
	{"Asked/LateSuccess", askedLate},
	{"Asked/Standings", askedStandings},
}

// asking is a claim of the pool work whose starts somebody is told of.
func (s *scene) asking(room int) []jobs.Task {
	s.t.Helper()
	c := s.claiming("work", room)
	c.Tells = func(t jobs.Task) bool { return t.Pool == "work" && t.State == jobs.StateRunning }
	got, err := tasksOf(s.Store.Claim(s.ctx(), c))
	must(s.t, err)
	return got.Tasks
}

// askedStarts: the first attempt of each task that a claim or a decision starts, and of which somebody is told, has an event; what waits, what
// nobody asked for, and further attempts have none.
func askedStarts(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 3)
	first := s.asking(2)
	s.want("events of a claim", s.events(), "started pool work, started pool work")
	s.finish(result(first[0], ledger.Again, jobs.StateFailed))
	s.DB.Exec(t, "UPDATE {tasks} SET state=0, run_at=1 WHERE state=1")
	s.DB.Exec(t, "DELETE FROM {events}")
	if again := s.asking(2); len(again) != 2 {
		t.Fatalf("claimed %d", len(again))
	}
	s.want("events, one of them a second attempt", s.events(), "started pool work")
	s.DB.Exec(t, "DELETE FROM {events}")
	s.enqueue("work", 1)
	s.claim("work", 1)
	s.wantEmpty("events")

	waits := run("b", due(1), false)
	waits.Triggers[0].Task.RunAt = due(1_000_000)
	d := s.deciding(func([]ledger.JobState) []ledger.Decision {
		return []ledger.Decision{run("a", due(1), true), waits, run("c", due(1), true)}
	})
	d.Tells = func(t jobs.Task) bool { return t.Job != "c" }
	got, err := decidedOf(s.Store.Decide(s.ctx(), d))
	must(t, err)
	s.want("events of a decision", s.events(), "started job a")
	events := map[string]ledger.Event{}
	s.notify(ledger.Notify{Limit: 10, Route: func(_ time.Time, e ledger.Event) ledger.Route {
		events[e.TaskID] = e
		return ledger.Route{Keep: true}
	}})
	i := slices.IndexFunc(got.Started, func(t jobs.Task) bool { return t.Job == "a" })
	id := got.Started[i].ID
	want := map[string]ledger.Event{id: {Hash: hash, Notification: jobs.Notification{
		Event: jobs.EventStarted, Job: "a", Pool: "default", ScheduledAt: due(1), Count: 1, TaskID: id, Attempt: 1, Replica: "one",
	}}}
	if d := cmp.Diff(want, events, cmpopts.IgnoreFields(jobs.Notification{}, "ID", "At")); d != "" {
		t.Error(d)
	}
	s.wantEmpty("standings")
}

// askedOnce: an attempt that was handed back does not count, so its task starts once more. The notification of both is one.
func askedOnce(t *testing.T, b *Bench) {
	s := withNotifications(t, b)
	s.enqueue("work", 1)
	for range 2 {
		s.finish(result(s.asking(1)[0], ledger.HandBack, jobs.StatePending))
	}
	s.want("events", s.events(), "started pool work, started pool work")
	s.notify(ledger.Notify{Limit: 10, Route: told})
	s.wantEmpty("events")
	s.asking(1)
	s.notify(ledger.Notify{Limit: 10, Route: told})
	s.wantEmpty("events")
	s.wantInt(1, "SELECT COUNT(*) FROM {tasks} WHERE pool=?", naming.NotificationsPool)
}

// askedSuccesses: each success that somebody is told of has an event, of several of a pool too; what ends otherwise, or goes on, has none.
func askedSuccesses(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 6)
	ends := []struct {
		verdict ledger.Verdict
		state   jobs.State
		tells   bool
	}{
		{ledger.Ended, jobs.StateSucceeded, true}, {ledger.Ended, jobs.StateSucceeded, true}, {ledger.Ended, jobs.StateSucceeded, false},
		{ledger.Ended, jobs.StateCancelled, true}, {ledger.Again, jobs.StateFailed, true}, {ledger.HandBack, jobs.StatePending, true},
	}
	for _, whole := range []bool{false, true} { // also as the owner knows the tasks
		var results []ledger.Result
		var want []string
		for i, task := range s.claim("work", len(ends)) {
			r := result(task, ends[i].verdict, ends[i].state)
			if r.Tells = ends[i].tells; whole && r.Verdict == ledger.Ended {
				r.Task = &task
			}
			if whole && r.Verdict != ledger.Ended {
				continue
			}
			results = append(results, r)
			if r.Tells && r.State == jobs.StateSucceeded {
				want = append(want, task.ID)
			}
		}
		s.finish(results...)
		s.finish(results...)
		s.wantInt(2, "SELECT COUNT(*) FROM {events}")
		var got []string
		s.notify(ledger.Notify{Limit: 10, Route: func(_ time.Time, e ledger.Event) ledger.Route {
			got = append(got, e.TaskID)
			if e.Event != jobs.EventSucceeded || e.Pool != "work" || e.Attempt != 1 || e.Replica != "one" {
				t.Errorf("%+v", e)
			}
			return ledger.Route{}
		}})
		slices.Sort(got)
		got = slices.Compact(got) // a transaction that is repeated routes them again
		s.wantInt(0, "SELECT COUNT(*) FROM {events}")
		if d := cmp.Diff(slices.Sorted(slices.Values(want)), got); d != "" || len(want) != 2 {
			t.Errorf("whole %v: %s", whole, d)
		}
		s.DB.Exec(t, "DELETE FROM {tasks}")
		s.enqueue("work", 6)
	}
	d, err := s.decide(run("a", due(1), true))
	must(t, err)
	r := result(d.Started[0], ledger.Ended, jobs.StateSucceeded)
	r.Tells = true
	s.finish(r)
	s.want("events of a job", s.events(), "succeeded job a")
}

// askedLate: a lost task whose own result comes late has succeeded then, once.
func askedLate(t *testing.T, b *Bench) {
	s := newScene(t, b)
	d, err := s.decide(run("a", due(1), true))
	must(t, err)
	s.die()
	s.reap()
	r := result(d.Started[0], ledger.Ended, jobs.StateSucceeded)
	r.Tells = true
	s.wantFinish(s.finish(r), ledger.Late)
	s.wantFinish(s.finish(r), ledger.Late)
	s.want("events", s.events(), "lost job a, succeeded job a, recovered job a")
}

// askedStandings: who is told of each success learns of the recovery, too, and the standing is that without it.
func askedStandings(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.runPool("work", jobs.StateFailed)
	s.enqueue("work", 2)
	var results []ledger.Result
	for _, task := range s.claim("work", 2) {
		r := result(task, ledger.Ended, jobs.StateSucceeded)
		r.Tells = true
		results = append(results, r)
	}
	s.finish(results...)
	count := func(e jobs.Event) string {
		return fmt.Sprint(e, " ", s.DB.Int(t, "SELECT COUNT(*) FROM {events} WHERE event=?", string(e)))
	}
	s.want("successes", count(jobs.EventSucceeded), "succeeded 2")
	s.want("recoveries", count(jobs.EventRecovered), "recovered 1")
	s.want("standing", s.standing("pool", "work"), "fine")
}
