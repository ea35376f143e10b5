package storetest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var uniqueCases = []Case{
	{"Unique/Rows", uniqueRows},
	{"Unique/By", uniqueBy},
	{"Unique/Pending", uniquePending},
	{"Unique/Open", uniqueOpen},
	{"Unique/For", uniqueFor},
	{"Unique/Keep", uniqueKeep},
	{"Unique/Replace", uniqueReplace},
	{"Unique/ReplaceRefused", uniqueReplaceRefused},
	{"Unique/ReplaceWaiting", uniqueReplaceWaiting},
	{"Unique/Reject", uniqueReject},
	{"Unique/InOneList", uniqueInOneList},
	{"Unique/IdempotencyKey", uniqueIdempotencyKey},
	{"Unique/Update", uniqueUpdate},
	{"Unique/Retry", uniqueRetry},
	{"Unique/BadInput", uniqueBadInput},
	{"Unique/Sweep", uniqueSweep},
	{"Unique/SweepLimit", uniqueSweepLimit},
}

// unique enqueues a task of pool work.
func (s *scene) unique(u jobs.Unique, n jobs.NewTask) jobs.Enqueued {
	s.t.Helper()
	n.Pool, n.Unique = "work", &u
	made, err := s.Store.Enqueue(s.ctx(), n)
	must(s.t, err)
	return made[0]
}

// again wants a task that is enqueued to be the one that exists, or a new one.
func (s *scene) again(when string, u jobs.Unique, n jobs.NewTask, existing jobs.Enqueued, exists bool) jobs.Enqueued {
	s.t.Helper()
	got := s.unique(u, n)
	if got.Existed != exists || (got.ID == existing.ID) != exists {
		s.t.Errorf("%s: existed %v, the same %v, want %v", when, got.Existed, got.ID == existing.ID, exists)
	}
	return got
}

func (s *scene) wantTasks(n int64) {
	s.t.Helper()
	s.wantInt(n, "SELECT (SELECT COUNT(*) FROM {tasks}) + (SELECT COUNT(*) FROM {done})")
}

func uniqueRows(t *testing.T, b *Bench) {
	s := newScene(t, b)
	hashOf := func(text string) string { sum := sha256.Sum256([]byte(text)); return hex.EncodeToString(sum[:]) }
	n := jobs.NewTask{Kind: "k", Payload: json.RawMessage(`{"n": 1}`)}
	first := s.unique(jobs.Unique{}, n)
	want := row{
		"pool": "work", "values_hash": hashOf(`{"kind":"k","payload":{"n":1}}`), "task_id": first.ID, "unique_until": 0, "unique_while": "open", "token": 0,
		"look_at": first.CreatedAt,
	}
	s.wantRow("default", s.row("unique_tasks", "task_id=?", first.ID), want)
	n.Key = "tenant"
	second := s.unique(jobs.Unique{By: []string{"payload.n", "key"}, For: time.Minute, While: jobs.WhilePending}, n)
	until := second.CreatedAt.Add(time.Minute)
	s.wantRow("with all", s.row("unique_tasks", "task_id=?", second.ID), want.with(row{
		"values_hash": hashOf(`{"key":"tenant","payload.n":1}`), "task_id": second.ID, "unique_until": until, "unique_while": "pending", "look_at": until,
	}))
	third := s.unique(jobs.Unique{By: []string{"kind"}, For: time.Second}, n)
	until = third.CreatedAt.Add(time.Second)
	s.wantRow("for a time", s.row("unique_tasks", "task_id=?", third.ID), want.with(row{
		"values_hash": hashOf(`{"kind":"k"}`), "task_id": third.ID, "unique_until": until, "unique_while": "", "look_at": until,
	}))
	for _, id := range []string{first.ID, second.ID, third.ID} {
		_, err := s.Store.Cancel(s.ctx(), id, "")
		must(t, err)
	}
	next := s.unique(jobs.Unique{For: time.Hour}, jobs.NewTask{Kind: "k", Payload: json.RawMessage(`{"n":1}`)})
	until = next.CreatedAt.Add(time.Hour)
	s.wantRow("of the next one", s.row("unique_tasks", "task_id=?", next.ID), want.with(row{"task_id": next.ID, "unique_until": until, "unique_while": "", "look_at": until}))
	s.wantInt(3, "SELECT COUNT(*) FROM {unique_tasks}")
}

// Tasks are compared by what By names, within their pool.
func uniqueBy(t *testing.T, b *Bench) {
	newScene(t, b)
	task := func(kind, key, payload string, by ...string) jobs.NewTask {
		return jobs.NewTask{Pool: "work", Kind: kind, Key: key, Payload: json.RawMessage(payload), Unique: &jobs.Unique{By: by}}
	}
	for what, c := range map[string]struct {
		one, other jobs.NewTask
		same       bool
	}{
		"default":                {task("a", "1", `{"x":1}`), task("a", "2", ` {"x": 1} `), true},
		"default, payload":       {task("b", "1", `{"x":1}`), task("b", "1", `{"x":2}`), false},
		"default, kind":          {task("c", "1", `{"x":1}`), task("d", "1", `{"x":1}`), false},
		"kind alone":             {task("e", "1", `1`, "kind"), task("e", "2", `2`, "kind"), true},
		"key":                    {task("f", "k", `1`, "key"), task("g", "k", `2`, "key"), true},
		"a field":                {task("h", "1", `{"u":{"id":7},"n":1}`, "kind", "payload.u.id"), task("h", "2", `{"n":2,"u":{"id":7}}`, "payload.u.id", "kind"), true},
		"a field, another value": {task("i", "1", `{"u":{"id":7}}`, "kind", "payload.u.id"), task("i", "1", `{"u":{"id":"7"}}`, "kind", "payload.u.id"), false},
		"a missing field":        {task("j", "1", `{"n":1}`, "kind", "payload.u"), task("j", "1", `{"u":null}`, "kind", "payload.u"), true},
		"other names":            {task("k", "1", `{"n":1}`, "kind", "payload.u"), task("k", "1", `{"n":1}`, "kind", "payload.v"), false},
	} {
		first := Enqueue(t, b, c.one)[0]
		if got := Enqueue(t, b, c.other)[0]; first.Existed || got.Existed != c.same || (got.ID == first.ID) != c.same {
			t.Errorf("%s: the first existed %v, the same %v, want %v", what, first.Existed, got.ID == first.ID, c.same)
		}
	}
	one := task("z", "", `1`)
	first := Enqueue(t, b, one)[0]
	one.Pool = "default"
	if got := Enqueue(t, b, one)[0]; got.Existed {
		t.Error("a task of another pool counts")
	}
	one.Pool, one.Unique = "work", nil
	if got := Enqueue(t, b, one)[0]; got.Existed || got.ID == first.ID {
		t.Error("a task that is not unique met one that is")
	}
}

// While it is pending: until the first claim, whatever comes after that.
func uniquePending(t *testing.T, b *Bench) {
	s := newScene(t, b)
	u, n := jobs.Unique{While: jobs.WhilePending}, jobs.NewTask{Payload: 1}
	for what, after := range map[string]func(jobs.Task){
		"claimed":     func(jobs.Task) {},
		"handed back": func(k jobs.Task) { s.finish(result(k, ledger.HandBack, "")) },
		"snoozed":     func(k jobs.Task) { s.finish(result(k, ledger.Snoozed, "")) },
		"tried again": func(k jobs.Task) { s.finish(result(k, ledger.Again, jobs.StateFailed)) },
		"ended":       func(k jobs.Task) { s.finish(result(k, ledger.Ended, jobs.StateSucceeded)) },
	} {
		first := s.unique(u, n)
		s.again(what+", before the claim", u, n, first, true)
		claimed := s.claim("work", 20)
		if len(claimed) != 1 || claimed[0].ID != first.ID {
			t.Fatalf("%s: claimed %+v", what, claimed)
		}
		after(claimed[0])
		second := s.again(what, u, n, first, false)
		s.again(what+", and the next one", u, n, second, true)
		s.DB.Exec(t, "DELETE FROM {tasks}")
	}
	later := s.unique(u, jobs.NewTask{Payload: 2, RunAt: time.Now().Add(time.Hour)})
	s.again("not due", u, jobs.NewTask{Payload: 2}, later, true)
	_, err := s.Store.Cancel(s.ctx(), later.ID, "")
	must(t, err)
	s.again("cancelled", u, jobs.NewTask{Payload: 2}, later, false)
}

// While it is open: until it has ended for good, in whatever way.
func uniqueOpen(t *testing.T, b *Bench) {
	s := newScene(t, b)
	u, n := jobs.Unique{While: jobs.WhileOpen}, jobs.NewTask{Payload: 1}
	last := s.unique(u, n)
	claim := func() jobs.Task {
		t.Helper()
		s.again("pending", u, n, last, true)
		claimed := s.claim("work", 20)
		if len(claimed) != 1 || claimed[0].ID != last.ID {
			t.Fatalf("claimed %+v, want %s", claimed, last.ID)
		}
		s.again("running", u, n, last, true)
		return claimed[0]
	}
	s.finish(result(claim(), ledger.HandBack, ""))
	s.finish(result(claim(), ledger.Again, jobs.StateFailed))
	s.again("waits for its retry", u, n, last, true)
	s.DB.Exec(t, "UPDATE {tasks} SET state=0")
	for _, state := range []jobs.State{jobs.StateSucceeded, jobs.StateFailed, jobs.StateCancelled} {
		s.finish(result(claim(), ledger.Ended, state))
		last = s.again(string(state), u, n, last, false)
	}
	_, err := s.Store.Cancel(s.ctx(), last.ID, "")
	must(t, err)
	last = s.again("cancelled while it was pending", u, n, last, false)
	claim()
	other := s.second("two")
	s.die()
	other.reap()
	s.want("its replica died", s.state(last.ID), "lost 1")
	other.again("lost", u, n, last, false)
}

// For a time since it was created, whatever its state; with While the later end holds.
func uniqueFor(t *testing.T, b *Bench) {
	s := newScene(t, b)
	passed := func(k jobs.Enqueued) {
		t.Helper()
		if s.DB.Exec(t, "UPDATE {unique_tasks} SET unique_until=? WHERE task_id=? AND unique_until>0", ago(time.Minute), k.ID) != 1 {
			t.Fatalf("%s is unique for no time", k.ID)
		}
	}
	for while, holds := range map[jobs.UniqueWhile][2]bool{ // pending, and running, when the time is over
		"": {}, jobs.WhilePending: {true, false}, jobs.WhileOpen: {true, true},
	} {
		u, n := jobs.Unique{For: time.Hour, While: while}, jobs.NewTask{Payload: "while " + while}
		first := s.unique(u, n)
		s.again("pending", u, n, first, true)
		claimed := s.claim("work", 20)
		s.again("running", u, n, first, true)
		s.finish(result(claimed[0], ledger.Ended, jobs.StateSucceeded))
		if got := s.again("ended", u, n, first, true); got.State != jobs.StateSucceeded {
			t.Errorf("the answer says %s", got.State)
		}
		passed(first)
		next := s.again("its time is over", u, n, first, false)
		passed(next)
		if last := s.again(fmt.Sprintf("while %q, pending", while), u, n, next, holds[0]); !holds[0] {
			next = last
			passed(next)
		}
		s.claim("work", 20)
		last := s.again(fmt.Sprintf("while %q, running", while), u, n, next, holds[1])
		s.DB.Exec(t, "DELETE FROM {tasks}")
		if holds[1] {
			s.again(fmt.Sprintf("while %q, gone", while), u, n, last, false)
			s.DB.Exec(t, "DELETE FROM {tasks}")
		}
	}
	// What the task that exists was made with decides, and not what the next one says.
	first := s.unique(jobs.Unique{For: time.Hour}, jobs.NewTask{Payload: "asked otherwise"})
	passed(first)
	s.again("another while", jobs.Unique{While: jobs.WhileOpen}, jobs.NewTask{Payload: "asked otherwise"}, first, false)
	quick := jobs.Unique{For: time.Millisecond}
	first = s.unique(quick, jobs.NewTask{Payload: "quick"})
	time.Sleep(20 * time.Millisecond)
	s.again("a millisecond is over", quick, jobs.NewTask{Payload: "quick"}, first, false)
}

// A change of the task goes on standing for what was enqueued, and does not count as a claim.
func uniqueUpdate(t *testing.T, b *Bench) {
	s := newScene(t, b)
	u, n := jobs.Unique{While: jobs.WhilePending}, jobs.NewTask{Payload: 1}
	first := s.unique(u, n)
	for i := range 3 {
		s.update(first.ID, wire.TaskChange{Payload: json.RawMessage(`2`), Priority: &i})
		if got := s.again("changed", u, n, first, true); string(got.Payload) != "2" || got.Priority != i {
			t.Errorf("%+v", got)
		}
	}
	s.again("what it was changed to", u, jobs.NewTask{Payload: 2}, first, false)
	for _, task := range s.claim("work", 20) {
		s.finish(result(task, ledger.HandBack, ""))
	}
	s.update(first.ID, wire.TaskChange{Priority: new(9)})
	s.want("handed back and changed", s.task(first.ID), "ready attempt 0 token 5 replica -: -")
	s.again("handed back and changed", u, n, first, false)
}

// A copy of an ended task is not unique, and takes nothing from the one that is.
func uniqueRetry(t *testing.T, b *Bench) {
	s := newScene(t, b)
	u, n := jobs.Unique{}, jobs.NewTask{Payload: 1}
	first := s.unique(u, n)
	s.finish(result(s.claim("work", 1)[0], ledger.Ended, jobs.StateFailed))
	copied, err := s.Store.Retry(s.ctx(), first.ID, "", false)
	must(t, err)
	second := s.again("beside a copy", u, n, first, false)
	if copied.ID == second.ID {
		t.Error("the copy is the unique one")
	}
	s.again("beside a copy, again", u, n, second, true)
}

func uniqueBadInput(t *testing.T, b *Bench) {
	s := newScene(t, b)
	for path, u := range map[string]jobs.Unique{
		"unique.by": {By: []string{}}, "unique.by[1]": {By: []string{"kind", "user"}}, "unique.for": {For: -time.Second},
		"unique.while": {While: "x"}, "unique.on_conflict": {OnConflict: "x"},
	} {
		_, err := s.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: "work", Unique: &u})
		if wrong, ok := errors.AsType[*jobs.FieldError](err); !ok || wrong.Path != path || !errors.Is(err, jobs.ErrInvalid) {
			t.Errorf("%s: %v", path, err)
		}
	}
	s.wantTasks(0)
}

// What is not unique any more is deleted after an hour, and the rest with its task.
func uniqueSweep(t *testing.T, b *Bench) {
	s := newScene(t, b)
	add := func(what string, u jobs.Unique) string { return s.unique(u, jobs.NewTask{Payload: what}).ID }
	open, pending := jobs.Unique{While: jobs.WhileOpen}, jobs.Unique{While: jobs.WhilePending}
	ended := []string{add("ended 1", open), add("ended 2", pending), add("ended 3", jobs.Unique{For: time.Minute})}
	for _, task := range s.claim("work", 20) {
		s.finish(result(task, ledger.Ended, jobs.StateSucceeded))
	}
	back := add("handed back", pending)
	changed := add("changed", pending)
	s.update(changed, wire.TaskChange{Priority: new(-9)})
	s.finish(result(s.claim("work", 1)[0], ledger.HandBack, ""))
	runs := []string{add("runs 1", open), add("runs 2", pending)}
	s.update(runs[0], wire.TaskChange{Priority: new(9)})
	s.update(runs[1], wire.TaskChange{Priority: new(9)})
	s.claim("work", 2)
	waits := add("waits", open)
	long := add("long", jobs.Unique{For: 48 * time.Hour})
	has := func(when string, want ...string) {
		t.Helper()
		for _, id := range append(append([]string{back, changed, waits, long}, ended...), runs...) {
			n := 0
			for _, w := range want {
				if w == id {
					n++
				}
			}
			if got := s.DB.Int(t, "SELECT COUNT(*) FROM {unique_tasks} WHERE task_id=?", id); got != int64(n) {
				t.Errorf("%s: %d rows of %s, want %d", when, got, s.DB.Text(t, "SELECT payload FROM {tasks} WHERE id=? UNION ALL SELECT payload FROM {done} WHERE id=?", id, id), n)
			}
		}
	}
	all := append(append([]string{back, changed, waits, long}, ended...), runs...)
	s.sweep(jobs.Retention{}, 100)
	has("at once", all...)
	s.DB.Exec(t, "UPDATE {unique_tasks} SET look_at=look_at-?, unique_until=CASE WHEN unique_until=0 THEN 0 ELSE unique_until-? END", 2*time.Hour/time.Microsecond, 2*time.Hour/time.Microsecond)
	s.sweep(jobs.Retention{}, 100)
	has("two hours later", changed, waits, long, runs[0])
	s.wantInt(1, "SELECT COUNT(*) FROM {unique_tasks} WHERE look_at>0") // long
	s.DB.Exec(t, "UPDATE {tasks} SET state=0, session_id='', replica='', claim_id='' WHERE state=2")
	for _, task := range s.claim("work", 20) {
		s.finish(result(task, ledger.Ended, jobs.StateSucceeded))
	}
	s.sweep(jobs.Retention{}, 100)
	has("when all have ended", changed, waits, long, runs[0])
	s.DB.Exec(t, "UPDATE {done} SET finished_at=?", ago(3*time.Hour))
	s.sweep(jobs.Retention{Succeeded: time.Hour}, 100)
	has("with their tasks")
}

func uniqueSweepLimit(t *testing.T, b *Bench) {
	s := newScene(t, b)
	for i := range 5 {
		s.unique(jobs.Unique{For: time.Millisecond}, jobs.NewTask{Payload: i})
	}
	s.DB.Exec(t, "UPDATE {unique_tasks} SET look_at=?, unique_until=?", ago(2*time.Hour), ago(2*time.Hour))
	for i, want := range []int64{3, 1, 0} {
		if more := s.sweep(jobs.Retention{}, 2); more != (want > 0) {
			t.Errorf("sweep %d: more is %v", i, more)
		}
		s.wantInt(want, "SELECT COUNT(*) FROM {unique_tasks}")
	}
}
