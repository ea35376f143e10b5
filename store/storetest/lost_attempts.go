package storetest

import (
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// byHand is a manual run of job that begins as running.
func byHand(job string, n int, why string, free bool) ledger.Decision {
	var code reason.Code
	if why != "" {
		code = reason.Forced
	}
	return ledger.Decision{Job: job, Free: free, Triggers: []ledger.Opening{{
		Trigger: jobs.Trigger{Job: job, At: due(n), Cause: jobs.CauseManual, Reason: why, ReasonCode: code},
		Task:    &jobs.Task{ID: admit(newID(), time.Now().UTC().Truncate(time.Microsecond).Add(time.Hour)), Pool: "default"},
	}}}
}

// A job that is busy with a lost attempt names the task, unless its result has come since; one that is not names none.
func lostAttempt(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	before, err := s.decide(byHand("a", 1, "", false), byHand("b", 1, "", false))
	must(t, err)
	s.finish(result(before.Started[0], ledger.Ended, jobs.StateFailed))
	last, err := s.decide(byHand("a", 2, "", false))
	must(t, err)
	s.die()
	reaped := other.reap()
	if len(reaped) != 2 {
		t.Fatalf("reaped %+v", reaped)
	}
	states := other.states()
	for job, task := range map[string]jobs.Task{"a": last.Started[0], "b": before.Started[1]} {
		got := states[job]
		want := ledger.LostTask{ID: task.ID, ScheduledAt: task.ScheduledAt, Replica: "one", Until: got.BusyUntil}
		if len(got.Lost) > 0 {
			want.At = got.Lost[0].At
		}
		if d := cmp.Diff([]ledger.LostTask{want}, got.Lost); d != "" || want.At.Before(last.Now) || !got.BusyUntil.After(want.At) {
			t.Errorf("%s: %s; busy until %v", job, d, got.BusyUntil)
		}
	}
	if got := states["c"]; got.Lost != nil || !got.BusyUntil.IsZero() {
		t.Errorf("c is %+v", got)
	}
	s.finish(result(before.Started[1], ledger.Ended, jobs.StateSucceeded))
	states = other.states()
	if got := states["b"]; got.Lost != nil || !got.BusyUntil.IsZero() {
		t.Errorf("after its late result b is %+v", got)
	}
	if got := states["a"]; got.Lost == nil || got.BusyUntil.IsZero() {
		t.Errorf("after the late result of b a is %+v", got)
	}
	s.DB.Exec(t, "UPDATE {jobs} SET busy_until=1 WHERE name='a'")
	states = other.states()
	if got := states["a"]; got.Lost != nil {
		t.Errorf("when its time is over a is %+v", got)
	}

	// The latest task is not lost any more, and an earlier one still is.
	s.session = s.join("one")
	later, err := s.decide(byHand("a", 3, "", true))
	must(t, err)
	s.die()
	other.reap()
	if got := other.states()["a"]; len(got.Lost) == 0 || got.Lost[0].ID != later.Started[0].ID {
		t.Errorf("after a second loss a is %+v", got)
	}
	s.finish(result(last.Started[0], ledger.Ended, jobs.StateFailed))
	if got := other.states()["a"]; got.Lost == nil || got.BusyUntil.IsZero() {
		t.Errorf("after the late result of the first a is %+v", got)
	}
	s.finish(result(later.Started[0], ledger.Ended, jobs.StateFailed))
	if got := other.states()["a"]; got.Lost != nil || !got.BusyUntil.IsZero() {
		t.Errorf("after the late result of the second a is %+v", got)
	}
}

// The lost attempts of a time when a job allowed several at once: it is busy until the last of them must have ended, and names
// all of them that may be running, the latest loss first. A late result removes its own attempt and no other; a decision that
// they have ended names all of them.
func lostAttempts(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other, third := s.second("two"), s.second("three")
	now := time.Now().UTC().Truncate(time.Microsecond)
	lose := func(job string, n int, until time.Duration) jobs.Task {
		t.Helper()
		d := byHand(job, n, "", false)
		admit(d.Triggers[0].Task.ID, now.Add(until))
		got, err := s.decide(d)
		must(t, err)
		s.die()
		other.reap()
		s.session = s.join("one")
		return got.Started[0]
	}
	says := func(when, job string, until time.Duration, lost ...jobs.Task) {
		t.Helper()
		got := other.states()[job]
		var have, want []string
		for _, task := range got.Lost {
			have = append(have, task.ID)
		}
		for _, task := range lost {
			want = append(want, task.ID)
		}
		wantUntil := time.Time{}
		if until != 0 {
			wantUntil = now.Add(until)
		}
		if d := cmp.Diff(want, have); d != "" || !got.BusyUntil.Equal(wantUntil) {
			t.Errorf("%s: %s is busy until %v, want %v; its lost attempts (-want +got):\n%s", when, job, got.BusyUntil, wantUntil, d)
		}
	}
	ended := func(task jobs.Task) {
		t.Helper()
		s.wantFinish(s.finish(result(task, ledger.Ended, jobs.StateSucceeded)), ledger.Late)
	}
	long, short := lose("a", 1, 3*time.Hour), lose("a", 2, 2*time.Hour)
	says("after two losses", "a", 3*time.Hour, short, long)
	ended(short)
	says("after the late result of the shorter one", "a", 3*time.Hour, long)
	last := lose("a", 3, time.Hour)
	says("after another loss", "a", 3*time.Hour, last, long)
	ended(long)
	says("after the late result of the longer one", "a", time.Hour, last)
	ended(last)
	says("after all late results", "a", 0)

	// A program without may_run_until has freed the job.
	lose("a", 4, 3*time.Hour)
	freed := lose("a", 5, 2*time.Hour)
	s.DB.Exec(t, "UPDATE {jobs} SET busy_until=0 WHERE name='a'")
	ended(freed)
	says("after a late result, when it had been freed", "a", 0)
	s.DB.Exec(t, "UPDATE {done} SET may_run_until=1 WHERE job='a'")

	// The attempts that such a program recorded as lost are unknown, and so is how long they may run.
	known := lose("a", 6, time.Hour)
	s.DB.Exec(t, "UPDATE {jobs} SET fence=?, busy_until=? WHERE name='a'", known.Token+1, now.Add(2*time.Hour).UnixMicro())
	ended(known)
	says("after a late result beside an attempt that is not known", "a", 2*time.Hour)
	s.DB.Exec(t, "UPDATE {jobs} SET busy_until=0 WHERE name='a'")
	old := lose("a", 7, time.Hour)
	s.DB.Exec(t, "UPDATE {done} SET may_run_until=0 WHERE id=?", old.ID)
	ended(old)
	says("after the late result of the attempt that is not known", "a", 0)

	long, short = lose("b", 1, 3*time.Hour), lose("b", 2, 2*time.Hour)
	s.DB.Exec(t, "UPDATE {done} SET may_run_until=1 WHERE id=?", short.ID)
	says("when the time of one is over", "b", 3*time.Hour, long)
	apart := lose("c", 1, time.Hour)

	// The later one of two tasks is lost first.
	d := byHand("c", 2, "", false)
	admit(d.Triggers[0].Task.ID, now.Add(time.Hour))
	earlier, err := third.decide(d)
	must(t, err)
	lostFirst := lose("c", 3, time.Hour)
	third.die()
	other.reap()
	says("when the later one of two was lost first", "c", time.Hour, earlier.Started[0], lostFirst, apart)
	free, err := s.decide(byHand("b", 3, "", true))
	must(t, err)
	says("when they have been given up", "b", 0)
	says("beside what was given up", "c", time.Hour, earlier.Started[0], lostFirst, apart)
	s.finish(result(free.Started[0], ledger.Ended, jobs.StateSucceeded))
	last = lose("b", 4, time.Hour)
	says("after a later loss", "b", time.Hour, last)
	const columns = `pool, kind, job, trigger_at, trigger_seq, rank_order, run_at, attempt, max_attempts, on_lost, token, session_id, replica, idem_key,
		payload, tags, retry_of, created_at, started_at, made_by, state, failures, losses, reason, error, exit_code, finished_at`
	for i := range 100 {
		s.DB.Exec(t, "INSERT INTO {done} (id, may_run_until, "+columns+") SELECT ?, 1, "+columns+" FROM {done} WHERE id=?", "0-"+strconv.Itoa(i), last.ID)
	}
	says("with a hundred losses before, whose time is over", "b", time.Hour, last)
}

// However long the id of a replica and the reasons are: that a run was forced, lost and late stays in its row, and nothing is
// cut within a letter.
func forcedTexts(t *testing.T, b *Bench) {
	s := newScene(t, b)
	long := s.second(strings.Repeat("r", 128))
	notes := map[string]string{"a": "y" + strings.Repeat("é", 300), "b": "somebody may object", "c": strings.Repeat("yé", 117)}
	got, err := long.decide(byHand("a", 1, notes["a"], false), byHand("b", 1, notes["b"], false), byHand("c", 1, notes["c"], false))
	must(t, err)
	long.die()
	if n := len(s.reap()); n != 3 {
		t.Fatalf("reaped %d", n)
	}
	var late []ledger.Result
	for _, task := range got.Started {
		r := result(task, ledger.Ended, jobs.StateFailed)
		r.Reason = strings.Repeat("é", 300)
		late = append(late, r)
	}
	s.wantFinish(long.finish(late...), ledger.Late, ledger.Late, ledger.Late)
	for job, note := range notes {
		why := s.DB.Text(t, "SELECT reason FROM {triggers} WHERE job=? AND seq=1", job)
		if note = note[:min(len(note), 352)]; !strings.HasPrefix(why, strings.ToValidUTF8(note, "")) {
			t.Errorf("%s: that it was forced is lost: %q", job, why)
		}
		if !utf8.ValidString(why) || len(why) > 512 || !strings.Contains(why, "; the session of replica rrrrrrrr") || !strings.Contains(why, "; late: éééééééé") {
			t.Errorf("%s: its reason has %d bytes: %q", job, len(why), why)
		}
	}
}

// What a decision gave up that was not written, because another one was written before, stays as it was.
func askedAgain(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	_, err := s.decide(byHand("a", 1, "", false), run("b", due(1), false))
	must(t, err)
	s.die()
	other.reap()
	before := other.states()["a"]
	asked := 0
	_, err = decidedOf(other.Store.Decide(s.ctx(), other.deciding(func([]ledger.JobState) []ledger.Decision {
		if asked++; asked > 1 {
			return nil
		}
		return []ledger.Decision{byHand("a", 2, "", true), run("b", due(1), false)}
	})))
	must(t, err)
	if d := cmp.Diff(before, other.states()["a"]); asked != 2 || len(before.Lost) != 1 || d != "" {
		t.Errorf("asked %d times: %s", asked, d)
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {done} WHERE job='a' AND may_run_until>0")
}

// A forced run frees its job of the lost attempt, and its row keeps that reason, beside what its end adds.
func forced(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	lost, err := s.decide(byHand("a", 1, "", false), byHand("b", 1, "", false))
	must(t, err)
	s.die()
	other.reap()
	s.session = s.join("one")
	const note = "somebody may object" // the code says that it was forced, whatever the sentence
	long := note + strings.Repeat("é", 300)
	narrow := note + strings.Repeat("y", 600)
	got, err := s.decide(byHand("a", 2, note, true), byHand("c", 2, long, false), byHand("c", 3, narrow, false))
	must(t, err)
	if len(got.Started) != 3 || got.Started[0].Token != lost.Started[0].Token+1 {
		t.Fatalf("started %+v", got.Started)
	}
	s.wantInt(0, "SELECT busy_until FROM {jobs} WHERE name='a'")
	s.wantInt(1, "SELECT COUNT(*) FROM {jobs} WHERE name='b' AND busy_until>0")
	s.want("open", s.trigger("a", due(2), 1), "open: "+note)

	unforced := byHand("b", 2, "", false)
	unforced.Triggers[0].Trigger.Reason = "forced although no code says so"
	plain, err := s.decide(unforced)
	must(t, err)
	s.wantInt(1, "SELECT COUNT(*) FROM {jobs} WHERE name='b' AND busy_until>0")
	failed := result(got.Started[1], ledger.Ended, jobs.StateFailed)
	failed.Reason, failed.Code = strings.Repeat("x", 600), reason.ExitCode
	again := failed
	again.TaskID, again.Token = got.Started[2].ID, got.Started[2].Token
	s.finish(result(got.Started[0], ledger.Ended, jobs.StateSucceeded), failed, again, result(plain.Started[0], ledger.Ended, jobs.StateSucceeded))
	s.want("succeeded", s.trigger("a", due(2), 1), "ran succeeded: "+note)
	code := func(job string, n int) string {
		return s.DB.Text(t, "SELECT reason_code FROM {triggers} WHERE job=? AND at=? AND seq=1", job, due(n).UnixMicro())
	}
	s.want("succeeded", code("a", 2), "forced")
	s.want("not forced", code("b", 2), "")
	s.want("failed", code("c", 2), "exit_code")
	s.want("not forced", s.trigger("b", due(2), 1), "ran succeeded: -")
	if row := s.trigger("c", due(2), 1); !strings.HasPrefix(row, "ran failed: "+note) || !strings.Contains(row, "; "+strings.Repeat("x", 158)) || !utf8.ValidString(row) {
		t.Errorf("a long reason: %q", row)
	}
	if row := s.trigger("c", due(3), 1); !strings.HasPrefix(row, "ran failed: "+note+"yyy") || !strings.Contains(row, "y; "+strings.Repeat("x", 158)) {
		t.Errorf("a long reason in short letters: %q", row)
	}

	if _, is := sqlOf(b.Store); is {
		s.wantInt(512, "SELECT MAX(LENGTH(reason)) FROM {triggers}") // which its column takes
	}

	// A forced run that is lost itself, and whose result comes late.
	lostAgain, err := s.decide(byHand("a", 3, note, true))
	must(t, err)
	s.die()
	other.reap()
	s.want("lost", s.trigger("a", due(3), 1), "lost lost: "+note+"; the session of replica one expired while it had the task")
	s.want("lost", code("a", 3), "replica_died")
	s.wantInt(1, "SELECT COUNT(*) FROM {jobs} WHERE name='a' AND busy_until>0")
	s.finish(result(lostAgain.Started[0], ledger.Ended, jobs.StateSucceeded))
	s.want("late", s.trigger("a", due(3), 1), "ran succeeded: "+note+"; the session of replica one expired while it had the task; late")
	s.want("late", code("a", 3), "late")
}
