package storetest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

var expectationCases = []Case{
	{"Expectations/Rows", expectationRows},
	{"Expectations/Late", lateRuns},
	{"Expectations/Limit", lateLimit},
	{"Expectations/Refused", lateRefused},
	{"Expectations/Together", lateTogether},
}

// expecting is a decision about a run with expectations; a zero time is none.
func expecting(d ledger.Decision, startBy, finishBy time.Time) ledger.Decision {
	d.Triggers[0].StartBy, d.Triggers[0].FinishBy = startBy, finishBy
	return d
}

// lateAt is a LateRuns call at a time; each event is shown as "a start_late".
func (s *scene) lateAt(now time.Time, limit int) (told []string, more bool) {
	s.t.Helper()
	got, err := s.Store.LateRuns(s.ctx(), func(time.Time) (time.Time, error) { return now, nil }, limit)
	must(s.t, err)
	for _, e := range got.Events {
		told = append(told, e.Job+" "+string(e.ReasonCode))
	}
	return told, got.More
}

func (s *scene) wantLate(now time.Time, want ...string) {
	s.t.Helper()
	if got, more := s.lateAt(now, 100); !slices.Equal(got, want) || more {
		s.t.Errorf("at %s told of %q, more %v; want %q", now, got, more, want)
	}
}

// A run has a row for each thing that is expected of it; what does not run has none. The look at what is ahead says when the first is due.
func expectationRows(t *testing.T, b *Bench) {
	s := newScene(t, b)
	skipped := ledger.Decision{Job: "c", Cursor: due(1), NextAt: due(2), Triggers: []ledger.Opening{{
		Trigger: jobs.Trigger{Job: "c", At: due(1), Count: 1, Cause: jobs.CauseSchedule, Outcome: jobs.Skipped, Reason: "suspended"}, StartBy: due(2), FinishBy: due(3),
	}}}
	if is, err := s.Store.Ready(s.ctx(), asIs); err != nil || !is.Expected.IsZero() {
		t.Errorf("before: %v, %v", is.Expected, err)
	}
	_, err := s.decide(expecting(run("a", due(1), true), due(3), due(4)), expecting(run("b", due(1), false), time.Time{}, due(2)), skipped)
	must(t, err)
	s.wantInt(3, "SELECT COUNT(*) FROM {expectations}")
	for _, row := range []struct {
		job, what string
		by        time.Time
	}{{"a", "start", due(3)}, {"a", "finish", due(4)}, {"b", "finish", due(2)}} {
		s.wantInt(1, "SELECT COUNT(*) FROM {expectations} WHERE job=? AND at=? AND seq=0 AND what=? AND due_by=?", row.job, due(1).UnixMicro(), row.what, row.by.UnixMicro())
	}
	if is, err := s.Store.Ready(s.ctx(), asIs); err != nil || !is.Expected.Equal(due(2)) {
		t.Errorf("the first is expected by %v, %v, want %v", is.Expected, err, due(2))
	}
	// Asked again, the decision leaves the rows as they are.
	_, err = s.decide(expecting(run("a", due(1), true), due(5), due(6)))
	must(t, err)
	s.wantInt(3, "SELECT COUNT(*) FROM {expectations}")
}

// Each expectation that is not met makes one event, by what the run has done up to then, whichever replica looks.
func lateRuns(t *testing.T, b *Bench) {
	s := newScene(t, b)
	now := time.Now().UTC().Truncate(time.Second)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	pending := expecting(run("b", due(1), false), in(time.Minute), in(3*time.Minute))
	_, err := s.decide(
		expecting(run("a", due(1), true), in(time.Minute), in(2*time.Minute)), // starts at once
		pending,
		expecting(run("c", due(1), true), in(-time.Hour), time.Time{}), // starts too late
	)
	must(t, err)
	s.wantLate(in(0), "c start_late")
	s.wantLate(in(time.Minute)) // its time has come, and not yet for a second
	s.wantLate(in(time.Minute+ledger.LateAfter), "b start_late")
	s.wantLate(in(time.Minute + ledger.LateAfter))
	s.wantLate(in(2*time.Minute+ledger.LateAfter), "a finish_late")
	s.want("events", s.events(), "late job c, late job b, late job a")
	s.wantInt(1, "SELECT COUNT(*) FROM {events} WHERE job='b' AND trigger_at=? AND trigger_seq=0 AND task_id=? AND reason_code='start_late' AND reason LIKE 'not started by %'",
		due(1).UnixMicro(), idOf(pending))
	s.wantInt(1, "SELECT COUNT(*) FROM {events} WHERE job='c' AND reason LIKE 'started at %, not by %'")
	s.wantInt(1, "SELECT COUNT(*) FROM {expectations}")

	// A run that was cancelled before it started was decided not to run, and one that ended in time is not late.
	claimed := s.claim("default", 1)
	if len(claimed) != 1 || claimed[0].ID != idOf(pending) {
		t.Fatalf("claimed %+v", claimed)
	}
	s.finish(result(claimed[0], ledger.Ended, jobs.StateSucceeded))
	s.wantLate(in(time.Hour))
	cancelled := expecting(run("b", due(2), false), in(time.Minute), in(2*time.Minute))
	gone := expecting(run("a", due(2), false), in(time.Minute), time.Time{})
	_, err = s.decide(cancelled, gone)
	must(t, err)
	s.DB.Exec(t, "UPDATE {triggers} SET outcome='skipped', reason='cancelled' WHERE job='b' AND at=?", due(2).UnixMicro())
	s.DB.Exec(t, "DELETE FROM {triggers} WHERE job='a' AND at=?", due(2).UnixMicro())
	s.wantLate(in(time.Hour))
	s.wantEmpty("expectations")
}

// A call looks at so many, the oldest first.
func lateLimit(t *testing.T, b *Bench) {
	s := newScene(t, b)
	now := time.Now().UTC()
	var decisions []ledger.Decision
	for n, job := range []string{"c", "a", "b"} {
		decisions = append(decisions, expecting(run(job, due(1), false), now.Add(time.Duration(n)*time.Minute), time.Time{}))
	}
	_, err := s.decide(decisions...)
	must(t, err)
	got, more := s.lateAt(now.Add(time.Hour), 2)
	if strings.Join(got, ", ") != "c start_late, a start_late" || !more {
		t.Errorf("told of %q, more %v", got, more)
	}
	if got, more = s.lateAt(now.Add(time.Hour), 2); strings.Join(got, ", ") != "b start_late" || more {
		t.Errorf("then of %q, more %v", got, more)
	}
}

// While the time is not trusted nothing is late.
func lateRefused(t *testing.T, b *Bench) {
	s := newScene(t, b)
	_, err := s.decide(expecting(run("a", due(1), false), due(2), time.Time{}))
	must(t, err)
	wrong := errors.New("the clock is wrong")
	if _, err := s.Store.LateRuns(s.ctx(), func(time.Time) (time.Time, error) { return time.Time{}, wrong }, 10); !errors.Is(err, wrong) {
		t.Errorf("the answer is %v", err)
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {expectations}")
	s.wantEmpty("events")
}

// Several replicas that look at once tell of each expectation once.
func lateTogether(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	const n = 40
	now := time.Now().UTC()
	for i := range n {
		_, err := s.decide(expecting(run("a", due(i+1), false), now.Add(time.Duration(i%3)*time.Second), now.Add(time.Minute)))
		must(t, err)
	}
	type answer struct {
		told int
		err  error
	}
	answers := make(chan answer, 4)
	for i := range 4 {
		from := []*scene{s, other}[i%2]
		ctx := from.ctx()
		go func() {
			a := answer{}
			for more := true; more && a.err == nil; {
				var got ledger.Lateness
				got, a.err = from.Store.LateRuns(ctx, func(time.Time) (time.Time, error) { return now.Add(time.Hour), nil }, 7)
				a.told += len(got.Events)
				more = got.More
			}
			answers <- a
		}()
	}
	told := 0
	for range 4 {
		a := <-answers
		must(t, a.err)
		told += a.told
	}
	if told != 2*n {
		t.Errorf("told %d times", told)
	}
	s.wantEmpty("expectations")
	s.wantInt(2*n, "SELECT COUNT(*) FROM {events} WHERE event='late'")
	for _, code := range []reason.Code{reason.StartLate, reason.FinishLate} {
		s.wantInt(n, "SELECT COUNT(*) FROM (SELECT DISTINCT trigger_at FROM {events} WHERE reason_code=?) a", string(code))
	}
}
