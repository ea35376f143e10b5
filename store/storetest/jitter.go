package storetest

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// jittered is a job that is due each minute, and starts later by a fixed time.
func jittered(hash, schedule string, by time.Duration) ledger.Definitions {
	d := JobDef("j", hash, schedule)
	if by > 0 {
		d.Due = d.Next
		d.Next = func(t time.Time) time.Time { return d.Due(t).Add(by) }
	}
	return ledger.Definitions{Jobs: []ledger.JobDef{d}}
}

// A job with jitter is looked at when its trigger starts, and shown with the due time. Another jitter moves the start of what is undecided,
// and nothing else; another schedule misses the due time, which may wait for its start.
func startsLater(t *testing.T, b *Bench) {
	a := Join(t, b, "a")
	now, err := b.Store.Beat(t.Context(), a)
	must(t, err)
	want := func(what string, due, start time.Time) {
		t.Helper()
		all, err := b.Store.Jobs(t.Context(), "j")
		must(t, err)
		if j := all[0]; !j.NextAt.Equal(due) || !j.NextStartAt.Equal(start) {
			t.Fatalf("%s: due at %s, starts at %s; want %s and %s", what, j.NextAt, j.NextStartAt, due, start)
		}
		if sql, is := b.Store.(sqlStore); is {
			standings, err := sql.JobStandings(t.Context())
			must(t, err)
			o, err := sql.Overview(t.Context(), 10)
			must(t, err)
			if n := o.Next[0]; !standings[0].NextAt.Equal(due) || !n.At.Equal(due) || !n.StartAt.Equal(start) {
				t.Fatalf("%s: its standing is %+v, and the overview has %+v; want %s and %s", what, standings[0], n, due, start)
			}
		}
		look := start
		if start.IsZero() {
			look = due
		}
		over, err := b.Store.Overdue(t.Context(), look.Add(-time.Microsecond), 10)
		must(t, err)
		if len(over) > 0 {
			t.Fatalf("%s: overdue before its start: %+v", what, over)
		}
		over, err = b.Store.Overdue(t.Context(), look, 10)
		must(t, err)
		if len(over) != 1 || !over[0].NextAt.Equal(look) {
			t.Fatalf("%s: overdue at its start: %+v", what, over)
		}
	}
	set := func(cursor, due, next time.Time) {
		b.DB.Exec(t, `UPDATE {jobs} SET cursor_at = ?, due_at = ?, next_at = ? WHERE name = 'j'`, cursor.UnixMicro(), due.UnixMicro(), next.UnixMicro())
	}

	load(t, b, a, jittered("1", "s", 20*time.Second))
	first := time.UnixMicro(b.DB.Int(t, `SELECT cursor_at FROM {jobs} WHERE name = 'j'`)).Truncate(time.Minute).Add(time.Minute)
	want("a new job", first, first.Add(20*time.Second))

	due := now.Truncate(time.Minute).Add(-10 * time.Minute)
	set(due.Add(-time.Minute), due, due.Add(20*time.Second))
	load(t, b, a, jittered("2", "s", 30*time.Second))
	want("another jitter", due, due.Add(30*time.Second))
	load(t, b, a, jittered("3", "s", 0))
	want("no jitter", due, time.Time{})
	load(t, b, a, jittered("4", "s", 15*time.Minute))
	want("jitter, of a job without", due, due.Add(15*time.Minute))
	if n := b.DB.Int(t, `SELECT COUNT(*) FROM {triggers}`); n != 0 {
		t.Fatalf("edits of the jitter wrote %d rows into the ledger", n)
	}

	load(t, b, a, jittered("5", "other", 15*time.Minute))
	if n := b.DB.Int(t, `SELECT COUNT(*) FROM {triggers} WHERE job = 'j' AND at = ? AND due_count = 1 AND outcome = 'missed' AND reason_code = ?`, due.UnixMicro(), string(reason.ScheduleChanged)); n != 1 {
		t.Fatalf("%d rows say that the due time was missed, which waited for its start when the schedule changed", n)
	}
	first = time.UnixMicro(b.DB.Int(t, `SELECT cursor_at FROM {jobs} WHERE name = 'j'`)).Truncate(time.Minute).Add(time.Minute)
	want("another schedule", first, first.Add(15*time.Minute))

	// A program that knows no jitter moves cursor_at and next_at alone.
	set(due, due, due.Add(time.Minute))
	want("due_at of what is decided", due.Add(time.Minute), time.Time{})
	set(due, due.Add(3*time.Minute), due.Add(2*time.Minute))
	want("due_at after the start", due.Add(2*time.Minute), time.Time{})

	var waits ledger.Decision // for the slot
	waits.Due = due.Add(time.Minute)
	waits.Wait(due, now)
	if !waits.Due.IsZero() {
		t.Error("a due time that waits for its slot has a start")
	}
	set(due.Add(-time.Minute), due, due.Add(20*time.Second))
	load(t, b, a, ledger.Definitions{})
	if n := b.DB.Int(t, `SELECT COUNT(*) FROM {jobs} WHERE name = 'j' AND next_at = 0 AND due_at = 0`); n != 1 {
		t.Error("a retired job has a next due time")
	}
}

// A decision says which due time starts next, and what waits for the slot has none.
func decidedStarts(t *testing.T, b *Bench) {
	s := newScene(t, b)
	start := due(4).Add(7 * time.Second)
	dec := run("a", due(3), true)
	dec.Due, dec.NextAt = due(4), start
	_, err := s.decide(dec)
	must(t, err)
	s.wantInt(due(4).UnixMicro(), "SELECT due_at FROM {jobs} WHERE name='a'")
	s.wantInt(start.UnixMicro(), "SELECT next_at FROM {jobs} WHERE name='a'")
	all, err := s.Store.Jobs(s.ctx(), "a", "b")
	must(t, err)
	if !all[0].NextAt.Equal(due(4)) || !all[0].NextStartAt.Equal(start) || !all[1].NextStartAt.IsZero() {
		t.Errorf("%+v", all)
	}
	wait := ledger.Decision{Job: "a"}
	wait.Wait(due(4), due(5))
	_, err = s.decide(wait)
	must(t, err)
	s.wantInt(0, "SELECT due_at FROM {jobs} WHERE name='a'")
	all, err = s.Store.Jobs(s.ctx(), "a")
	must(t, err)
	if !all[0].NextAt.Equal(due(4)) || !all[0].NextStartAt.IsZero() {
		t.Errorf("what waits for its slot: %+v", all)
	}
}
