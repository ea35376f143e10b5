package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

var kindLimitCases = []Case{
	{"KindLimits/MaxRunning", kindMaxRunning},
	{"KindLimits/Rate", kindRate},
	{"KindLimits/AndKeys", kindAndKeys},
	{"KindLimits/AndRates", kindAndRates},
	{"KindLimits/ManyBehind", kindManyBehind},
	{"KindLimits/Definitions", kindDefinitions},
	{"KindLimits/Untold", kindUntold},
	{"KindLimits/Together", kindsTogether},
}

type perKind = map[string]jobs.KindLimits

// perKind gives pool work other limits by kind and by key, as a replica does that has loaded another definition.
func (s *scene) perKind(kinds perKind, keys jobs.KeyLimits, fair *jobs.Fair) {
	s.t.Helper()
	d := definitions()
	for i := range d.Pools {
		if d.Pools[i].Name == "work" {
			d.Pools[i].PerKind, d.Pools[i].PerKey, d.Pools[i].Fair = kinds, keys, fair
		}
	}
	if got, err := s.Store.Assert(s.ctx(), s.session, d); err != nil || !got.Governs {
		s.t.Fatalf("assert: %+v, %v", got, err)
	}
}

// ofKinds enqueues a task of each kind, in this order; "" is none.
func (s *scene) ofKinds(kinds ...string) []string {
	s.t.Helper()
	var ids []string
	for _, kind := range kinds {
		ids = append(ids, s.newTask(jobs.NewTask{Kind: kind}))
	}
	return ids
}

// waitsFor wants a pending task that says what it waits for.
func (s *scene) waitsFor(id string, code reason.Code, because string) {
	s.t.Helper()
	task, _, err := s.Store.Task(s.ctx(), id)
	must(s.t, err)
	if task.State != jobs.StatePending || task.ReasonCode != code || !strings.Contains(task.Reason, because) {
		s.t.Errorf("%s, %s: %q, want %s: %q", task.State, task.ReasonCode, task.Reason, code, because)
	}
}

// As many tasks of a kind run as may, in all replicas, and those behind them hold up no others. While all that wait are full the pool has
// no work, and an end makes it so. Kinds without limits, and tasks without a kind, have none.
func kindMaxRunning(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	s.perKind(perKind{"mail": {MaxRunning: 2}, "sms": {MaxRunning: 1}}, jobs.KeyLimits{}, nil)
	k := s.ofKinds("mail", "mail", "mail", "sms", "", "mail", "push", "push", "sms")
	got := s.limitedClaim("work", 20)
	if d := cmp.Diff([]string{k[0], k[1], k[3], k[4], k[6], k[7]}, ids(got.Tasks)); d != "" || got.Behind != 3 || got.Freed != 0 || got.Full || !got.ByKey {
		t.Errorf("behind %d, full %v: %s", got.Behind, got.Full, d)
	}
	s.waitsFor(k[2], reason.WaitsForKind, "as many tasks of kind mail run as may at once: 2")
	s.waitsFor(k[8], reason.WaitsForKind, "as many tasks of kind sms run as may at once: 1")
	s.idle("all kinds are full")
	other.starts("all kinds are full")
	s.ends(k[4], k[6])
	other.starts("others have ended")
	s.ends(k[1])
	s.ready("one has ended", "work")
	other.freed("one has ended", k[2])
	s.idle("it runs")
	task, _, err := b.Store.Task(s.ctx(), k[2])
	if must(t, err); task.Reason != "" || task.ReasonCode != "" || task.Attempt != 1 {
		t.Errorf("it runs, attempt %d, for %s: %s", task.Attempt, task.ReasonCode, task.Reason)
	}
	s.ends(k[3])
	s.freed("the one of the other kind has ended", k[8])
	s.ends(k[0])
	other.ends(k[2])
	_, err = b.Store.Cancel(s.ctx(), k[5], "test")
	must(t, err)
	s.starts("what waited was cancelled")
	s.ends(k[8], k[7])
	s.wantInt(0, "SELECT COUNT(*) FROM {tasks}")
	s.wantInt(0, "SELECT COUNT(*) FROM {key_waits}")
	s.ready("nothing is left")
}

// Each kind has a bucket of its own.
func kindRate(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	s.perKind(perKind{"mail": {Rate: jobs.Rate{Count: 3, Per: time.Minute}, Burst: 2}}, jobs.KeyLimits{}, nil)
	k := s.ofKinds("mail", "mail", "mail", "push", "mail", "")
	s.starts("a burst", k[0], k[1], k[3], k[5])
	s.waitsFor(k[2], reason.WaitsForKind, "the rate for tasks of kind mail, 3/m")
	s.ends(k[0], k[1])
	other.starts("ends are no starts")
	is, err := b.Store.Ready(s.ctx(), asIs)
	pools, next := is.Pools, is.Next
	must(t, err)
	if in := time.Until(next); len(pools) > 0 || in < 15*time.Second || in > 25*time.Second {
		t.Errorf("pools %v are ready, and the next task in %v", pools, in)
	}
	s.passKeys(21 * time.Second)
	s.ready("21 seconds later", "work")
	other.starts("21 seconds later", k[2])
	s.passKeys(-time.Hour)
	s.ready("an hour back", "work")
	s.starts("an hour back")
	s.passKeys(61 * time.Second)
	s.starts("a minute later", k[4])
}

// A task waits for its kind, and then for its key, and holds up no other task of its kind meanwhile.
func kindAndKeys(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKind(perKind{"mail": {MaxRunning: 2}}, jobs.KeyLimits{MaxRunning: 1}, nil)
	task := func(kind, key string) string { return s.newTask(jobs.NewTask{Kind: kind, Key: key}) }
	a1, b1 := task("mail", "a"), task("mail", "b")
	a2, c1, a3 := task("mail", "a"), task("mail", "c"), task("push", "a")
	s.starts("first", a1, b1)
	s.waitsFor(a2, reason.WaitsForKind, "kind mail")
	s.waitsFor(a3, reason.WaitsForKey, "with this key")
	s.ends(b1)
	for range 3 { // the first one that waits for the kind goes on to wait for its key
		if got := s.limitedClaim("work", 1); len(got.Tasks) > 0 {
			if d := cmp.Diff([]string{c1}, ids(got.Tasks)); d != "" {
				t.Fatal(d)
			}
			break
		}
	}
	s.waitsFor(a2, reason.WaitsForKey, "with this key")
	s.wantState("running", c1)
	s.idle("a runs, and the kind is full")
	s.ends(a1)
	s.starts("the key is free", a2)
	s.ends(c1)
	s.starts("a2 runs")
	s.ends(a2)
	s.starts("it has ended", a3)
	s.ends(a3)
	s.wantInt(0, "SELECT COUNT(*) FROM {key_waits}")

	// And the other way: its key is free, and its kind is not any more.
	a4, a5 := task("push", "a"), task("mail", "a")
	s.starts("the key is taken", a4)
	s.waitsFor(a5, reason.WaitsForKey, "with this key")
	m1, m2 := task("mail", ""), task("mail", "")
	s.starts("the kind is taken", m1, m2)
	s.ends(a4)
	s.starts("the key is free, and the kind is not")
	s.waitsFor(a5, reason.WaitsForKind, "kind mail")
	s.ends(m2)
	s.freed("the kind is free", a5)
}

func (s *scene) wantState(state, id string) {
	s.t.Helper()
	task, _, err := s.Store.Task(s.ctx(), id)
	if must(s.t, err); string(task.State) != state {
		s.t.Errorf("%s is %s, want %s", id, task.State, state)
	}
}

// A task that its kind lets start goes by the rate of its key, also where other tasks with the key run or wait, and they start after it in their turn.
func kindAndRates(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKind(perKind{"mail": {MaxRunning: 1}}, jobs.KeyLimits{MaxRunning: 5, Rate: jobs.Rate{Count: 2, Per: time.Hour}, Burst: 2}, nil)
	task := func(kind, key string) string { return s.newTask(jobs.NewTask{Kind: kind, Key: key}) }
	first, a1, a2, a3, mail := task("mail", ""), task("push", "a"), task("push", "a"), task("push", "a"), task("mail", "a")
	s.starts("first", first, a1, a2)
	s.waitsFor(a3, reason.WaitsForKey, "the rate for tasks with this key")
	s.waitsFor(mail, reason.WaitsForKind, "kind mail")
	s.ends(first)
	s.starts("the kind is free, and the rate of the key is used up")
	s.waitsFor(mail, reason.WaitsForKey, "the rate for tasks with this key")
	s.idle("the rate is used up")
	s.passKeys(31 * time.Minute)
	s.ready("half an hour later", "work")
	s.starts("half an hour later", a3)
	s.passKeys(31 * time.Minute)
	s.starts("an hour later", mail)
	s.ends(a1, a2, a3, mail)
	s.wantInt(0, "SELECT COUNT(*) FROM {key_waits}")
}

// Tasks of a kind whose key is full do not hold up the others of the kind, nor do those of a full key hold up the pool, however little room the
// claim has.
func kindManyBehind(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKind(perKind{"mail": {MaxRunning: 1}}, jobs.KeyLimits{MaxRunning: 1}, nil)
	task := func(kind, key string) string { return s.newTask(jobs.NewTask{Kind: kind, Key: key}) }
	first, a := task("mail", ""), task("push", "a")
	s.starts("first", first, a)
	for range 40 {
		task("mail", "a")
	}
	last := task("mail", "b")
	if got := s.limitedClaim("work", 50); len(got.Tasks) > 0 {
		t.Fatalf("the kind is full, and %v start", ids(got.Tasks))
	}
	s.ends(first)
	claims := 0
	for ; claims < 10; claims++ {
		if got := s.limitedClaim("work", 1); len(got.Tasks) > 0 {
			if d := cmp.Diff([]string{last}, ids(got.Tasks)); d != "" {
				t.Error(d)
			}
			break
		}
	}
	if claims > 5 {
		t.Errorf("%d claims went by before the task behind 40 others started", claims)
	}
	for range 40 {
		task("push", "a")
	}
	next := task("push", "c")
	for claims = 0; claims < 10; claims++ {
		if got := s.limitedClaim("work", 1); len(got.Tasks) > 0 {
			if d := cmp.Diff([]string{next}, ids(got.Tasks)); d != "" {
				t.Error(d)
			}
			break
		}
	}
	if claims > 5 {
		t.Errorf("%d claims went by before the ready task behind 40 others started", claims)
	}
}

// Other limits hold for what waits, too, and none let it start.
func kindDefinitions(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKind(perKind{"mail": {MaxRunning: 1}}, jobs.KeyLimits{}, nil)
	k := s.ofKinds("mail", "mail", "mail", "mail", "mail", "mail")
	s.starts("one", k[0])
	s.perKind(perKind{"mail": {MaxRunning: 2}}, jobs.KeyLimits{}, nil)
	s.ready("two may", "work")
	s.starts("two may", k[1])
	s.perKind(perKind{"mail": {MaxRunning: 2}, "sms": {MaxRunning: 1}}, jobs.KeyLimits{MaxRunning: 7}, nil)
	s.starts("another limit")
	s.perKind(perKind{"mail": {Rate: jobs.Rate{Count: 1, Per: time.Hour}}}, jobs.KeyLimits{}, nil)
	s.starts("a rate", k[2])
	s.perKind(perKind{"mail": {Rate: jobs.Rate{Count: 1, Per: 2 * time.Hour}, Burst: 2}}, jobs.KeyLimits{}, nil)
	s.starts("a burst of two, of which one start lacks", k[3])
	s.starts("none is left")
	s.perKind(nil, jobs.KeyLimits{MaxRunning: 9}, nil)
	s.starts("limits by key alone", k[4], k[5])
	s.wantInt(0, "SELECT COUNT(*) FROM {key_waits}")

	s.perKind(perKind{"mail": {MaxRunning: 1}}, jobs.KeyLimits{}, nil)
	more := s.ofKinds("mail")
	s.starts("many run")
	s.perKind(nil, jobs.KeyLimits{}, nil)
	if got := s.claim("work", 20); len(got) != 1 || got[0].ID != more[0] {
		t.Errorf("no limits: %v, want %v", ids(got), more)
	}
	s.wantInt(0, "SELECT COUNT(*) FROM {key_waits}")
}

// What an owner does not say, since it claimed the task before its pool had limits, is found by looking again.
func kindUntold(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKind(perKind{"mail": {MaxRunning: 1}}, jobs.KeyLimits{}, nil)
	k := s.ofKinds("mail", "mail")
	s.starts("one", k[0])
	s.idle("it runs")
	task, _, err := s.Store.Task(s.ctx(), k[0])
	must(t, err)
	v := result(task, ledger.Ended, jobs.StateSucceeded)
	v.KindLimited = false
	if got := s.finish(v); got[0].Finish != ledger.Recorded {
		t.Fatalf("the result: %v", got[0].Finish)
	}
	s.passKeys(31 * time.Second)
	s.starts("30 seconds later", k[1])
}

// However many replicas claim, end and enqueue at the same time, no more tasks of one kind run than may, and all of them run.
func kindsTogether(t *testing.T, b *Bench) {
	const most = 2
	s := newScene(t, b)
	s.perKind(perKind{"0": {MaxRunning: most}, "1": {MaxRunning: most}, "2": {MaxRunning: most}}, jobs.KeyLimits{MaxRunning: 3}, nil)
	r := &running{now: map[string][]string{}, by: func(k jobs.Task) string { return k.Kind }}
	s.workTogether(r, most, func(n int) []jobs.NewTask {
		return []jobs.NewTask{{Kind: fmt.Sprint(n % 3)}, {Kind: fmt.Sprint(n % 2), Key: "a"}, {Key: "a"}}
	})
	s.wantInt(120, "SELECT COUNT(*) FROM {done} WHERE state='succeeded'")
	s.wantInt(0, "SELECT COUNT(*) FROM {key_waits}")
}
