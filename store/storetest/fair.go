package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var fairCases = []Case{
	{"Fair/Weights", fairWeights},
	{"Fair/Few", fairFew},
	{"Fair/Behind", fairBehind},
	{"Fair/Joins", fairJoins},
	{"Fair/New", fairNew},
	{"Fair/Idle", fairIdle},
	{"Fair/Keyless", fairKeyless},
	{"Fair/Kinds", fairKinds},
	{"Fair/Limits", fairLimits},
	{"Fair/Full", fairFull},
	{"Fair/Order", fairOrder},
}

// shared makes pool work one that keys share.
func (s *scene) shared(limits jobs.KeyLimits, order jobs.Order, weights map[string]int) {
	s.t.Helper()
	d := definitions()
	for i := range d.Pools {
		if d.Pools[i].Name == "work" {
			d.Pools[i].PerKey, d.Pools[i].Order, d.Pools[i].Fair = limits, order, &jobs.Fair{Weights: weights}
		}
	}
	if got, err := s.Store.Assert(s.ctx(), s.session, d); err != nil || !got.Governs {
		s.t.Fatalf("assert: %+v, %v", got, err)
	}
}

// many enqueues n tasks with a key.
func (s *scene) many(key string, n int) {
	s.t.Helper()
	batch := make([]jobs.NewTask, n)
	for i := range batch {
		batch[i] = jobs.NewTask{Pool: "work", Key: key}
	}
	_, err := s.Store.Enqueue(s.ctx(), batch...)
	must(s.t, err)
}

// run claims and ends tasks of pool work, a few at a time, and counts them by key.
func (s *scene) runs(claims, room int) map[string]int {
	s.t.Helper()
	started := map[string]int{}
	for range claims {
		got := s.limitedClaim("work", room)
		var ended []ledger.Result
		for _, k := range got.Tasks {
			started[k.Key]++
			ended = append(ended, result(k, ledger.Ended, jobs.StateSucceeded))
		}
		s.finish(ended...)
	}
	return started
}

// near wants a number that is off by at most that much.
func (s *scene) near(what string, got, want, off int) {
	s.t.Helper()
	if got < want-off || got > want+off {
		s.t.Errorf("%s: %d, want %d ± %d", what, got, want, off)
	}
}

// Keys that all have tasks start them by their weights, in any stretch.
func fairWeights(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.shared(jobs.KeyLimits{}, "", map[string]int{"a": 3})
	s.many("a", 200)
	s.many("b", 200)
	s.many("c", 200)
	for i := range 3 {
		got := s.runs(10, 5)
		for key, want := range map[string]int{"a": 30, "b": 10, "c": 10} {
			s.near(fmt.Sprintf("stretch %d, %s", i, key), got[key], want, 4-2*min(i, 1)) // at first, b and c join
		}
	}
}

// A key with few tasks does not wait until one that came first has no more.
func fairFew(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.shared(jobs.KeyLimits{}, "", nil)
	s.many("a", 700)
	s.many("b", 3)
	if got := s.limitedClaim("work", 10); !got.More || len(got.Tasks) != 10 {
		t.Errorf("started %d, more %v", len(got.Tasks), got.More)
	} else {
		for _, k := range got.Tasks {
			s.finish(ledger.Result{TaskID: k.ID, Token: k.Token, Verdict: ledger.HandBack})
		}
	}
	if got := s.runs(5, 10); got["b"] != 3 || got["a"] != 47 {
		t.Errorf("of the first 50: %v", got)
	}
}

// A key whose first task is behind many of another one has its turn, though no claim looks at more than a few, and none comes while no worker
// is free: the poll sorts them.
func fairBehind(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.shared(jobs.KeyLimits{}, "", nil)
	s.many("a", 1400)
	s.many("b", 1)
	long := s.limitedClaim("work", 1).Tasks
	s.sorted()
	s.finish(result(long[0], ledger.Ended, jobs.StateSucceeded))
	if got := s.runs(2, 1); got["a"] != 1 || got["b"] != 1 {
		t.Errorf("of the first two that started then: %v", got)
	}
}

// sorted polls until all tasks are sorted by their keys.
func (s *scene) sorted() {
	s.t.Helper()
	for range 20 {
		var now time.Time
		is, err := s.Store.Ready(s.ctx(), func(database time.Time) (time.Time, error) { now = database; return now, nil })
		if must(s.t, err); is.Next.IsZero() || is.Next.After(now) {
			return
		}
	}
	s.t.Error("there are always more to sort")
}

// A key that joins later shares from then on: it does not make up for the time before, and does not wait either.
func fairJoins(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.shared(jobs.KeyLimits{}, "", nil)
	s.many("a", 400)
	if got := s.runs(10, 10); got["a"] != 100 {
		t.Errorf("alone: %v", got)
	}
	s.many("b", 200)
	got := s.runs(4, 10)
	s.near("b, of 40 after it has joined", got["b"], 20, 2)
	s.many("c", 30)
	got = s.runs(3, 10)
	s.near("c, of 30 after it has joined", got["c"], 10, 2)
	s.many("d", 40)
	got = s.runs(40, 1)
	s.near("d, of 40 after it has joined, one by one", got["d"], 10, 2)
}

// Keys that come anew all the time, as many as there is room for, do not keep one that waits from its share.
func fairNew(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.shared(jobs.KeyLimits{}, "", nil)
	s.many("a", 100)
	started := 0
	for i := range 40 {
		for j := range 3 {
			s.many(fmt.Sprintf("new %d %d", i, j), 1)
		}
		started += s.runs(1, 3)["a"]
	}
	if started < 8 {
		t.Errorf("of 120 starts the key that waits had %d", started)
	}
}

// What one key does not use is used by the others, and while there is room for all, all start.
func fairIdle(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.shared(jobs.KeyLimits{}, "", map[string]int{"b": 100})
	s.many("a", 50)
	s.many("b", 5)
	if got := s.runs(1, 100); got["a"] != 50 || got["b"] != 5 {
		t.Errorf("with room for all: %v", got)
	}
	s.many("a", 50)
	s.many("b", 5)
	if got := s.runs(4, 10); got["a"] != 35 || got["b"] != 5 {
		t.Errorf("with room for 40: %v", got)
	}
	if got := s.runs(3, 10); got["a"] != 15 {
		t.Errorf("the rest: %v", got)
	}
	s.wantInt(0, "SELECT COUNT(*) FROM {tasks}")
	s.wantInt(0, "SELECT COUNT(*) FROM {key_waits}")
	s.ready("nothing is left")
	s.many("a", 15)
	if got := s.limitedClaim("work", 10); len(got.Tasks) != 10 || !got.More {
		t.Errorf("of 15: %d, more %v", len(got.Tasks), got.More)
	}
}

// The tasks without a key share as those of one key do.
func fairKeyless(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.shared(jobs.KeyLimits{}, "", nil)
	s.many("", 300)
	s.many("a", 300)
	got := s.runs(10, 4)
	s.near("without a key", got[""], 20, 2)
	task := s.newTask(jobs.NewTask{Priority: -1})
	s.runs(3, 4)
	_, err := b.Store.Cancel(s.ctx(), task, "")
	must(t, err)
	s.wantInt(0, "SELECT COUNT(*) FROM {key_waits} WHERE task_id=?", task)
	s.wantInt(1, "SELECT COUNT(*) FROM {done} WHERE state='cancelled'")
}

// However many keys have tasks of kinds that a replica does not know, it finds those that it knows.
func fairKinds(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.shared(jobs.KeyLimits{}, "", nil)
	var batch []jobs.NewTask
	for i := range 150 {
		key := fmt.Sprintf("%03d", i)
		for range 2 {
			batch = append(batch, jobs.NewTask{Pool: "work", Key: key, Kind: "x", Force: true})
		}
	}
	_, err := b.Store.Enqueue(s.ctx(), batch...)
	must(t, err)
	s.limitedClaim("work", 1) // has the others wait for their keys
	known := s.newTask(jobs.NewTask{Key: "z", Kind: "y", Force: true})
	other := s.newTask(jobs.NewTask{Key: "z", Kind: "y", Force: true})
	of := func(room int) []string {
		t.Helper()
		c := s.claiming("work", room)
		share(&c, func(s *ledger.Share) { s.Limited = true })
		c.Scope.Kinds = []string{"y"}
		got, err := tasksOf(b.Store.Claim(s.ctx(), c))
		must(t, err)
		return ids(got.Tasks)
	}
	var all []string
	for claims := 0; len(all) < 2; claims++ {
		if all = append(all, of(1)...); claims > 9 {
			t.Fatalf("after %d claims: %v", claims, all)
		}
	}
	if d := cmp.Diff([]string{known, other}, all); d != "" {
		t.Error(d)
	}
}

// Limits by key hold, and what they leave is shared by the others.
func fairLimits(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.shared(jobs.KeyLimits{MaxRunning: 2, Rate: jobs.Rate{Count: 1, Per: time.Hour}, Burst: 2}, "", nil)
	s.many("a", 100)
	s.many("b", 100)
	s.many("c", 100)
	got := s.limitedClaim("work", 20)
	count := map[string]int{}
	for _, k := range got.Tasks {
		count[k.Key]++
	}
	if count["a"] != 2 || count["b"] != 2 && count["b"] != 0 {
		t.Errorf("at once: %v", count)
	}
	for range 5 {
		for _, k := range s.limitedClaim("work", 20).Tasks {
			count[k.Key]++
		}
	}
	if count["a"] != 2 || count["b"] != 2 || count["c"] != 2 {
		t.Errorf("at once: %v", count)
	}
	s.many("", 9)
	if got := s.limitedClaim("work", 20); len(got.Tasks) != 9 {
		t.Errorf("without a key: %d", len(got.Tasks))
	}
}

// A key that was full while others started shares from when it has a place again: it does not make up for the time before.
func fairFull(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.shared(jobs.KeyLimits{MaxRunning: 2}, "", map[string]int{"b": 2})
	s.many("a", 30)
	long := s.limitedClaim("work", 2).Tasks
	s.many("b", 100)
	s.many("c", 100)
	for range 4 {
		if got := s.runs(10, 2); got["a"] != 0 {
			t.Fatalf("started %d of the key that is full", got["a"])
		}
	}
	for _, k := range long {
		s.finish(result(k, ledger.Ended, jobs.StateSucceeded))
	}
	got := s.runs(20, 1)
	s.near("a, of 20 after it was full", got["a"], 5, 2)
	s.near("b, of the same", got["b"], 10, 2)
}

// With an order each key starts one task at a time, in its turn.
func fairOrder(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.shared(jobs.KeyLimits{}, jobs.OrderKey, map[string]int{"a": 2})
	for _, key := range []string{"a", "b", "c", "d"} {
		s.many(key, 40)
	}
	got := s.runs(25, 1)
	s.near("a", got["a"], 10, 2)
	s.near("b", got["b"], 5, 2)
	s.near("d", got["d"], 5, 2)
	s.many("", 100)
	got = s.runs(20, 3)
	s.near("without a key", got[""], 12, 3)
}
