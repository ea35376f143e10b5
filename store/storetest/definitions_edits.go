package storetest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

func scheduleEdits(t *testing.T, b *Bench) {
	a := Join(t, b, "a")
	row := func() (cursor, next time.Time) {
		t.Helper()
		cursor = time.UnixMicro(b.DB.Int(t, `SELECT cursor_at FROM {jobs} WHERE name = 'j'`)).UTC()
		return cursor, time.UnixMicro(b.DB.Int(t, `SELECT next_at FROM {jobs} WHERE name = 'j'`)).UTC()
	}
	set := func(cursor time.Time) {
		b.DB.Exec(t, `UPDATE {jobs} SET cursor_at = ?, next_at = ? WHERE name = 'j'`, cursor.UnixMicro(), cursor.Add(time.Minute).UnixMicro())
	}
	one := func(hash, schedule string) ledger.Definitions {
		return ledger.Definitions{Jobs: []ledger.JobDef{JobDef("j", hash, schedule)}}
	}
	before, err := b.Store.Beat(t.Context(), a)
	must(t, err)
	load(t, b, a, one("1", "s1"))
	if cursor, next := row(); cursor.Before(before) || !next.Equal(cursor.Truncate(time.Minute).Add(time.Minute)) {
		t.Fatalf("a new job starts at %s, due at %s; it was made after %s", cursor, next, before)
	}

	past := before.Add(-time.Hour).Truncate(time.Minute)
	set(past)
	load(t, b, a, one("2", "s1"))
	if cursor, next := row(); !cursor.Equal(past) || !next.Equal(past.Add(time.Minute)) {
		t.Fatalf("an edit of something else moved the cursor from %s to %s, due at %s", past, cursor, next)
	}

	const unknown = ", and what else was due until then"
	missed := func(at time.Time, code reason.Code, why string) {
		t.Helper()
		if n := b.DB.Int(t, `SELECT COUNT(*) FROM {triggers} WHERE job = 'j' AND at = ? AND seq = 0 AND due_count = 1 AND outcome = 'missed' AND reason = ?
			AND reason_code = ? AND decided_at >= ?`, at.UnixMicro(), why, string(code), before.UnixMicro()); n != 1 {
			t.Fatalf("%d rows say of what was due at %s: %s", n, at, why)
		}
	}
	load(t, b, a, one("3", "s2"))
	if cursor, _ := row(); cursor.Before(before) {
		t.Fatalf("an edit of the schedule left the cursor at %s, an hour back", cursor)
	}
	missed(past.Add(time.Minute), reason.ScheduleChanged, ledger.ReasonEdited+unknown)

	future := before.Add(time.Hour).Truncate(time.Minute)
	set(future)
	load(t, b, a, one("4", "s3"))
	if cursor, next := row(); !cursor.Equal(future) || !next.Equal(future.Add(time.Minute)) {
		t.Fatalf("an edit of the schedule moved the cursor back from %s to %s, due at %s", future, cursor, next)
	}

	past = past.Add(10 * time.Minute)
	set(past)
	load(t, b, a, ledger.Definitions{})
	missed(past.Add(time.Minute), reason.JobRemoved, ledger.ReasonRemoved+unknown)
	load(t, b, a, one("4", "s3"))
	if cursor, _ := row(); cursor.Before(before) {
		t.Fatalf("a job that came back fires what was due from %s on", cursor)
	}

	var waits ledger.Decision // for its slot, and is decided in a second
	waits.Wait(past.Add(2*time.Minute), before.Add(time.Hour))
	b.DB.Exec(t, `UPDATE {jobs} SET cursor_at = ?, next_at = ?, waiting_at = ? WHERE name = 'j'`, waits.Cursor.UnixMicro(), waits.NextAt.UnixMicro(), waits.Waiting.UnixMicro())
	load(t, b, a, one("4a", "s3")) // an edit of something else
	all, err := b.Store.Jobs(t.Context(), "j")
	must(t, err)
	if !all[0].NextAt.Equal(past.Add(2 * time.Minute)) {
		t.Fatalf("what waits for its slot is shown as due at %s", all[0].NextAt)
	}
	load(t, b, a, one("5", "s4"))
	missed(past.Add(2*time.Minute), reason.ScheduleChanged, ledger.ReasonEdited+unknown)

	if n := b.DB.Int(t, `SELECT COUNT(*) FROM {triggers}`); n != 3 {
		t.Fatalf("%d rows in the ledger after three edits that left something undecided", n)
	}
	if n := b.DB.Int(t, `SELECT COUNT(*) FROM {events} WHERE event = 'missed'`); n != 3 {
		t.Fatalf("%d events", n)
	}
}

// What an edit overtakes is found out by the definition that governed, and all of its rows are written.
func overtaken(t *testing.T, b *Bench) {
	a := Join(t, b, "a")
	asked := map[string]ledger.Overtaken{} // transactions may be repeated
	version := func(version string, all ...ledger.JobDef) ledger.Definitions {
		return ledger.Definitions{
			Jobs:  all,
			Shown: func(job string) json.RawMessage { return json.RawMessage(`{"of":"` + job + version + `"}`) },
			OvertakenBy: func(o ledger.Overtaken) ([]jobs.Trigger, bool) {
				asked[o.Job] = o
				if o.Job == "unread" {
					return nil, false
				}
				left := o.Row(o.Cursor.Add(time.Second), o.Cursor.Add(9*time.Second), 3)
				left.Outcome, left.ReasonCode, left.Reason = jobs.Skipped, reason.Calendar, "left out"
				return []jobs.Trigger{left, o.Row(o.Cursor.Add(10*time.Second), o.Cursor.Add(10*time.Second), 1)}, true
			},
		}
	}
	load(t, b, a, version("1", JobDef("edited", "1", "s1"), JobDef("gone", "1", "s1"), JobDef("other", "1", "s1"), JobDef("unread", "1", "s1")))
	if len(asked) > 0 {
		t.Fatalf("nothing was overtaken: %+v", asked)
	}
	now, err := b.Store.Beat(t.Context(), a)
	must(t, err)
	cursor := now.Add(-time.Hour).Truncate(time.Minute)
	b.DB.Exec(t, `UPDATE {jobs} SET cursor_at = ?, next_at = ?`, cursor.UnixMicro(), cursor.Add(time.Minute).UnixMicro())
	b.DB.Exec(t, `UPDATE {jobs} SET suspended = ?, suspended_until = ? WHERE name = 'gone'`, true, now.UnixMicro())
	load(t, b, a, version("2", JobDef("edited", "2", "s2"), JobDef("new", "1", "s1"), JobDef("other", "2", "s1"), JobDef("unread", "2", "s2")))

	if len(asked) != 3 {
		t.Fatalf("asked for %+v", asked)
	}
	for _, want := range []ledger.Overtaken{
		{Job: "edited"}, {Job: "gone", Removed: true, Suspension: ledger.Suspension{Until: now}}, {Job: "unread"},
	} {
		got := asked[want.Job]
		if got.Job != want.Job || string(got.Definition) != `{"of":"`+want.Job+`1"}` || !got.Cursor.Equal(cursor) || !got.Due.Equal(cursor.Add(time.Minute)) || got.Now.Before(now) ||
			got.Removed != want.Removed || (got.Suspension.Suspended != nil) != want.Removed || !got.Suspension.Until.Equal(want.Suspension.Until) {
			t.Errorf("overtaken is %+v of %s, want %+v", got, got.Definition, want)
		}
	}
	const row = `SELECT COUNT(*) FROM {triggers} WHERE job = ? AND at = ? AND until_at = ? AND seq = 0 AND due_count = ? AND outcome = ? AND reason_code = ? AND replica = '' AND config > 1
		AND definition = (SELECT definition FROM {definitions} d WHERE d.job = {triggers}.job AND d.hash = '1')`
	after := func(seconds int) int64 { return cursor.Add(time.Duration(seconds) * time.Second).UnixMicro() }
	for _, n := range []int64{
		b.DB.Int(t, row, "edited", after(1), after(9), 3, "skipped", "calendar"), b.DB.Int(t, row, "edited", after(10), 0, 1, "missed", "schedule_changed"),
		b.DB.Int(t, row, "gone", after(1), after(9), 3, "skipped", "calendar"), b.DB.Int(t, row, "gone", after(10), 0, 1, "missed", "job_removed"),
		b.DB.Int(t, row, "unread", after(60), 0, 1, "missed", "schedule_changed"),
	} {
		if n != 1 {
			t.Error("a row is missing")
		}
	}
	if n := b.DB.Int(t, `SELECT COUNT(*) FROM {triggers}`); n != 5 {
		t.Errorf("%d rows", n)
	}
	if n := b.DB.Int(t, `SELECT COUNT(*) FROM {events} WHERE event = 'missed'`); n != 3 {
		t.Errorf("%d events of what was missed", n)
	}
}
