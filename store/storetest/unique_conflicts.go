package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// The answer has the task as it is, in each of its states.
func uniqueKeep(t *testing.T, b *Bench) {
	s := newScene(t, b)
	u := jobs.Unique{By: []string{"kind"}}
	first := s.unique(u, jobs.NewTask{Kind: "k", Payload: 1, Priority: 3, Tags: []string{"a"}, By: "ann"})
	other := jobs.NewTask{Kind: "k", Payload: 2, Priority: 5, Tags: []string{"b"}, By: "bob", RunAt: time.Now().Add(time.Hour)}
	for _, state := range []jobs.State{jobs.StatePending, jobs.StateRunning} {
		got := s.again(string(state), u, other, first, true)
		task, _, err := s.Store.Task(s.ctx(), first.ID)
		must(t, err)
		if d := cmp.Diff(task, got.Task, cmpopts.EquateEmpty()); d != "" || got.State != state || string(got.Payload) != "1" || got.By != "ann" {
			t.Errorf("%s: %+v: %s", state, got, d)
		}
		s.claim("work", 1)
	}
	s.wantTasks(1)
}

// A pending task gets what the new one has; one that runs or has ended does not.
func uniqueReplace(t *testing.T, b *Bench) {
	s := newScene(t, b)
	u := jobs.Unique{By: []string{"kind"}, For: time.Hour, While: jobs.WhilePending, OnConflict: jobs.ConflictReplaces}
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	first := s.unique(u, jobs.NewTask{Kind: "k", Payload: 1, Priority: 3, Tags: []string{"a"}, By: "ann", RunAt: later})
	want := first.Task
	for i, n := range []jobs.NewTask{
		{Kind: "k", Payload: json.RawMessage(`{"n": 1e400}`), Priority: 5, Tags: []string{"b", "c d"}, RunAt: later.Add(time.Hour), ExpiresAt: later.Add(2 * time.Hour), By: "bob"},
		{Kind: "k", RunAt: later},
		{Kind: "k", Payload: 2},
	} {
		got := s.again(fmt.Sprint("change ", i), u, n, first, true)
		want.Priority, want.Tags, want.RunAt, want.ExpiresAt, want.Token = n.Priority, n.Tags, n.RunAt, n.ExpiresAt, want.Token+1
		n.Pool = "work"
		payload, err := n.Encode()
		must(t, err)
		want.Payload, want.PayloadSize = payload, len(payload)
		if n.RunAt.IsZero() {
			if age := time.Since(got.RunAt); age > time.Minute || age < -time.Minute {
				t.Errorf("due %v ago", age)
			}
			want.RunAt = got.RunAt
		}
		task, _, err := s.Store.Task(s.ctx(), first.ID)
		must(t, err)
		for what, is := range map[string]jobs.Task{"the answer": got.Task, "the row": task} {
			if d := cmp.Diff(want, is, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("%s after change %d: %s", what, i, d)
			}
		}
	}
	claimed := s.claim("work", 20)
	if len(claimed) != 1 || string(claimed[0].Payload) != "2" || claimed[0].Token != 4 {
		t.Fatalf("claimed %+v", claimed)
	}
	n := jobs.NewTask{Kind: "k", Payload: 3}
	if got := s.again("running", u, n, first, true); string(got.Payload) != "2" || got.State != jobs.StateRunning || got.Token != 4 {
		t.Errorf("one that runs was changed: %+v", got)
	}
	s.finish(result(claimed[0], ledger.Ended, jobs.StateSucceeded))
	if got := s.again("ended", u, n, first, true); string(got.Payload) != "2" || got.State != jobs.StateSucceeded {
		t.Errorf("one that has ended was changed: %+v", got)
	}
	s.DB.Exec(t, "UPDATE {unique_tasks} SET unique_until=0")
	s.again("its uniqueness is over", u, n, first, false)
	s.wantTasks(2)
}

// Kind and key of a task do not change. A replacement that would need that changes nothing.
func uniqueReplaceRefused(t *testing.T, b *Bench) {
	s := newScene(t, b)
	u := jobs.Unique{By: []string{"payload.id"}, OnConflict: jobs.ConflictReplaces}
	first := s.unique(u, jobs.NewTask{Kind: "a", Key: "1", Payload: json.RawMessage(`{"id":1,"n":1}`)})
	for _, n := range []jobs.NewTask{{Kind: "b", Key: "1"}, {Kind: "a", Key: "2"}, {Kind: "a"}} {
		n.Pool, n.Unique, n.Payload = "work", &u, json.RawMessage(`{"id":1,"n":2}`)
		for _, list := range [][]jobs.NewTask{{n}, {{Pool: "work", Payload: 9}, n}} {
			if _, err := s.Store.Enqueue(s.ctx(), list...); !errors.Is(err, jobs.ErrConflict) || !strings.Contains(err.Error(), first.ID) || !strings.Contains(err.Error(), `kind "a" and key "1"`) {
				t.Errorf("kind %q, key %q: %v", n.Kind, n.Key, err)
			}
		}
	}
	s.want("the task", s.task(first.ID), "ready attempt 0 token 0 replica -: -")
	s.wantTasks(1)
	s.claim("work", 1)
	s.again("running", u, jobs.NewTask{Kind: "b", Payload: json.RawMessage(`{"id":1}`)}, first, true)
}

// A replacement of a task that waits for its locks or for a retry is as a change of it: it asks anew, and is due when the new one is.
func uniqueReplaceWaiting(t *testing.T, b *Bench) {
	s := newScene(t, b)
	u := jobs.Unique{By: []string{"kind"}, OnConflict: jobs.ConflictReplaces}
	first := s.unique(u, jobs.NewTask{Kind: "k"})
	if got := s.locking("work", map[string]ledger.Locking{first.ID: busy("user/a")}); len(got.Waiting) != 1 {
		t.Fatalf("%+v", got)
	}
	s.again("waits for its locks", u, jobs.NewTask{Kind: "k", Payload: 2}, first, true)
	s.want("replaced", s.task(first.ID), "ready attempt 0 token 1 replica -: -")
	s.wantInt(0, "SELECT COUNT(*) FROM {lock_waits}")
	claimed := s.claim("work", 1)
	r := result(claimed[0], ledger.Again, jobs.StateFailed)
	r.RetryIn, r.Reason = time.Hour, "exit status 3"
	s.finish(r)
	s.again("waits for its retry", u, jobs.NewTask{Kind: "k", Payload: 3}, first, true)
	s.want("replaced again", s.task(first.ID), "ready attempt 1 token 3 replica -: exit status 3")

	s.perKey(jobs.KeyLimits{MaxRunning: 1}, "")
	by := jobs.Unique{By: []string{"kind"}, OnConflict: jobs.ConflictReplaces}
	running := s.newTask(jobs.NewTask{Key: "a", Priority: 100})
	waits := s.unique(by, jobs.NewTask{Kind: "keyed", Key: "a"})
	s.DB.Exec(t, "DELETE FROM {tasks} WHERE id=?", first.ID)
	s.starts("one of the key", running)
	if _, is := sqlOf(b.Store); is { // others have no such state
		s.want("behind it", s.DB.Text(t, "SELECT state FROM {tasks} WHERE id=?", waits.ID), "4")
	}
	s.again("waits for its key", by, jobs.NewTask{Kind: "keyed", Key: "a", Payload: 1}, waits, true)
	s.want("replaced", s.task(waits.ID), "ready attempt 0 token 1 replica -: -")
	s.wantInt(0, "SELECT COUNT(*) FROM {key_waits}")
}

func uniqueReject(t *testing.T, b *Bench) {
	s := newScene(t, b)
	u := jobs.Unique{By: []string{"kind", "payload.id"}, OnConflict: jobs.ConflictRejects}
	n := jobs.NewTask{Pool: "work", Kind: "k", Payload: json.RawMessage(`{"id":1}`), Unique: &u}
	first := Enqueue(t, b, n)[0]
	for _, list := range [][]jobs.NewTask{{n}, {newTask("work"), n}, {n, newTask("work")}} {
		_, err := s.Store.Enqueue(s.ctx(), list...)
		if !errors.Is(err, jobs.ErrConflict) || errors.Is(err, jobs.ErrUnavailable) || !strings.Contains(err.Error(), first.ID) || !strings.Contains(err.Error(), "kind, payload.id") {
			t.Errorf("%d tasks: %v", len(list), err)
		}
	}
	s.wantTasks(1)
	_, err := s.Store.Cancel(s.ctx(), first.ID, "")
	must(t, err)
	if Enqueue(t, b, n)[0].Existed {
		t.Error("the first has ended")
	}
}

// Of one list the first is added, and the others do what they say.
func uniqueInOneList(t *testing.T, b *Bench) {
	s := newScene(t, b)
	task := func(payload int, on jobs.OnConflict) jobs.NewTask {
		return jobs.NewTask{Pool: "work", Kind: "k", Payload: payload, Priority: payload, Tags: []string{fmt.Sprint(payload)}, Unique: &jobs.Unique{By: []string{"kind"}, OnConflict: on}}
	}
	other := jobs.NewTask{Pool: "default", Kind: "k", Payload: 7, Unique: &jobs.Unique{By: []string{"kind"}}}
	for range 2 { // new ones, and then one that exists
		for _, last := range []jobs.OnConflict{jobs.ConflictKeeps, jobs.ConflictReplaces} {
			all := Enqueue(t, b, task(1, ""), other, task(2, jobs.ConflictReplaces), newTask("work"), task(3, last))
			want := map[jobs.OnConflict]string{jobs.ConflictKeeps: "2", jobs.ConflictReplaces: "3"}[last]
			row, _, err := s.Store.Task(s.ctx(), all[0].ID)
			must(t, err)
			for _, i := range []int{0, 2, 4} {
				if d := cmp.Diff(row, all[i].Task, cmpopts.EquateEmpty()); d != "" {
					t.Errorf("answer %d is not the row: %s", i, d)
				}
			}
			if string(row.Payload) != want || fmt.Sprint(row.Priority) != want || len(row.Tags) != 1 || row.Tags[0] != want || !all[2].Existed || !all[4].Existed || all[1].ID == row.ID {
				t.Errorf("last %s: %+v", last, row)
			}
			if age := time.Since(row.RunAt); age > time.Minute || age < -time.Minute {
				t.Errorf("due %v ago", age)
			}
			if all[3].Existed || all[3].ID == row.ID {
				t.Errorf("a task beside them is %+v", all[3])
			}
		}
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {tasks} WHERE pool='work' AND kind='k'")
	s.wantInt(1, "SELECT COUNT(*) FROM {tasks} WHERE pool='default' AND kind='k'")
	s.DB.Exec(t, "DELETE FROM {tasks}")
	s.DB.Exec(t, "DELETE FROM {unique_tasks}")
	if _, err := s.Store.Enqueue(s.ctx(), task(1, ""), task(2, jobs.ConflictRejects)); !errors.Is(err, jobs.ErrConflict) || !strings.Contains(err.Error(), "of the list") {
		t.Errorf("the second is rejected: %v", err)
	}
	if _, err := s.Store.Enqueue(s.ctx(), task(1, jobs.ConflictRejects), jobs.NewTask{Pool: "work", Kind: "k", Key: "other", Unique: &jobs.Unique{By: []string{"kind"}, OnConflict: jobs.ConflictReplaces}}); !errors.Is(err, jobs.ErrConflict) || !strings.Contains(err.Error(), "of the list") {
		t.Errorf("the second has another key: %v", err)
	}
	s.wantTasks(0)
	s.wantInt(0, "SELECT COUNT(*) FROM {unique_tasks}")
}

// The idempotency key is judged first. One whose task met another stands for that.
func uniqueIdempotencyKey(t *testing.T, b *Bench) {
	s := newScene(t, b)
	u := jobs.Unique{By: []string{"kind"}}
	keyed := func(key string, payload int) jobs.NewTask {
		return jobs.NewTask{Kind: "k", Payload: payload, IdempotencyKey: key}
	}
	first := s.unique(u, keyed("a", 1))
	s.again("another key", u, keyed("b", 2), first, true)
	s.again("that key again", u, keyed("b", 2), first, true)
	if _, err := s.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: "work", Kind: "k", Payload: 3, IdempotencyKey: "b"}); !errors.Is(err, jobs.ErrConflict) {
		t.Errorf("another body: %v", err)
	}
	s.finish(result(s.claim("work", 1)[0], ledger.Ended, jobs.StateSucceeded))
	for _, key := range []string{"a", "b"} { // not unique any more, but the keys stand for it
		s.again("key "+key, u, keyed(key, map[string]int{"a": 1, "b": 2}[key]), first, true)
	}
	reject := jobs.Unique{By: []string{"kind"}, OnConflict: jobs.ConflictRejects}
	second := s.again("a third key", reject, keyed("c", 3), first, false)
	s.again("that key once more", reject, keyed("c", 3), second, true)
	n := keyed("d", 4)
	n.Pool, n.Unique = "work", &reject
	if _, err := s.Store.Enqueue(s.ctx(), n); !errors.Is(err, jobs.ErrConflict) {
		t.Errorf("a fourth key: %v", err)
	}
	s.wantInt(3, "SELECT COUNT(*) FROM {idempotency}")
	n.Unique = &u
	all := Enqueue(t, b, n, n)
	if all[0].ID != second.ID || all[1].ID != second.ID || !all[0].Existed || !all[1].Existed {
		t.Errorf("twice in a list: %+v", all)
	}
	s.wantTasks(2)
}
