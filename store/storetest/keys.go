package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

var keyCases = []Case{
	{"Keys/MaxRunning", keyMaxRunning},
	{"Keys/Several", keySeveral},
	{"Keys/Ends", keyEnds},
	{"Keys/Precedence", keyPrecedence},
	{"Keys/Room", keyRoom},
	{"Keys/Definitions", keyDefinitions},
	{"Keys/ManyBehind", keyManyBehind},
	{"Keys/Idle", keyIdle},
}

// perKey gives pool work other limits and another order of the tasks with one key, as a replica does that has loaded another definition.
func (s *scene) perKey(limits jobs.KeyLimits, order jobs.Order) {
	s.t.Helper()
	d := definitions()
	for i := range d.Pools {
		if d.Pools[i].Name == "work" {
			d.Pools[i].PerKey, d.Pools[i].Order = limits, order
		}
	}
	if got, err := s.Store.Assert(s.ctx(), s.session, d); err != nil || !got.Governs {
		s.t.Fatalf("assert: %+v, %v", got, err)
	}
}

// keyed enqueues a task for each key, in this order; "" is none. The ids are in the order of claims, whatever the machine's clock says.
func (s *scene) keyed(keys ...string) []string {
	s.t.Helper()
	var ids []string
	for _, key := range keys {
		ids = append(ids, s.newTask(jobs.NewTask{Key: key}))
	}
	return ids
}

// newTask enqueues one in pool work.
func (s *scene) newTask(n jobs.NewTask) string {
	s.t.Helper()
	n.Pool = "work"
	made, err := s.Store.Enqueue(s.ctx(), n)
	must(s.t, err)
	if made[0].Key != n.Key {
		s.t.Errorf("a task with key %q has key %q", n.Key, made[0].Key)
	}
	return made[0].ID
}

// starts claims what pool work has, and wants these tasks.
func (s *scene) starts(when string, want ...string) {
	s.t.Helper()
	got := s.limitedClaim("work", 20)
	if d := cmp.Diff(want, ids(got.Tasks)); d != "" {
		s.t.Errorf("%s: %s", when, d)
	}
	if !got.Limited || !got.ByKey {
		s.t.Errorf("%s: limited %v, by key %v", when, got.Limited, got.ByKey)
	}
}

// freed claims what pool work has, and wants these tasks, which had waited for their keys.
func (s *scene) freed(when string, want ...string) {
	s.t.Helper()
	got := s.limitedClaim("work", 20)
	if d := cmp.Diff(want, ids(got.Tasks)); d != "" || got.Freed != len(want) {
		s.t.Errorf("%s: %d freed: %s", when, got.Freed, d)
	}
}

// idle wants the pool to have no work: that claims start nothing, and that after a few looks at what waits none is worth one.
func (s *scene) idle(when string) {
	s.t.Helper()
	for range 5 {
		if is, err := s.Store.Ready(s.ctx(), asIs); err == nil && len(is.Pools) == 0 {
			return
		}
		s.starts(when)
	}
	s.ready(when)
}

// ends has running tasks succeed.
func (s *scene) ends(tasks ...string) {
	s.t.Helper()
	for _, id := range tasks {
		task, _, err := s.Store.Task(s.ctx(), id)
		must(s.t, err)
		if got := s.finish(result(task, ledger.Ended, jobs.StateSucceeded)); got[0].Finish != ledger.Recorded {
			s.t.Errorf("the result of %s: %v", id, got[0].Finish)
		}
	}
}

// waitsForKey wants a pending task that says that it waits for its key.
func (s *scene) waitsForKey(id, because string) {
	s.t.Helper()
	task, _, err := s.Store.Task(s.ctx(), id)
	must(s.t, err)
	if task.State != jobs.StatePending || task.ReasonCode != reason.WaitsForKey || !strings.Contains(task.Reason, because) {
		s.t.Errorf("%s, %s: %q, want %s: %q", task.State, task.ReasonCode, task.Reason, reason.WaitsForKey, because)
	}
}

// As many tasks of one key run as may, in all replicas, and those behind them do not hold up others. While all keys are full the pool has no
// work, and an end makes it so.
func keyMaxRunning(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	s.perKey(jobs.KeyLimits{MaxRunning: 2}, "")
	k := s.keyed("a", "a", "a", "b", "", "a", "")
	got := s.limitedClaim("work", 20)
	if d := cmp.Diff([]string{k[0], k[1], k[3], k[4], k[6]}, ids(got.Tasks)); d != "" || got.Behind != 2 || got.Freed != 0 || got.Full {
		t.Errorf("behind %d, full %v: %s", got.Behind, got.Full, d)
	}
	s.waitsForKey(k[2], "run as may at once: 2")
	s.idle("all keys are full")
	other.starts("all keys are full")
	s.ends(k[4], k[3])
	other.starts("others have ended")
	s.ends(k[1])
	s.ready("one has ended", "work")
	other.freed("one has ended", k[2])
	other.starts("it runs")
	s.idle("it runs")
	task, _, err := b.Store.Task(s.ctx(), k[2])
	if must(t, err); task.Reason != "" || task.ReasonCode != "" || task.Attempt != 1 {
		t.Errorf("it runs, attempt %d, for %s: %s", task.Attempt, task.ReasonCode, task.Reason)
	}
	s.ends(k[0])
	other.ends(k[2])
	s.starts("two have ended", k[5])
	s.ends(k[5], k[6])
	s.wantInt(0, "SELECT COUNT(*) FROM {tasks}")
	s.wantInt(0, "SELECT COUNT(*) FROM {key_waits}")
	s.ready("nothing is left")
}

// Several ends of one key let as many start, in one claim.
func keySeveral(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{MaxRunning: 3}, "")
	k := s.keyed("a", "a", "a", "a", "a", "a", "a", "b", "b", "b", "b", "b")
	s.starts("first", k[0], k[1], k[2], k[7], k[8], k[9])
	s.ends(k[0], k[1], k[2], k[8])
	s.starts("four have ended", k[3], k[4], k[5], k[10])
	s.ends(k[3])
	s.ends(k[4], k[5], k[7], k[9], k[10])
	s.starts("all have ended", k[6], k[11])
}

// Whatever makes a task run no more, or wait for its key no more, lets the next one start.
func keyEnds(t *testing.T, b *Bench) {
	for _, c := range []struct {
		name string
		do   func(s *scene, running jobs.Task) // the task with the key starts another time, if at all
	}{
		{"it succeeds", func(s *scene, k jobs.Task) { s.finish(result(k, ledger.Ended, jobs.StateSucceeded)) }},
		{"it is retried later", func(s *scene, k jobs.Task) {
			r := result(k, ledger.Again, jobs.StateFailed)
			r.RetryIn = time.Hour
			s.finish(r)
		}},
		{"it is put off", func(s *scene, k jobs.Task) {
			s.finish(ledger.Result{TaskID: k.ID, Token: k.Token, Verdict: ledger.Snoozed, RetryIn: time.Hour, State: jobs.StatePending})
		}},
		{"its replica is dead", func(s *scene, k jobs.Task) {
			s.die()
			if got := s.reap(); len(got) != 1 {
				s.t.Errorf("reaped %d", len(got))
			}
			s.session = s.join("again")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, b)
			defer s.die()
			s.DB.Exec(t, "DELETE FROM {tasks}")
			s.DB.Exec(t, "DELETE FROM {key_waits}")
			s.perKey(jobs.KeyLimits{MaxRunning: 1}, "")
			k := s.keyed("a", "a", "a", "a")
			s.starts("first", k[0])
			// Those that wait end, or change, and the others go on waiting.
			_, err := b.Store.Cancel(s.ctx(), k[1], "")
			must(t, err)
			s.update(k[2], wire.TaskChange{Tags: &[]string{"x"}})
			s.waitsForKey(k[2], "")
			s.starts("nothing has ended")
			task, _, err := b.Store.Task(s.ctx(), k[0])
			must(t, err)
			c.do(s, task)
			s.ready("it has ended", "work")
			s.starts("it has ended", k[2])
			later := time.Now().Add(time.Hour)
			s.update(k[3], wire.TaskChange{RunAt: &later})
			s.ends(k[2])
			s.starts("the rest waits for its time")
			now := time.Now().Add(-time.Minute)
			s.update(k[3], wire.TaskChange{RunAt: &now})
			s.starts("the rest is due", k[3])
		})
	}
}

// Among the tasks that wait for a key the one with the largest priority starts first, then the one that is due first; and they do not come
// before others with a larger priority.
func keyPrecedence(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{MaxRunning: 1}, "")
	k := s.keyed("a", "a", "a")
	s.starts("first", k[0])
	high := s.newTask(jobs.NewTask{Key: "a", Priority: 5})
	s.starts("a larger priority waits as well")
	s.ends(k[0])
	other := s.newTask(jobs.NewTask{Key: "b", Priority: 9})
	s.starts("by priority", other, high)
	s.ends(high)
	s.update(k[2], wire.TaskChange{Priority: new(1)})
	s.starts("a changed priority counts", k[2])
	s.ends(k[2])
	s.starts("the last", k[1])
}

// What a replica has no room for goes on waiting, and the pool goes on having work.
func keyRoom(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{MaxRunning: 2}, "")
	k := s.keyed("a", "a", "a", "a", "b", "b", "b", "b")
	s.starts("first", k[0], k[1], k[4], k[5])
	s.ends(k[0], k[1], k[4], k[5])
	var all []string
	for i := range 4 {
		s.ready(fmt.Sprint("claim ", i), "work")
		got := s.limitedClaim("work", 1)
		all = append(all, ids(got.Tasks)...)
	}
	slices.Sort(all)
	want := []string{k[2], k[3], k[6], k[7]}
	slices.Sort(want)
	if d := cmp.Diff(want, all); d != "" {
		t.Error(d)
	}
	s.starts("all run")
}

// Other limits hold from the next claim on, for the tasks that wait, too. What a rate has started counts on.
func keyDefinitions(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{MaxRunning: 1}, "")
	k := s.keyed("a", "a", "a", "a", "a", "a", "a", "a")
	s.starts("one at once", k[0])
	s.perKey(jobs.KeyLimits{MaxRunning: 3}, "")
	s.starts("three at once", k[1], k[2])
	s.perKey(jobs.KeyLimits{MaxRunning: 2}, "")
	s.starts("two at once")
	s.ends(k[0], k[1])
	s.starts("one runs", k[3])
	s.ends(k[2], k[3])
	s.perKey(jobs.KeyLimits{Rate: jobs.Rate{Count: 1, Per: time.Hour}}, "")
	s.starts("one in an hour", k[4])
	s.perKey(jobs.KeyLimits{Rate: jobs.Rate{Count: 1, Per: 2 * time.Hour}, Burst: 2}, "")
	s.starts("what has started counts", k[5])
	s.starts("what has started counts")
	s.perKey(jobs.KeyLimits{}, "")
	if d := cmp.Diff([]string{k[6], k[7]}, ids(s.claim("work", 10))); d != "" {
		t.Errorf("without limits: %s", d)
	}
	s.wantInt(0, "SELECT COUNT(*) FROM {key_waits}")
}

// However many tasks wait for one key, those with other keys start after a few claims, and no claim looks at those that wait again.
func keyManyBehind(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{MaxRunning: 1}, "")
	var many []jobs.NewTask
	for range 300 {
		many = append(many, jobs.NewTask{Pool: "work", Key: "a"})
	}
	made, err := b.Store.Enqueue(s.ctx(), many...)
	must(t, err)
	last := s.newTask(jobs.NewTask{Key: "b"})
	behind := 0
	for claims := 1; ; claims++ {
		got := s.limitedClaim("work", 100)
		behind += got.Behind
		if slices.Contains(ids(got.Tasks), last) {
			break
		}
		if !got.More || claims > 5 {
			t.Fatalf("after %d claims: %d started, %d behind, more %v", claims, len(got.Tasks), got.Behind, got.More)
		}
	}
	if behind != 299 {
		t.Errorf("%d tasks are behind another", behind)
	}
	got := s.limitedClaim("work", 100)
	if len(got.Tasks) > 0 || got.Behind > 0 || got.More {
		t.Errorf("%d started, %d behind, more %v", len(got.Tasks), got.Behind, got.More)
	}
	s.ends(made[0].ID)
	s.starts("the next", made[1].ID)
}

// The same for a worker that asks for one task at a time: claims that find all that they look at behind others look at many more.
func keyIdle(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{MaxRunning: 1}, "")
	s.many("a", 1300)
	last := s.newTask(jobs.NewTask{Key: "b"})
	behind := s.limitedClaim("work", 1).Behind
	for claims := 1; ; claims++ {
		got := s.limitedClaim("work", 1)
		behind += got.Behind
		if slices.Contains(ids(got.Tasks), last) {
			break
		}
		if !got.More || claims > 5 {
			t.Fatalf("after %d claims: %d started, %d behind, more %v", claims, len(got.Tasks), got.Behind, got.More)
		}
	}
	if behind != 1299 {
		t.Errorf("%d tasks are behind another", behind)
	}
}
