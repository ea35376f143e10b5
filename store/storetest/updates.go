package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

var updateCases = []Case{
	{"Update/Fields", updateFields},
	{"Update/Due", updateDue},
	{"Update/Order", updateOrder},
	{"Update/Refused", updateRefused},
	{"Update/Locked", updateLocked},
	{"Update/Key", updateKey},
	{"Update/Races", updateRaces},
	{"Update/Own", updateOwn},
}

func (s *scene) update(id string, c wire.TaskChange) jobs.Task {
	s.t.Helper()
	task, err := s.Store.UpdateTask(s.ctx(), id, c)
	must(s.t, err)
	return task
}

// A change sets what it names, and leaves the rest. The answer is the row, whose token is larger.
func updateFields(t *testing.T, b *Bench) {
	s := newScene(t, b)
	made, err := b.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: "work", Payload: 1, Priority: 7, Tags: []string{"a"}, RunAt: time.Now().Add(time.Hour), By: "ann"})
	must(t, err)
	want, pools := made[0].Task, made[0].Task.MaxAttempts
	later := want.RunAt.Add(time.Hour)
	for _, c := range []struct {
		change wire.TaskChange
		apply  func(*jobs.Task)
	}{
		{wire.TaskChange{Priority: new(-3)}, func(k *jobs.Task) { k.Priority = -3 }},
		{wire.TaskChange{Payload: json.RawMessage(`{"n": 1e400}`)}, func(k *jobs.Task) { k.Payload, k.PayloadSize = json.RawMessage(`{"n":1e400}`), 11 }},
		{wire.TaskChange{Tags: &[]string{"b", "c d"}}, func(k *jobs.Task) { k.Tags = []string{"b", "c d"} }},
		{wire.TaskChange{RunAt: &later}, func(k *jobs.Task) { k.RunAt = later }},
		{wire.TaskChange{Tags: &[]string{}}, func(k *jobs.Task) { k.Tags = nil }},
		{wire.TaskChange{MaxAttempts: new(9)}, func(k *jobs.Task) { k.MaxAttempts, k.OwnAttempts = 9, 9 }},
		{wire.TaskChange{Timeout: new(jobs.Duration(90 * time.Second))}, func(k *jobs.Task) { k.Timeout = jobs.Duration(90 * time.Second) }},
		{wire.TaskChange{Backoff: new(jobs.Duration(time.Millisecond))}, func(k *jobs.Task) { k.Backoff = jobs.Duration(time.Millisecond) }},
		{wire.TaskChange{MaxAttempts: new(0)}, func(k *jobs.Task) { k.MaxAttempts, k.OwnAttempts = pools, 0 }},
		{wire.TaskChange{Timeout: new(jobs.Duration(0)), Backoff: new(jobs.Duration(0))}, func(k *jobs.Task) { k.Timeout, k.Backoff = 0, 0 }},
		{wire.TaskChange{Priority: new(0), Payload: json.RawMessage(`null`)}, func(k *jobs.Task) { k.Priority, k.Payload, k.PayloadSize = 0, json.RawMessage(`null`), 4 }},
	} {
		got := s.update(want.ID, c.change)
		c.apply(&want)
		want.Token++
		row, _, err := b.Store.Task(s.ctx(), want.ID)
		must(t, err)
		for what, is := range map[string]jobs.Task{"the answer": got, "the row": row} {
			if len(is.Tags) == 0 {
				is.Tags = nil
			}
			if d := cmp.Diff(want, is); d != "" {
				t.Errorf("%s after %+v: %s", what, c.change, d)
			}
		}
	}
}

// A task whose time has been moved is claimed then, and not before; one that waits for a retry is retried when the change says.
func updateDue(t *testing.T, b *Bench) {
	s := newScene(t, b)
	later, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	id := s.enqueue("work", 1)[0]
	s.update(id, wire.TaskChange{RunAt: &later})
	s.want("later", s.task(id), "waits attempt 0 token 1 replica -: -")
	if got := s.claim("work", 1); len(got) > 0 {
		t.Fatal("claimed before its time")
	}
	for _, now := range []time.Time{past, {}} {
		s.update(id, wire.TaskChange{RunAt: &later})
		task := s.update(id, wire.TaskChange{RunAt: &now})
		if age := time.Since(task.RunAt); age > time.Minute || age < -time.Minute {
			t.Errorf("moved to %v it is due %v ago", now, age)
		}
	}
	task := s.claim("work", 1)[0]
	if task.Token != 6 || task.Attempt != 1 {
		t.Errorf("claimed %+v", task)
	}
	s.finish(ledger.Result{TaskID: id, Token: task.Token, Verdict: ledger.Again, State: jobs.StateFailed, RetryIn: time.Hour, Reason: "exit status 3", Error: "boom"})
	s.update(id, wire.TaskChange{Priority: new(1)})
	s.want("with its retry", s.task(id), "waits attempt 1 token 7 replica -: exit status 3")
	s.update(id, wire.TaskChange{RunAt: new(time.Time)})
	s.want("retried now", s.task(id), "ready attempt 1 token 8 replica -: exit status 3")
	if got := s.claim("work", 1); len(got) != 1 || got[0].Attempt != 2 {
		t.Errorf("claimed %+v", got)
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {attempts} WHERE error='boom'")
}

// Priority and time decide the order of claims as those of new tasks do.
func updateOrder(t *testing.T, b *Bench) {
	s := newScene(t, b)
	made := s.enqueue("work", 4)
	s.update(made[2], wire.TaskChange{Priority: new(5)})
	s.update(made[3], wire.TaskChange{Priority: new(9)})
	s.update(made[0], wire.TaskChange{Priority: new(-1)})
	var got []string
	for _, task := range s.claim("work", 4) {
		got = append(got, task.ID)
	}
	if d := cmp.Diff([]string{made[3], made[2], made[1], made[0]}, got); d != "" {
		t.Error(d)
	}
}

// The next attempt is claimed with the retries, timeout and backoff of the change, or with the pool's again. A task cannot have fewer attempts
// than it has had; those that were lost do not count.
func updateOwn(t *testing.T, b *Bench) {
	s := newScene(t, b)
	id := s.enqueue("again", 1)[0]
	s.update(id, wire.TaskChange{MaxAttempts: new(7), Timeout: new(jobs.Duration(time.Minute)), Backoff: new(jobs.Duration(time.Second))})
	pools := 0
	again := func() {
		t.Helper()
		task := s.claim("again", 1)[0]
		if task.MaxAttempts != 7 || task.OwnAttempts != 7 || task.Timeout != jobs.Duration(time.Minute) || task.Backoff != jobs.Duration(time.Second) {
			t.Errorf("claimed with %+v", task)
		}
		s.finish(ledger.Result{TaskID: id, Token: task.Token, Verdict: ledger.Again, State: jobs.StateFailed, Error: "boom"})
		s.update(id, wire.TaskChange{RunAt: new(time.Time)})
	}
	again()
	again()
	for _, n := range []int{1, 2} {
		_, err := b.Store.UpdateTask(s.ctx(), id, wire.TaskChange{MaxAttempts: &n})
		if wrong, is := errors.AsType[*jobs.FieldError](err); !errors.Is(err, jobs.ErrInvalid) || !is || wrong.Path != "max_attempts" {
			t.Errorf("%d attempts after two: %v", n, err)
		}
	}
	if task := s.update(id, wire.TaskChange{MaxAttempts: new(3)}); task.MaxAttempts != 3 || task.Attempt != 2 {
		t.Errorf("three attempts after two: %+v", task)
	}
	s.claim("again", 1)
	living := s.second("living")
	s.die()
	living.reap()
	if _, err := b.Store.UpdateTask(s.ctx(), id, wire.TaskChange{MaxAttempts: new(3), RunAt: new(time.Time)}); err != nil {
		t.Errorf("three attempts after two and a lost one: %v", err)
	}
	s.update(id, wire.TaskChange{MaxAttempts: new(0), Timeout: new(jobs.Duration(0)), Backoff: new(jobs.Duration(0))})
	fresh := living.enqueue("again", 1)[0]
	for _, task := range living.claim("again", 2) {
		if task.ID == fresh {
			pools = task.MaxAttempts
		} else if task.ID != id || task.OwnAttempts != 0 || task.Timeout != 0 || task.Backoff != 0 {
			t.Errorf("claimed with %+v", task)
		}
	}
	task, _, err := b.Store.Task(s.ctx(), id)
	must(t, err)
	if pools == 0 || task.MaxAttempts != pools {
		t.Errorf("after the reset it has %d attempts, the pool %d", task.MaxAttempts, pools)
	}
}

// Only a pending task of a pool is changed. What is refused changes nothing.
func updateRefused(t *testing.T, b *Bench) {
	s := newScene(t, b)
	got, err := s.decide(run("a", due(1), false))
	must(t, err)
	made := s.enqueue("work", 3)
	running := s.claim("work", 2)
	s.finish(result(running[1], ledger.Ended, jobs.StateSucceeded))
	states := s.state(made[2]) + s.state(running[0].ID) + s.state(got.Opened[0].ID)
	one := wire.TaskChange{Priority: new(1)}
	for what, c := range map[string]struct {
		id     string
		change wire.TaskChange
		want   error
	}{
		"none":           {newID(), one, jobs.ErrNotFound},
		"running":        {running[0].ID, one, jobs.ErrConflict},
		"ended":          {running[1].ID, one, jobs.ErrConflict},
		"of a job":       {got.Opened[0].ID, one, jobs.ErrConflict},
		"nothing":        {made[2], wire.TaskChange{}, jobs.ErrInvalid},
		"a bad priority": {made[2], wire.TaskChange{Priority: new(101)}, jobs.ErrInvalid},
		"a bad payload":  {made[2], wire.TaskChange{Payload: json.RawMessage(`{`)}, jobs.ErrInvalid},
		"a bad tag":      {made[2], wire.TaskChange{Tags: &[]string{""}}, jobs.ErrInvalid},
		"bad attempts":   {made[2], wire.TaskChange{MaxAttempts: new(1002)}, jobs.ErrInvalid},
		"a bad timeout":  {made[2], wire.TaskChange{Timeout: new(jobs.Duration(time.Microsecond))}, jobs.ErrInvalid},
		"a bad backoff":  {made[2], wire.TaskChange{Backoff: new(jobs.Duration(-time.Second))}, jobs.ErrInvalid},
		"a bad time":     {made[2], wire.TaskChange{RunAt: new(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))}, jobs.ErrInvalid},
	} {
		if _, err := b.Store.UpdateTask(s.ctx(), c.id, c.change); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
	}
	if now := s.state(made[2]) + s.state(running[0].ID) + s.state(got.Opened[0].ID); now != states {
		t.Errorf("changed to %s, from %s", now, states)
	}
}

// A task that waits for locks asks for them anew, since its payload may name others and its place among those that wait is another;
// its tags alone change neither.
func updateLocked(t *testing.T, b *Bench) {
	s := newScene(t, b)
	now, later := time.Time{}, time.Now().Add(time.Hour)
	for what, c := range map[string]struct {
		change wire.TaskChange
		want   string
	}{
		"tags":     {wire.TaskChange{Tags: &[]string{"x"}}, "3 attempt 0 token 1 replica -: waits for lock user/a, held by x"},
		"priority": {wire.TaskChange{Priority: new(1)}, "ready attempt 0 token 1 replica -: -"},
		"payload":  {wire.TaskChange{Payload: json.RawMessage(`1`)}, "ready attempt 0 token 1 replica -: -"},
		"now":      {wire.TaskChange{RunAt: &now}, "ready attempt 0 token 1 replica -: -"},
		"later":    {wire.TaskChange{RunAt: &later}, "waits attempt 0 token 1 replica -: -"},
	} {
		id := s.enqueue("work", 1)[0]
		if got := s.locking("work", map[string]ledger.Locking{id: busy("user/a")}); len(got.Waiting) != 1 {
			t.Fatalf("%s: %+v", what, got)
		}
		s.update(id, c.change)
		s.want(what, s.task(id), c.want)
		waits := int64(0)
		if what == "tags" {
			waits = 1
		}
		s.wantInt(waits, "SELECT COUNT(*) FROM {lock_waits} WHERE task_id=?", id)
		_, err := b.Store.Cancel(s.ctx(), id, "")
		must(t, err)
	}
}

// The idempotency key stands for what was enqueued.
func updateKey(t *testing.T, b *Bench) {
	s := newScene(t, b)
	task := jobs.NewTask{Pool: "work", Payload: 1, IdempotencyKey: "k"}
	made, err := b.Store.Enqueue(s.ctx(), task)
	must(t, err)
	s.update(made[0].ID, wire.TaskChange{Payload: json.RawMessage(`2`)})
	again, err := b.Store.Enqueue(s.ctx(), task)
	must(t, err)
	if !again[0].Existed || again[0].ID != made[0].ID || string(again[0].Payload) != "2" {
		t.Errorf("%+v", again[0])
	}
	task.Payload = 2
	if _, err := b.Store.Enqueue(s.ctx(), task); !errors.Is(err, jobs.ErrConflict) {
		t.Errorf("with the changed payload: %v", err)
	}
}

// While replicas claim, each change is made whole and before the claim, or is refused: what was claimed has the last change that was
// acknowledged, and no other.
func updateRaces(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	made := s.enqueue("work", 60)
	var mu sync.Mutex
	acknowledged := map[string]int{}
	var all sync.WaitGroup
	for worker := range 3 {
		all.Go(func() {
			for n := 1; n <= 8; n++ {
				for i, id := range made {
					if i%3 != worker {
						continue
					}
					at := n
					_, err := b.Store.UpdateTask(s.ctx(), id, wire.TaskChange{Priority: &at, Payload: json.RawMessage(fmt.Sprint(n)), Tags: &[]string{fmt.Sprint(n)}})
					switch {
					case err == nil:
						mu.Lock()
						acknowledged[id] = n
						mu.Unlock()
					case !errors.Is(err, jobs.ErrConflict):
						t.Errorf("update: %v", err)
					}
				}
			}
		})
	}
	claimed := map[string]jobs.Task{}
	some := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(acknowledged) > 10
	}
	await.Until(t, "some changes are acknowledged", some)
	for _, by := range []*scene{s, other} {
		all.Go(func() {
			for {
				got := by.claim("work", 3)
				mu.Lock()
				for _, task := range got {
					if _, twice := claimed[task.ID]; twice {
						t.Errorf("claimed twice: %s", task.ID)
					}
					claimed[task.ID] = task
				}
				n := len(claimed)
				mu.Unlock()
				if n >= len(made) || t.Failed() {
					return
				}
			}
		})
	}
	all.Wait()
	for id, task := range claimed {
		row, _, err := b.Store.Task(s.ctx(), id)
		must(t, err)
		row.StartedAt, task.StartedAt = time.Time{}, time.Time{}
		if d := cmp.Diff(row, task); d != "" {
			t.Errorf("the claim says other than the row: %s", d)
		}
		n := acknowledged[id]
		want := fmt.Sprint(n)
		if n > 0 && (string(task.Payload) != want || task.Priority != n || len(task.Tags) != 1 || task.Tags[0] != want) {
			t.Errorf("claimed with priority %d, payload %s, tags %v; the last change was %d", task.Priority, task.Payload, task.Tags, n)
		}
	}
}
