package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

var whyJobCases = []Case{
	{"WhyJob/Unknown", whyJobUnknown},
	{"WhyJob/Rows", whyJobRows},
	{"WhyJob/Definitions", whyJobDefinitions},
	{"WhyJob/Skipped", whyJobSkipped},
	{"WhyJob/Suspension", whyJobSuspension},
	{"WhyJob/Quiet", whyJobQuiet},
	{"WhyJob/Paused", whyJobPaused},
	{"WhyJob/Next", whyJobNext},
}

func (s *scene) whyJob(q ledger.JobQuestion) ledger.JobFacts {
	s.t.Helper()
	f, err := s.SQL().Sides().API.WhyJob(s.ctx(), q)
	must(s.t, err)
	if f.Job.Name != q.Job || f.At.Sub(time.Now()).Abs() > time.Minute {
		s.t.Errorf("%+v", f)
	}
	return f
}

// passed is a decision that a due time, or several, do not run.
func passed(job string, at, until time.Time, code reason.Code, why string) ledger.Decision {
	g := jobs.Trigger{Job: job, At: at, Count: 1, Cause: jobs.CauseSchedule, Outcome: jobs.Skipped, ReasonCode: code, Reason: why}
	cursor := at
	if !until.IsZero() {
		g.Until, g.Count, cursor = until, 3, until
	}
	return ledger.Decision{Job: job, Cursor: cursor, NextAt: cursor.Add(time.Minute), Triggers: []ledger.Opening{{Trigger: g}}}
}

func (s *scene) decided(d ...ledger.Decision) {
	s.t.Helper()
	_, err := s.decide(d...)
	must(s.t, err)
}

func whyJobUnknown(t *testing.T, b *Bench) {
	s := newScene(t, b)
	for _, name := range []string{"", "none", "A"} {
		if _, err := s.SQL().Sides().API.WhyJob(s.ctx(), ledger.JobQuestion{Job: name}); !errors.Is(err, jobs.ErrNotFound) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// The row that covers a due time is found, alone or of a range, and those next to it; runs by hand are no due times.
func whyJobRows(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.decided(run("a", due(1), false))
	s.decided(passed("a", due(3), due(5), reason.CatchUpLimit, "beyond"), run("b", due(4), false))
	byHand := run("a", due(2), false)
	byHand.Cursor, byHand.Triggers[0].Trigger.Cause = time.Time{}, jobs.CauseManual
	s.decided(byHand)
	before := run("a", due(-3), false) // the ledger goes back to the first due time that was decided as such
	before.Cursor, before.Triggers[0].Trigger.Cause = time.Time{}, jobs.CauseBackfill
	s.decided(before)
	s.decided(run("a", due(7), false))

	at := func(g *jobs.Trigger) time.Time {
		if g == nil {
			return time.Time{}
		}
		return g.At
	}
	for _, c := range []struct{ about, row, before, after int }{
		{0, 0, 0, 1}, {1, 1, 0, 3}, {2, 0, 1, 3}, {3, 3, 1, 7}, {4, 3, 1, 7}, {5, 3, 1, 7}, {6, 0, 3, 7}, {7, 7, 3, 0}, {8, 0, 7, 0},
	} {
		want := func(n int) time.Time {
			if n == 0 {
				return time.Time{}
			}
			return due(n)
		}
		f := s.whyJob(ledger.JobQuestion{Job: "a", At: due(c.about)})
		var row *jobs.Trigger
		if f.Row != nil {
			row = &f.Row.Trigger
		}
		if at(row) != want(c.row) || at(f.Before) != want(c.before) || at(f.After) != want(c.after) || f.First != due(1) || f.About != due(c.about) {
			t.Errorf("%d: row %v, before %v, after %v, first %v", c.about, at(row), at(f.Before), at(f.After), f.First)
		}
		if n := len(f.ByHand); n != map[bool]int{true: 1}[c.about == 2] {
			t.Errorf("%d: %d runs by hand", c.about, n)
		}
	}
	s.DB.Exec(t, "UPDATE {triggers} SET lock_took=1500 WHERE job='a'")
	f := s.whyJob(ledger.JobQuestion{Job: "a", At: due(1)})
	if f.Row.LockTook != 1500*time.Microsecond {
		t.Errorf("locks took %v", f.Row.LockTook)
	}
	if f.Task == nil || f.Task.ID != f.Row.TaskID || f.Row.Config == 0 || f.Row.Took <= 0 || f.Row.Overdue {
		t.Errorf("%+v, %+v", f.Row, f.Task)
	}
}

// The definition is that of the row, or the one that governed at the time.
func whyJobDefinitions(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.decided(run("a", due(1), false))
	load(t, b, s.session, hashed("two"))
	s.decided(run("a", due(2), false))
	s.DB.Exec(t, "UPDATE {definitions} SET first_at=?, since_at=?, until_at=? WHERE job='a' AND hash=?", ago(3*time.Hour), ago(3*time.Hour), ago(time.Hour), hash)
	s.DB.Exec(t, "UPDATE {definitions} SET first_at=?, since_at=? WHERE job='a' AND hash='two'", ago(time.Hour), ago(time.Hour))
	id := func(of string) string {
		return s.DB.Text(t, "SELECT definition FROM {definitions} WHERE job='a' AND hash=?", of)
	}
	for about, want := range map[time.Time]string{due(1): id(hash), due(2): id("two"), time.UnixMicro(ago(2 * time.Hour)): id(hash), time.UnixMicro(ago(time.Minute)): id("two"), due(1_000_000): id("two"), time.UnixMicro(ago(4 * time.Hour)): ""} {
		f := s.whyJob(ledger.JobQuestion{Job: "a", At: about})
		got := ""
		if f.Definition != nil {
			got = f.Definition.Hash
		}
		if got != want || time.Since(f.Known).Round(time.Minute) != 3*time.Hour {
			t.Errorf("%v: %q, want %q; known since %v", about, got, want, f.Known)
		}
	}
	s.DB.Exec(t, "UPDATE {triggers} SET definition=''")
	if f := s.whyJob(ledger.JobQuestion{Job: "a", At: due(1)}); f.Definition != nil {
		t.Errorf("of a row by an older program: %+v", f.Definition)
	}
}

// The task that the reason names is read, whether it runs or has ended.
func whyJobSkipped(t *testing.T, b *Bench) {
	s := newScene(t, b)
	first := run("a", due(1), true)
	s.decided(first)
	id := s.DB.Text(t, "SELECT task_id FROM {triggers} WHERE job='a'")
	s.decided(passed("a", due(2), time.Time{}, reason.SlotTaken, "the run of then (task "+id+") has been running"))
	if f := s.whyJob(ledger.JobQuestion{Job: "a", At: due(2)}); f.Named == nil || f.Named.ID != id || f.Named.State != jobs.StateRunning || f.Task != nil {
		t.Errorf("%+v", f.Named)
	}
	s.finish(ledger.Result{TaskID: id, Token: 1, Verdict: ledger.Ended, State: jobs.StateSucceeded})
	if f := s.whyJob(ledger.JobQuestion{Job: "a", At: due(2)}); f.Named == nil || f.Named.State != jobs.StateSucceeded {
		t.Errorf("%+v", f.Named)
	}
	s.DB.Exec(t, "DELETE FROM {done}")
	if f := s.whyJob(ledger.JobQuestion{Job: "a", At: due(2)}); f.Named != nil {
		t.Errorf("%+v", f.Named)
	}
}

// The last suspension before the decision counts, unless the job was resumed.
func whyJobSuspension(t *testing.T, b *Bench) {
	s := newScene(t, b)
	insert := func(action, object string, status int, age time.Duration, who string) {
		s.DB.Exec(t, "INSERT INTO {audit} (id, at, who, role, remote, action, object, status) VALUES (?, ?, ?, 'operator', '10.0.0.1', ?, ?, ?)", newID(), ago(age), who, action, object, status)
	}
	s.decided(passed("a", due(1), time.Time{}, reason.Suspended, "suspended"))
	about := ledger.JobQuestion{Job: "a", At: due(1)}
	if f := s.whyJob(about); !f.Suspension.At.IsZero() {
		t.Errorf("%+v", f.Suspension)
	}
	insert("POST /jobs/{name}/suspend", "a", 200, 3*time.Hour, "ann")
	insert("POST /jobs/{name}/suspend", "b", 200, 2*time.Hour, "bob")
	insert("POST /jobs/{name}/suspend", "a", 403, time.Hour, "eve")
	s.DB.Exec(t, "INSERT INTO {audit} (id, at, who, role, remote, action, object, status) VALUES (?, ?, 'later', '', '', ?, 'a', 200)", newID(), time.Now().Add(time.Hour).UnixMicro(), "POST /jobs/{name}/resume")
	if f := s.whyJob(about); f.Suspension.Who != "ann" || f.Suspension.Remote != "10.0.0.1" {
		t.Errorf("%+v", f.Suspension)
	}
	insert("POST /jobs/{name}/resume", "a", 200, 30*time.Minute, "ann")
	if f := s.whyJob(about); !f.Suspension.At.IsZero() {
		t.Errorf("resumed: %+v", f.Suspension)
	}
	for i, action := range []string{"POST /resume/jobs", "POST /suspend/jobs"} {
		insert("POST /jobs/{name}/suspend", "a", 200, time.Duration(20-4*i)*time.Minute, "ann")
		if f := s.whyJob(about); f.Suspension.Who != "ann" {
			t.Errorf("suspended again: %+v", f.Suspension)
		}
		insert(action, "", 200, time.Duration(18-4*i)*time.Minute, "carol")
		if f := s.whyJob(about); !f.Suspension.At.IsZero() {
			t.Errorf("after %s it is not known who: %+v", action, f.Suspension)
		}
	}
}

// What was decided between a due time and its decision is found, and who lived then.
func whyJobQuiet(t *testing.T, b *Bench) {
	s := newScene(t, b)
	insert := func(job string, at, decided time.Duration) {
		s.DB.Exec(t, "INSERT INTO {triggers} (job, at, seq, cause, outcome, replica, decided_at) VALUES (?, ?, 0, 'schedule', 'ran', 'one', ?)", job, ago(at), ago(decided))
	}
	insert("a", time.Hour, 30*time.Minute)
	insert("b", 61*time.Minute, 61*time.Minute)
	insert("c", 50*time.Minute, 30*time.Minute)
	about := time.UnixMicro(s.DB.Int(t, "SELECT at FROM {triggers} WHERE job='a'")).UTC()
	s.DB.Exec(t, "UPDATE {sessions} SET joined_at=?, seen_at=?", ago(31*time.Minute), ago(time.Second))
	near := func(got time.Time, want time.Duration) bool {
		return got.Sub(time.UnixMicro(ago(want))).Abs() < 20*time.Second
	}
	q := s.whyJob(ledger.JobQuestion{Job: "a", At: about}).Quiet
	if q == nil || q.Other != nil || !near(q.From, 61*time.Minute) || !near(q.Until, 30*time.Minute) || len(q.Live) > 0 || q.Decider == nil || q.Decider.Replica != "one" {
		t.Fatalf("%+v", q)
	}
	for i, change := range []func(){
		func() { s.DB.Exec(t, "UPDATE {sessions} SET joined_at=?", ago(2*time.Hour)) },
		func() { s.DB.Exec(t, "UPDATE {sessions} SET dead=1, live=NULL, seen_at=?", ago(59*time.Minute)) },
	} {
		change()
		if q = s.whyJob(ledger.JobQuestion{Job: "a", At: about}).Quiet; len(q.Live) != 1 || q.Live[0].Dead != (i == 1) {
			t.Errorf("%d: %+v", i, q)
		}
	}
	insert("d", 45*time.Minute, 45*time.Minute)
	if q = s.whyJob(ledger.JobQuestion{Job: "a", At: about}).Quiet; q.Other == nil || q.Other.Job != "d" {
		t.Errorf("%+v", q)
	}
	insert("e", 2*time.Hour, 55*time.Minute) // due before, and decided meanwhile
	if q = s.whyJob(ledger.JobQuestion{Job: "a", At: about}).Quiet; q.Other == nil || q.Other.Job != "e" {
		t.Errorf("%+v", q)
	}
	insert("f", time.Hour, time.Hour)
	if f := s.whyJob(ledger.JobQuestion{Job: "a", At: about}); f.Quiet == nil {
		t.Error("late, and not asked about")
	}
	s.DB.Exec(t, "UPDATE {triggers} SET decided_at=at WHERE job='a'")
	if q = s.whyJob(ledger.JobQuestion{Job: "a", At: about}).Quiet; q != nil {
		t.Errorf("in time: %+v", q)
	}
}

// A pause of everything that held a due time is found with its end, if it was resumed; one that had ended is not.
func whyJobPaused(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.DB.Exec(t, "INSERT INTO {triggers} (job, at, seq, cause, outcome, replica, decided_at) VALUES ('a', ?, 0, 'schedule', 'ran', 'one', ?)", ago(time.Hour), ago(30*time.Minute))
	about := time.UnixMicro(s.DB.Int(t, "SELECT at FROM {triggers} WHERE job='a'")).UTC()
	insert := func(action string, status int, age time.Duration, who string) {
		s.DB.Exec(t, "INSERT INTO {audit} (id, at, who, role, remote, action, object, status) VALUES (?, ?, ?, 'operator', '10.0.0.1', ?, '', ?)", newID(), ago(age), who, action, status)
	}
	check := func(name, paused, resumed string) {
		t.Helper()
		q := s.whyJob(ledger.JobQuestion{Job: "a", At: about}).Quiet
		if q == nil || q.Paused.Who != paused || q.Resumed.Who != resumed {
			t.Errorf("%s: paused by %q, resumed by %q: %+v", name, paused, resumed, q)
		}
	}
	check("never paused", "", "")
	insert("POST /pause", 200, 4*time.Hour, "old")
	insert("POST /resume", 200, 3*time.Hour, "old")
	insert("POST /pause", 403, 70*time.Minute, "eve")
	check("it had ended", "", "")
	insert("POST /pause", 200, 2*time.Hour, "ann")
	insert("POST /pause", 200, 65*time.Minute, "bob") // changes its reason
	check("it ended by itself", "ann", "")
	insert("POST /resume", 200, 30*time.Minute-5*time.Second, "cleo") // as the audit has it
	insert("POST /pause", 200, 29*time.Minute, "dora")
	check("it was resumed", "ann", "cleo")
	s.DB.Exec(t, "DELETE FROM {audit} WHERE who='cleo'")
	s.DB.Exec(t, "INSERT INTO {triggers} (job, at, seq, cause, outcome, replica, decided_at) VALUES ('b', ?, 0, 'schedule', 'ran', 'one', ?)", ago(61*time.Minute), ago(61*time.Minute))
	check("it had ended by itself, as something was decided", "", "")
}

// Of what is to come: open tasks, lost attempts, the suspension, and what its pool is like.
func whyJobNext(t *testing.T, b *Bench) {
	s := newScene(t, b)
	f := s.whyJob(ledger.JobQuestion{Job: "a"})
	if f.About != due(1) || f.Row != nil || len(f.Open) > 0 || f.Next.Pool != nil || f.Job.Config == 0 || f.Job.Hash != hash {
		t.Errorf("%+v", f)
	}
	s.decided(run("a", due(1), true))
	must(t, s.Store.PausePool(s.ctx(), "default", "bob", new(true)))
	must(t, s.Store.SuspendJob(s.ctx(), "a", "ann", new(true)))
	s.DB.Exec(t, "INSERT INTO {audit} (id, at, who, role, remote, action, object, status) VALUES ('1', ?, 'ann', '', '', ?, 'a', 200)", ago(time.Minute), "POST /jobs/{name}/suspend")
	f = s.whyJob(ledger.JobQuestion{Job: "a", Pool: "default"})
	if f.About != due(2) || len(f.Open) != 1 || f.Open[0].State != jobs.StateRunning || f.Next.Pool == nil || *f.Next.Pool.Paused != true || len(f.Next.Live) != 1 || f.Next.Running.N != 1 || f.Suspension.Who != "ann" || !f.Job.Suspended {
		t.Errorf("%+v", f)
	}
	s.DB.Exec(t, "UPDATE {sessions} SET seen_at=0")
	s.die()
	other := s.second("two")
	must(t, reapOne(other))
	f = s.whyJob(ledger.JobQuestion{Job: "a", Pool: "default"})
	if len(f.Open) > 0 || f.BusyUntil.IsZero() || len(f.Lost) != 1 || f.Lost[0].Replica != "one" {
		t.Errorf("%+v", f)
	}
	if f = s.whyJob(ledger.JobQuestion{Job: "c", At: due(9)}); f.About != due(9) || f.First != (time.Time{}) || len(f.Lost) > 0 {
		t.Errorf("%+v", f)
	}
}

// reapOne has what a dead session ran reaped.
func reapOne(s *scene) error {
	reaped, err := s.Store.Reap(s.ctx(), 10)
	if err == nil && len(reaped) != 1 {
		err = fmt.Errorf("%d tasks were reaped", len(reaped))
	}
	return err
}
