package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var enqueueCases = []Case{
	{"Enqueue/Fields", enqueueFields},
	{"Enqueue/UnknownPool", enqueueUnknownPool},
	{"Enqueue/BadInput", enqueueBadInput},
	{"Enqueue/Idempotency", idempotency},
	{"Enqueue/IdempotencyInOneList", idempotencyInOneList},
	{"Enqueue/HundredWithOneKey", hundredWithOneKey},
	{"Enqueue/OverlappingKeys", overlappingKeys},
	{"Enqueue/ManyInOneCall", manyInOneCall},
	{"Enqueue/By", enqueueBy},
}

func newTask(pool string) jobs.NewTask { return jobs.NewTask{Pool: pool} }

// Enqueue enqueues and fails the test if it cannot.
func Enqueue(t *testing.T, b *Bench, tasks ...jobs.NewTask) []jobs.Enqueued {
	t.Helper()
	all, err := b.Store.Enqueue(t.Context(), tasks...)
	must(t, err)
	return all
}

func enqueueFields(t *testing.T, b *Bench) {
	session := Join(t, b, "a")
	Pools(t, b, session, "p")
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	all := Enqueue(t, b,
		jobs.NewTask{Pool: "p"},
		jobs.NewTask{Pool: "p", Kind: "k", Payload: map[string]any{"ü": 1}, RunAt: later, Priority: 7, Tags: []string{"x", "y"}, IdempotencyKey: "key", By: "ann"},
		jobs.NewTask{Pool: "p", Payload: json.RawMessage(" [1, \"a\"] "), RunAt: time.Unix(1e9, 0), Priority: -100},
	)
	var got []jobs.Task
	for _, e := range all {
		if e.Existed {
			t.Fatalf("existed: %+v", e)
		}
		task, attempts, err := b.Store.Task(t.Context(), e.Task.ID)
		must(t, err)
		if diff := cmp.Diff(e.Task, task, cmpopts.EquateEmpty()); diff != "" || len(attempts) > 0 {
			t.Fatalf("the answer and the row differ: %s", diff)
		}
		got = append(got, task)
	}
	now := got[0].CreatedAt
	want := []jobs.Task{
		{RunAt: now},
		{Kind: "k", Payload: json.RawMessage(`{"ü":1}`), RunAt: later, Priority: 7, Tags: []string{"x", "y"}, By: "ann"},
		{Payload: json.RawMessage(`[1,"a"]`), RunAt: time.Unix(1e9, 0).UTC(), Priority: -100},
	}
	for i := range want {
		w := &want[i]
		w.ID, w.IdempotencyKey, w.Pool, w.State, w.CreatedAt = got[i].ID, got[i].ID, "p", jobs.StatePending, now
		w.MaxAttempts, w.OnLost, w.LostLimit, w.PayloadSize = 3, jobs.LostRetries, 3, len(w.Payload)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	if got[0].ID >= got[1].ID || got[1].ID >= got[2].ID {
		t.Fatal("ids are not in order")
	}
	states := fmt.Sprint(b.DB.Int(t, `SELECT state FROM {tasks} WHERE id = ?`, got[0].ID), b.DB.Int(t, `SELECT state FROM {tasks} WHERE id = ?`, got[1].ID),
		b.DB.Int(t, `SELECT state FROM {tasks} WHERE id = ?`, got[2].ID))
	if states != "0 1 0" {
		t.Fatalf("row states %s", states)
	}
	none := Enqueue(t, b, jobs.NewTask{Pool: "p", Tags: []string{}})[0].Task.ID
	if task, _, err := b.Store.Task(t.Context(), none); err != nil || task.Tags != nil {
		t.Errorf("an empty list of tags is read as %#v: %v", task.Tags, err)
	}
}

// A task names the origin of its enqueue or request as long as it is kept; that of a repeated enqueue is not recorded.
func enqueueBy(t *testing.T, b *Bench) {
	s := newScene(t, b)
	must(t, func() error {
		_, err := b.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: "work", IdempotencyKey: "k", By: "ann"})
		return err
	}())
	again := Enqueue(t, b, jobs.NewTask{Pool: "work", IdempotencyKey: "k", By: "bob"})[0]
	if !again.Existed || again.Task.By != "ann" {
		t.Errorf("an enqueue that was repeated answers %+v", again)
	}
	manual := run("a", due(1), true)
	manual.Triggers[0].Task.By = "eve"
	started, err := s.decide(manual, run("b", due(1), true))
	must(t, err)
	by := map[string]string{}
	for _, task := range started.Started {
		by[task.ID] = map[string]string{"a": "eve"}[task.Job]
	}
	for _, task := range s.claim("work", 1) {
		by[task.ID] = "ann"
		started.Started = append(started.Started, task)
	}
	for _, task := range started.Started {
		if task.By != by[task.ID] {
			t.Errorf("the handler of %s hears of %q, want %q", task.ID, task.By, by[task.ID])
		}
		s.finish(result(task, ledger.Ended, jobs.StateFailed))
		ended, _, err := b.Store.Task(s.ctx(), task.ID)
		must(t, err)
		if ended.By != by[task.ID] || !ended.State.Ended() {
			t.Errorf("of %s, enqueued by %q, is kept: %+v", task.ID, by[task.ID], ended)
		}
	}
	if len(by) != 3 {
		t.Errorf("%d tasks were looked at", len(by))
	}
}

func enqueueUnknownPool(t *testing.T, b *Bench) {
	session := Join(t, b, "a")
	Pools(t, b, session, "p", "Q")
	Pools(t, b, session, "p")
	for _, pool := range []string{"q", "Q", "none"} { // another case, retired, never there
		_, err := b.Store.Enqueue(t.Context(), newTask("p"), newTask(pool))
		if !errors.Is(err, jobs.ErrNotFound) {
			t.Fatalf("pool %q: %v", pool, err)
		}
	}
	if n := b.DB.Int(t, `SELECT COUNT(*) FROM {tasks}`); n != 0 {
		t.Fatalf("%d tasks of lists that were refused", n)
	}
}

func enqueueBadInput(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	bad := map[string]jobs.NewTask{
		"pool":            {},
		"pool long":       {Pool: strings.Repeat("x", 100)},
		"pool blank":      {Pool: "no blanks"},
		"kind":            {Pool: "none", Kind: "no blanks"},
		"by":              {Pool: "p", By: strings.Repeat("x", 256)},
		"by too":          {Pool: "p", By: "a\nb"},
		"payload":         {Pool: "p", Payload: math.Inf(1)},
		"payload json":    {Pool: "p", Payload: json.RawMessage(`{`)},
		"payload long":    {Pool: "p", Payload: strings.Repeat("x", jobs.MaxPayload-1)}, // and two quotes
		"priority":        {Pool: "p", Priority: 101},
		"idempotency_key": {Pool: "p", IdempotencyKey: strings.Repeat("x", 256)},
		"tags":            {Pool: "p", Tags: make([]string, limits.Tags+1)},
		"tags[1]":         {Pool: "p", Tags: []string{"x", strings.Repeat("x", limits.Tag+1)}},
		"run_at":          {Pool: "p", RunAt: time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC)},
	}
	for name, task := range bad {
		field, _, _ := strings.Cut(name, " ")
		for _, list := range [][]jobs.NewTask{{task}, {newTask("p"), task}} {
			_, err := b.Store.Enqueue(t.Context(), list...)
			wrong, ok := errors.AsType[*jobs.FieldError](err)
			if !ok || wrong.Path != field || !errors.Is(err, jobs.ErrInvalid) || strings.Contains(err.Error(), "task 2 of the list") != (len(list) > 1) || strings.Contains(err.Error(), "task 1 of") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	_, err := b.Store.Enqueue(t.Context(), jobs.NewTask{Pool: "bad pool", Kind: "bad kind", Priority: 1000})
	for _, field := range []string{"pool: ", "kind: ", "priority: "} {
		if !errors.Is(err, jobs.ErrInvalid) || errors.Is(err, jobs.ErrNotFound) || !strings.Contains(err.Error(), field) {
			t.Errorf("several at once, of which %s: %v", field, err)
		}
	}
	if n := b.DB.Int(t, `SELECT COUNT(*) FROM {tasks}`); n != 0 {
		t.Errorf("%d tasks of lists that were refused", n)
	}
	Enqueue(t, b, jobs.NewTask{
		Pool: "p", Payload: strings.Repeat("x", jobs.MaxPayload-2), Priority: 100, IdempotencyKey: strings.Repeat("x", limits.IdempotencyKey),
		Tags: slices.Repeat([]string{strings.Repeat("x", limits.Tag)}, limits.Tags), RunAt: time.Date(9998, 12, 31, 0, 0, 0, 0, time.UTC),
	})
}

func idempotency(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p", "q")
	task := jobs.NewTask{Pool: "p", Kind: "k", Payload: 1, IdempotencyKey: "key"}
	first := Enqueue(t, b, task)[0]
	task.Priority = 5 // not part of the body
	again := Enqueue(t, b, newTask("p"), task)[1]
	if !again.Existed || again.Task.ID != first.Task.ID || again.Task.Priority != 0 {
		t.Fatalf("%+v", again)
	}
	for _, change := range []func(*jobs.NewTask){
		func(n *jobs.NewTask) { n.Payload = 2 },
		func(n *jobs.NewTask) { n.Kind = "other" },
	} {
		other := task
		change(&other)
		if _, err := b.Store.Enqueue(t.Context(), newTask("p"), other); !errors.Is(err, jobs.ErrConflict) || !strings.Contains(err.Error(), `idempotency key "key" of pool "p" was used before`) {
			t.Fatalf("another body: %v", err)
		}
	}
	for one, other := range map[any]string{
		welcome{1, 2}: `{"a":1,"b":2}`, 1.0: ` 1 `, "same text": `"same text"`, // compact JSON is compared
	} {
		keyed := jobs.NewTask{Pool: "q", Payload: one, IdempotencyKey: fmt.Sprint(one)}
		id := Enqueue(t, b, keyed)[0].Task.ID
		if keyed.Payload = json.RawMessage(other); Enqueue(t, b, keyed)[0].Task.ID != id {
			t.Errorf("%v is another one than %s", one, other)
		}
	}
	for one, other := range map[any]string{welcome{1, 2}: `{"b":2,"a":1}`, 1.0: `1.0`, "é": `"\u00e9"`} { // byte for byte
		keyed := jobs.NewTask{Pool: "q", Payload: one, IdempotencyKey: fmt.Sprint("other ", one)}
		Enqueue(t, b, keyed)
		keyed.Payload = json.RawMessage(other)
		if _, err := b.Store.Enqueue(t.Context(), keyed); !errors.Is(err, jobs.ErrConflict) {
			t.Errorf("%v and %s: %v", one, other, err)
		}
	}
	task.Pool = "q"
	if Enqueue(t, b, task)[0].Existed {
		t.Fatal("keys of another pool count")
	}
	task.Pool, task.IdempotencyKey = "p", "Key"
	if Enqueue(t, b, task)[0].Existed {
		t.Fatal("keys in another case count")
	}
	if n := b.DB.Int(t, `SELECT COUNT(*) FROM {tasks}`); n != 10 {
		t.Fatalf("%d tasks, want 10", n)
	}
}

type welcome struct {
	A int `json:"a"`
	B int `json:"b"`
}

func idempotencyInOneList(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	task := jobs.NewTask{Pool: "p", Payload: 1, IdempotencyKey: "key"}
	same := task
	same.Priority, same.By = 5, "ann" // not part of the body
	for range 2 {
		all := Enqueue(t, b, task, same)
		if all[0].Task.ID != all[1].Task.ID || !all[1].Existed {
			t.Fatalf("%+v", all)
		}
		if diff := cmp.Diff(all[0].Task, all[1].Task, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("one task, two answers: %s", diff)
		}
	}
	other := task
	other.Payload = 2
	if _, err := b.Store.Enqueue(t.Context(), task, other); !errors.Is(err, jobs.ErrConflict) || !strings.Contains(err.Error(), `idempotency key "key" of pool "p" `) {
		t.Fatal(err)
	}
	if n := b.DB.Int(t, `SELECT COUNT(*) FROM {tasks}`); n != 1 {
		t.Fatalf("%d tasks, want 1", n)
	}
}

func hundredWithOneKey(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	var added atomic.Int32
	var ids [100]string
	Together(t, 100, func(ctx context.Context, i int) error {
		all, err := b.Store.Enqueue(ctx, jobs.NewTask{Pool: "p", Payload: 1, IdempotencyKey: "key"})
		if err != nil {
			return err
		}
		ids[i] = all[0].Task.ID
		if !all[0].Existed {
			added.Add(1)
		}
		return nil
	})
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("%s and %s", ids[0], id)
		}
	}
	if n := b.DB.Int(t, `SELECT COUNT(*) FROM {tasks}`); n != 1 || added.Load() != 1 {
		t.Fatalf("%d tasks, %d times new", n, added.Load())
	}
}

// overlappingKeys: lists that share keys, in opposite orders, do not stop each other.
func overlappingKeys(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	Together(t, 16, func(ctx context.Context, i int) error {
		var list []jobs.NewTask
		for k := range 20 {
			if i%2 == 0 {
				k = 19 - k
			}
			list = append(list, jobs.NewTask{Pool: "p", Payload: k, IdempotencyKey: fmt.Sprint("key ", k)})
		}
		_, err := b.Store.Enqueue(ctx, list...)
		return err
	})
	if n := b.DB.Int(t, `SELECT COUNT(*) FROM {tasks}`); n != 20 {
		t.Fatalf("%d tasks, want 20", n)
	}
}

func manyInOneCall(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	list := make([]jobs.NewTask, 20_000/scale)
	for i := range list {
		list[i] = jobs.NewTask{Pool: "p", Payload: i, IdempotencyKey: fmt.Sprint(i)}
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second) // as a caller with so many has to
	defer cancel()
	all, err := b.Store.Enqueue(ctx, list...)
	must(t, err)
	t.Logf("%d tasks with keys in %s", len(list), time.Since(start).Round(time.Millisecond))
	for i, e := range all {
		if string(e.Task.Payload) != fmt.Sprint(i) {
			t.Fatalf("answer %d has payload %s", i, e.Task.Payload)
		}
	}
	if n := b.DB.Int(t, `SELECT COUNT(*) FROM {tasks}`); n != int64(len(list)) {
		t.Fatalf("%d tasks", n)
	}
}
