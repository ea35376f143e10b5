package storetest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// A list has the payloads up to limits.ListedPayload, and of all the size. The task by itself has it whole.
func viewLargePayloads(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	sizes := []int{0, 2, limits.ListedPayload, limits.ListedPayload + 1, jobs.MaxPayload}
	for _, ended := range []bool{false, true} {
		for _, n := range sizes {
			task := newTask("p")
			if n > 0 {
				task.Payload = strings.Repeat("x", n-2) // and two quotes
			}
			id := Enqueue(t, b, task)[0].Task.ID
			if ended {
				end(t, b, id, jobs.StateSucceeded)
			}
		}
	}
	list, next, err := b.SQL().Tasks(t.Context(), wire.TaskFilter{Page: wire.Page{Limit: 500}})
	must(t, err)
	if len(list) != 2*len(sizes) || next != "" {
		t.Fatalf("%d tasks, next %q", len(list), next)
	}
	for i, task := range list {
		n := sizes[len(sizes)-1-i%len(sizes)]
		listed := n
		if n > 1024 {
			listed = 0
		}
		if task.PayloadSize != n || len(task.Payload) != listed {
			t.Errorf("%s with a payload of %d bytes is listed with %d, size %d", task.State, n, len(task.Payload), task.PayloadSize)
		}
		whole, _, err := b.SQL().Task(t.Context(), task.ID)
		must(t, err)
		if whole.PayloadSize != n || len(whole.Payload) != n {
			t.Errorf("%s with a payload of %d bytes is shown with %d, size %d", task.State, n, len(whole.Payload), whole.PayloadSize)
		}
	}
}

// A row has the size of a payload that lists leave out, whatever wrote it, and a list takes it from there: it does not read the payload.
func viewPayloadSizes(t *testing.T, b *Bench) {
	s := newScene(t, b)
	text := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }
	const short, large = limits.ListedPayload, limits.ListedPayload + 1

	id := Enqueue(t, b, jobs.NewTask{Pool: "again", Payload: text(large)})[0].Task.ID
	size := "SELECT payload_size FROM {tasks} WHERE id=?"
	s.wantInt(large, size, id)
	s.update(id, wire.TaskChange{Payload: text(short)})
	s.wantInt(0, size, id)
	s.update(id, wire.TaskChange{Payload: text(2 * large)})
	s.wantInt(2*large, size, id)
	task, _ := s.taken(due(1))
	s.finish(ledger.Result{TaskID: id, Token: task.Token, Verdict: ledger.Ended, State: jobs.StateFailed})
	s.wantInt(2*large, "SELECT payload_size FROM {done} WHERE id=?", id)
	again, err := b.Store.Retry(s.ctx(), id, "", false)
	must(t, err)
	s.wantInt(2*large, size, again.ID)

	opening := run("a", due(1), false)
	opening.Triggers[0].Task.Payload = text(large)
	opened := opening.Triggers[0].Task.ID
	s.decided(opening)
	s.wantInt(large, size, opened)

	s.DB.Exec(t, "UPDATE {tasks} SET payload_size=4711, payload='1' WHERE id=?", opened)
	list, _, err := b.SQL().Tasks(s.ctx(), wire.TaskFilter{Job: "a"})
	must(t, err)
	if len(list) != 1 || list[0].PayloadSize != 4711 || list[0].Payload != nil {
		t.Errorf("the size of a payload is not that of the row: %+v", list)
	}
}

// A page of long errors ends before its limit, and the next ones have the rest, each task once.
func viewLongErrors(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	const n = 300
	want := make([]string, n)
	for i, e := range Enqueue(t, b, slices.Repeat([]jobs.NewTask{newTask("p")}, n)...) {
		want[n-1-i] = e.Task.ID
	}
	long := strings.Repeat("x", limits.Error)
	b.DB.Exec(t, `UPDATE {tasks} SET error = ?`, []byte(long))
	for i, id := range want {
		if i%2 == 0 || i > 200 {
			end(t, b, id, jobs.StateFailed)
			b.DB.Exec(t, `UPDATE {done} SET error = ? WHERE id = ?`, []byte(long), id)
		}
	}
	for _, state := range []jobs.State{"", jobs.StateFailed, jobs.StatePending} {
		var got []string
		f := wire.TaskFilter{State: state, Page: wire.Page{Limit: 500}}
		pages := 0
		for {
			page, next, err := b.SQL().Tasks(t.Context(), f)
			must(t, err)
			bytes := 0
			for _, task := range page {
				got, bytes = append(got, task.ID), bytes+len(task.Error)
			}
			if pages++; bytes > 1<<20 || len(page) == 0 {
				t.Fatalf("state %q: a page has %d tasks with %d bytes of errors", state, len(page), bytes)
			}
			if f.Cursor = next; next == "" {
				break
			}
		}
		var expect []string
		for i, id := range want {
			if is := i%2 == 0 || i > 200; state == "" || is == (state == jobs.StateFailed) {
				expect = append(expect, id)
			}
		}
		if diff := cmp.Diff(expect, got); diff != "" || pages < 2 {
			t.Errorf("state %q, %d pages: %s", state, pages, diff)
		}
	}
}
