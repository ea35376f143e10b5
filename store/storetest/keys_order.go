package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var orderCases = []Case{
	{"Order/Head", orderHead},
	{"Order/Passes", orderPasses},
	{"Order/Rate", orderRate},
	{"Order/Begins", orderBegins},
	{"Order/BeginsLate", orderBeginsLate},
}

// With an order the first task of a key is the only one that runs, until it has ended: also while it waits for its time, or for its retry.
// Priority counts between keys alone.
func orderHead(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	s.perKey(jobs.KeyLimits{}, jobs.OrderKey)
	soon := time.Now().Add(time.Hour)
	k := []string{
		s.newTask(jobs.NewTask{Key: "a"}),
		s.newTask(jobs.NewTask{Key: "a", Priority: 9}),
		s.newTask(jobs.NewTask{Key: "b", RunAt: soon}),
		s.newTask(jobs.NewTask{Key: "b"}),
		s.newTask(jobs.NewTask{Key: "", Priority: 3}),
		s.newTask(jobs.NewTask{Key: "c", Priority: 5}),
		s.newTask(jobs.NewTask{Key: "a", Priority: -9}),
	}
	s.starts("the first of each", k[5], k[4], k[0])
	s.waitsForKey(k[1], "behind task "+k[0])
	s.idle("all wait")
	other.starts("all wait")
	task, _, err := b.Store.Task(s.ctx(), k[0])
	must(t, err)
	again := result(task, ledger.Again, jobs.StateFailed)
	again.RetryIn = time.Hour
	s.finish(again)
	other.starts("it waits for its retry")
	past := time.Now().Add(-time.Hour)
	s.update(k[0], wire.TaskChange{RunAt: &past})
	other.starts("it is retried", k[0])
	task, _, err = b.Store.Task(s.ctx(), k[0])
	must(t, err)
	if _, err := b.Store.Finish(s.ctx(), other.session, []ledger.Result{{TaskID: k[0], Token: task.Token, Verdict: ledger.HandBack}}); err != nil {
		t.Fatal(err)
	}
	other.starts("it was handed back", k[0])
	other.ends(k[0])
	s.ready("it has ended", "work")
	s.freed("the next", k[1])
	s.ends(k[1])
	s.freed("the last", k[6])
	s.update(k[2], wire.TaskChange{RunAt: &past})
	s.starts("the first of b is due", k[2])
	s.ends(k[2], k[6])
	s.starts("the second of b", k[3])
	s.ends(k[3], k[4], k[5])
	s.wantInt(0, "SELECT COUNT(*) FROM {tasks}")
	s.wantInt(0, "SELECT COUNT(*) FROM {key_waits}")
}

// The tasks that end without having been first, and the first one that is cancelled or lost for good, are passed. A retry of an ended task
// is the last.
func orderPasses(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{}, jobs.OrderKey)
	k := s.keyed("a", "a", "a", "a", "a")
	s.starts("the first", k[0])
	for _, id := range []string{k[1], k[3]} {
		_, err := b.Store.Cancel(s.ctx(), id, "")
		must(t, err)
	}
	s.die()
	s.session = s.join("again")
	if got := s.reap(); len(got) != 1 || got[0].Task.State != jobs.StateLost {
		t.Errorf("reaped %+v", got)
	}
	retry, err := b.Store.Retry(s.ctx(), k[0], "", false)
	must(t, err)
	if retry.Key != "a" {
		t.Errorf("a retry has key %q", retry.Key)
	}
	s.starts("after the lost one", k[2])
	s.starts("it runs")
	s.ends(k[2])
	_, err = b.Store.Cancel(s.ctx(), k[4], "")
	must(t, err)
	s.starts("the retry", retry.ID)
}

// An order and a rate hold together.
func orderRate(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{Rate: jobs.Rate{Count: 1, Per: time.Minute}, Burst: 1}, jobs.OrderKey)
	k := s.keyed("a", "a", "b")
	s.starts("the first of each", k[0], k[2])
	s.ends(k[0])
	s.starts("too early")
	s.passKeys(time.Minute + time.Second)
	s.starts("a minute later", k[1])
}

// An order that a pool gets holds for the tasks that it has. Without it they run as before.
func orderBegins(t *testing.T, b *Bench) {
	s := newScene(t, b)
	k := s.keyed("a", "a", "b")
	if d := cmp.Diff(k[:1], ids(s.claim("work", 1))); d != "" {
		t.Fatal(d)
	}
	s.perKey(jobs.KeyLimits{}, jobs.OrderKey)
	k = append(k, s.newTask(jobs.NewTask{Key: "a", Priority: 7}))
	s.starts("one of a runs", k[2])
	s.ends(k[0])
	s.starts("the next", k[1])
	more := s.keyed("a", "a")
	s.perKey(jobs.KeyLimits{MaxRunning: 2}, "")
	s.starts("without an order", k[3])
	s.ends(k[1], k[3])
	s.starts("without an order", more...)
}

// While a later task of a key runs, the pool gets an order: an earlier one starts when that has ended.
func orderBeginsLate(t *testing.T, b *Bench) {
	s := newScene(t, b)
	low := s.newTask(jobs.NewTask{Key: "a"})
	high := s.newTask(jobs.NewTask{Key: "a", Priority: 5})
	if d := cmp.Diff([]string{high}, ids(s.claim("work", 1))); d != "" {
		t.Fatal(d)
	}
	s.perKey(jobs.KeyLimits{}, jobs.OrderKey)
	s.starts("a later one runs")
	s.ends(high)
	s.starts("it has ended", low)
}
