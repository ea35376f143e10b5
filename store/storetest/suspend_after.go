package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

var suspendAfterCases = []Case{
	{"SuspendAfter/Runs", suspendAfterRuns},
	{"SuspendAfter/Lost", suspendAfterLosses},
	{"SuspendAfter/Once", suspendAfterOnce},
	{"SuspendAfter/Together", suspendAfterTogether},
}

// suspends makes jobs be suspended after so many runs.
func (s *scene) suspends(after int) {
	s.t.Helper()
	d := definitions()
	for i := range d.Jobs {
		d.Jobs[i].SuspendAfter = after
	}
	_, err := s.Store.Assert(s.ctx(), s.session, d)
	must(s.t, err)
}

// runOf has a run of job a end as it is written, as in attempts. An attempt that is lost in a drain is not retried.
func (s *scene) runOf(job string, n int, how rune, unread bool) ledger.Result {
	s.t.Helper()
	d := byHand(job, n, "", false)
	got, err := s.decide(d)
	must(s.t, err)
	if len(got.Started) != 1 {
		s.t.Fatalf("started %+v", got)
	}
	r := result(got.Started[0], ledger.Ended, jobs.StateSucceeded)
	r.SuspendAfter = true
	switch how {
	case 'F':
		r.State, r.Code = jobs.StateFailed, reason.Timeout
	case 'A':
		r.Verdict, r.State, r.RetryIn = ledger.Again, jobs.StateFailed, time.Hour
	case 'C':
		r.State = jobs.StateCancelled
	case 'Z':
		r.Verdict, r.State, r.RetryIn = ledger.Snoozed, jobs.StatePending, time.Hour
	case 'H':
		r.Verdict, r.State = ledger.HandBack, ""
	case 'D':
		r.Verdict, r.State, r.Code = ledger.Died, jobs.StateLost, reason.Drained
	}
	if !unread { // its row is read
		r.Session = s.session
	}
	s.finish(r)
	s.DB.Exec(s.t, "DELETE FROM {tasks}")
	return r
}

// suspensionOf is how a job stands: whether it is suspended, by whom, why, and how many failed in a row.
func (s *scene) suspensionOf(job string) string {
	s.t.Helper()
	const of = " FROM {jobs} WHERE name=?"
	return strings.TrimSpace(fmt.Sprint(s.DB.Int(s.t, "SELECT COALESCE(suspended, 0)"+of, job), " ", s.DB.Text(s.t, "SELECT suspended_by"+of, job), " ",
		s.DB.Text(s.t, "SELECT suspend_reason"+of, job), " ", s.DB.Int(s.t, "SELECT failures"+of, job)))
}

// Runs that have failed count, a success starts again from none, and nothing else counts. The last one suspends the job, with one event.
func suspendAfterRuns(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.suspends(3)
	for i, c := range []struct {
		how  rune
		want string
	}{
		{'F', "0   1"}, {'S', "0   0"}, {'F', "0   1"}, {'A', "0   1"}, {'C', "0   1"}, {'Z', "0   1"}, {'H', "0   1"}, {'D', "0   2"}, {'S', "0   0"}, {'F', "0   1"}, {'F', "0   2"},
		{'F', "1 suspend_after 3 runs in a row have failed; suspend_after: 3 3"}, {'F', "1 suspend_after 3 runs in a row have failed; suspend_after: 3 3"}, {'S', "1 suspend_after 3 runs in a row have failed; suspend_after: 3 3"},
	} {
		s.runOf("a", i+1, c.how, i%2 == 0)
		s.want(fmt.Sprintf("after %d, %c", i+1, c.how), s.suspensionOf("a"), c.want)
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {events} WHERE event='suspended' AND job='a' AND trigger_at=? AND task_id<>'' AND reason='3 runs in a row have failed; suspend_after: 3'", due(12).UnixMicro())
	s.wantInt(0, "SELECT COUNT(*) FROM {jobs} WHERE name<>'a' AND (failures>0 OR suspended IS NOT NULL)")
	all, err := s.Store.Jobs(s.ctx(), "a")
	must(t, err)
	if j := all[0]; !j.Suspended || j.SuspendedBy != "suspend_after" || j.SuspendedReason != "3 runs in a row have failed; suspend_after: 3" || j.Failures != 3 {
		t.Errorf("shown is %+v", j)
	}

	// Whoever resumes it, or resets that, starts again from none.
	for _, override := range []*bool{new(false), nil} {
		must(t, s.Store.SuspendJob(s.ctx(), "a", "", override))
		s.want("resumed", s.suspensionOf("a"), "0   0")
		for i := range 3 {
			s.want("before", s.suspensionOf("a"), fmt.Sprint("0   ", i))
			s.runOf("a", 20+i, 'F', true)
		}
		s.want("suspended again", s.suspensionOf("a"), "1 suspend_after 3 runs in a row have failed; suspend_after: 3 3")
	}
	s.wantInt(3, "SELECT COUNT(*) FROM {events} WHERE event='suspended'")

	// Without it, nothing counts.
	s.suspends(0)
	must(t, s.Store.SuspendJob(s.ctx(), "b", "", nil))
	s.runOf("b", 30, 'F', true)
	s.want("without suspend_after", s.suspensionOf("b"), "0   0")
}

// What is reaped and not attempted again counts as what failed; a success that comes late starts again from none.
func suspendAfterLosses(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	s.suspends(2)
	lost, retried := byHand("a", 1, "", false), byHand("b", 1, "", false)
	retried.Triggers[0].Task.OnLost = jobs.LostRetries
	got, err := s.decide(lost, retried)
	must(t, err)
	s.die()
	other.reap()
	s.want("a, lost for good", other.suspensionOf("a"), "0   1")
	s.want("b, lost and attempted again", other.suspensionOf("b"), "0   0")
	r := result(got.Started[0], ledger.Ended, jobs.StateSucceeded)
	r.SuspendAfter, r.Task = true, &got.Started[0]
	s.finish(r)
	s.want("a, succeeded in fact", other.suspensionOf("a"), "0   0")

	other.DB.Exec(t, "UPDATE {jobs} SET failures=1 WHERE name='c'")
	s.session = s.join("one")
	_, err = s.decide(byHand("c", 1, "", false))
	must(t, err)
	s.die()
	other.reap()
	s.want("c, the second loss", other.suspensionOf("c"), "1 suspend_after 2 runs in a row have failed; suspend_after: 2 2")
	s.wantInt(1, "SELECT COUNT(*) FROM {events} WHERE event='suspended' AND job='c'")
}

// Ends that are written in one call count in their order, and those behind the one that suspends the job do not.
func suspendAfterOnce(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.suspends(2)
	var results []ledger.Result
	for i, state := range []jobs.State{jobs.StateFailed, jobs.StateSucceeded, jobs.StateFailed, jobs.StateFailed, jobs.StateSucceeded, jobs.StateFailed, jobs.StateFailed} {
		got, err := s.decide(byHand("a", i+1, "", false))
		must(t, err)
		r := result(got.Started[0], ledger.Ended, state)
		r.SuspendAfter = true
		results = append(results, r)
	}
	s.finish(results...)
	s.want("a", s.suspensionOf("a"), "1 suspend_after 2 runs in a row have failed; suspend_after: 2 2")
	s.wantInt(1, "SELECT COUNT(*) FROM {events} WHERE event='suspended'")
	s.finish(results...) // again: what was written counts no more
	s.wantInt(1, "SELECT COUNT(*) FROM {events} WHERE event='suspended'")
}

// Ends that two replicas write at the same time all count, and one of them suspends the job.
func suspendAfterTogether(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	s.suspends(20)
	both := []*scene{s, other}
	var results [2][]ledger.Result
	for i := range 40 {
		me := both[i%2]
		got, err := me.decide(byHand("a", i+1, "", false))
		must(t, err)
		r := result(got.Started[0], ledger.Ended, jobs.StateFailed)
		r.SuspendAfter = true
		results[i%2] = append(results[i%2], r)
	}
	for n := range 20 {
		Together(t, 2, func(ctx context.Context, i int) error {
			_, err := both[i].Store.Finish(ctx, both[i].session, results[i][n:n+1])
			return err
		})
		want := fmt.Sprint("0   ", 2*n+2)
		if n >= 9 {
			want = "1 suspend_after 20 runs in a row have failed; suspend_after: 20 20"
		}
		if s.want(fmt.Sprintf("after %d", 2*n+2), s.suspensionOf("a"), want); t.Failed() {
			return
		}
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {events} WHERE event='suspended'")
}
