package store

import (
	"cmp"
	"errors"
	"testing"

	"github.com/lockstep-scheduler/lockstep/jobs"
)

// The answer to the COMMIT of an enqueue of a unique task is lost, and before it is settled another process goes on: what was committed is not
// done twice, and what was not is judged again.
func TestUniqueTasksWithLostAnswers(t *testing.T) {
	eachDuel(t, func(d *duel) {
		unique := func(kind string, payload int, key string) jobs.NewTask {
			return jobs.NewTask{
				Pool: "p", Kind: kind, Payload: payload, IdempotencyKey: key,
				Unique: &jobs.Unique{By: []string{"kind"}, While: jobs.WhilePending, OnConflict: jobs.ConflictReplaces},
			}
		}
		enqueue := func(s *Store, n jobs.NewTask) jobs.Enqueued {
			d.t.Helper()
			all, err := s.Enqueue(d.t.Context(), n)
			d.check(err)
			return all[0]
		}
		want := func(what string, got jobs.Enqueued, id string, existed bool, payload string, tasks string) {
			d.t.Helper()
			if got.Existed != existed || id != "" && (got.ID == id) != existed || string(got.Payload) != payload {
				d.t.Errorf("%s: existed %v, %s, payload %s; of %s", what, got.Existed, got.ID, got.Payload, id)
			}
			if n := text(d.t, d.late, `SELECT (SELECT COUNT(*) FROM {tasks} WHERE kind='`+got.Kind+`') + (SELECT COUNT(*) FROM {done} WHERE kind='`+got.Kind+`')`); n != tasks {
				d.t.Errorf("%s: %s tasks, want %s", what, n, tasks)
			}
			d.lost()
		}
		run := func() { // claims and ends what there is
			for _, task := range d.claim(d.fast, d.two, "p", 9) {
				d.finish(d.fast, d.two, task, jobs.StateSucceeded)
			}
		}

		d.loses(false, run)
		want("added, and it ended", enqueue(d.late, unique("a", 1, "")), "", false, "1", "1")
		d.loses(true, func() { enqueue(d.fast, unique("b", 1, "")) })
		if got := enqueue(d.late, unique("b", 2, "")); !got.Existed || string(got.Payload) != "2" {
			d.t.Errorf("another one was added meanwhile: %+v", got)
		}

		first := enqueue(d.fast, unique("c", 1, ""))
		d.loses(false, run)
		want("replaced, and it ended", enqueue(d.late, unique("c", 2, "")), first.ID, true, "2", "1")
		first = enqueue(d.fast, unique("d", 1, ""))
		d.loses(true, run)
		want("not replaced, and it ended", enqueue(d.late, unique("d", 2, "")), first.ID, false, "2", "2")
		first = enqueue(d.fast, unique("e", 1, ""))
		d.loses(false, func() { enqueue(d.fast, unique("e", 3, "")) })
		want("replaced, and again by another", enqueue(d.late, unique("e", 2, "")), first.ID, true, "2", "1")

		keep := unique("f", 1, "key f")
		keep.Unique.OnConflict = jobs.ConflictKeeps
		first = enqueue(d.fast, unique("f", 1, ""))
		d.loses(false, run)
		want("kept, and it ended", enqueue(d.late, keep), first.ID, true, "1", "1")
		if got := enqueue(d.fast, keep); got.ID != first.ID {
			d.t.Errorf("its key stands for %+v", got)
		}
		keep = unique("g", 1, "key g")
		keep.Unique.OnConflict = jobs.ConflictKeeps
		first = enqueue(d.fast, unique("g", 1, ""))
		d.loses(true, run)
		second := enqueue(d.late, keep)
		want("not kept, and it ended", second, first.ID, false, "1", "2")
		if got := enqueue(d.fast, keep); got.ID != second.ID {
			d.t.Errorf("its key stands for %+v", got)
		}
	})
}

// What a later task of a list replaces in an earlier one is forgotten with the try that did it: the next one may find that the later task exists
// already, and has nothing to replace.
func TestAReplacementThatIsUndone(t *testing.T) {
	eachDuel(t, func(d *duel) {
		unique := &jobs.Unique{By: []string{"kind"}, OnConflict: jobs.ConflictReplaces}
		later := jobs.NewTask{Pool: "p", Kind: "undone", Payload: "later", Priority: 7, IdempotencyKey: "k"}
		batch, err := newBatch([]jobs.NewTask{
			{Pool: "p", Kind: "undone", Payload: "earlier", Unique: unique},
			{Pool: "p", Kind: "undone", Payload: "later", Priority: 7, IdempotencyKey: "k", Unique: unique},
		})
		d.check(err)
		undone := errors.New("undone")
		if err := d.fast.settle(d.t.Context(), "test", func(t *tx) error { return cmp.Or(t.enqueue(batch), undone) }, nil); !errors.Is(err, undone) {
			d.t.Fatal(err)
		}
		_, err = d.late.Enqueue(d.t.Context(), later)
		d.check(err)
		d.check(d.fast.settled(d.t.Context(), "test", func(t *tx) error { return t.enqueue(batch) }))
		if got := text(d.t, d.late, `SELECT COUNT(*) FROM {tasks} WHERE kind='undone' AND HEX(payload)=HEX('"earlier"') AND rank_order=0`); got != "1" {
			d.t.Errorf("%s tasks are as the earlier one was given", got)
		}
	})
}
