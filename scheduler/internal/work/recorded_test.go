package work

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// Each attempt that has ended has a line in the log, and so has a result that is fenced; a task that was handed back has
// none. Observer is told of all of them.
func TestWhatIsSaidOfARecordedResult(t *testing.T) {
	at := replicatest.Time("12:00:00")
	ofJob := jobs.Task{ID: "1", Job: "j", Pool: "p", ScheduledAt: at, Attempt: 2, Token: 7}
	ofPool := jobs.Task{ID: "2", Pool: "p", Attempt: 1, Token: 8}
	failed := ledger.Result{Verdict: ledger.Ended, State: jobs.StateFailed, Reason: "timeout", Error: "no luck"}
	became := func(f ledger.Finish, s jobs.State) ledger.Finished {
		return ledger.Finished{Finish: f, State: s}
	}
	for what, c := range map[string]struct {
		task  jobs.Task
		r     ledger.Result
		f     ledger.Finished
		want  string
		told  string
		polls bool
	}{
		"of a job":            {ofJob, ledger.Result{State: jobs.StateSucceeded}, became(ledger.Recorded, jobs.StateSucceeded), "attempt ended state=succeeded pool=p job=j at=" + at.String() + " task=1 attempt=2", "1 recorded succeeded late=false: succeeded", false},
		"of another job":      {jobs.Task{ID: "3", Job: "k", Pool: "p"}, ledger.Result{State: jobs.StateSucceeded}, became(ledger.Recorded, jobs.StateSucceeded), "attempt ended state=succeeded pool=p job=k at=" + time.Time{}.String() + " task=3 attempt=0", "3 recorded succeeded late=false: succeeded", false},
		"of a pool":           {ofPool, ledger.Result{State: jobs.StateSucceeded}, became(ledger.Recorded, jobs.StateSucceeded), "attempt ended state=succeeded pool=p task=2 attempt=1", "2 recorded succeeded late=false: succeeded", false},
		"failed":              {ofPool, failed, became(ledger.Recorded, jobs.StateFailed), "attempt ended state=failed pool=p task=2 attempt=1 reason=timeout error=no luck", "2 recorded failed late=false: failed", false},
		"failed, no reason":   {ofPool, ledger.Result{State: jobs.StateFailed, Error: "no luck"}, became(ledger.Recorded, jobs.StateFailed), "attempt ended state=failed pool=p task=2 attempt=1 error=no luck", "2 recorded failed late=false: failed", false},
		"failed, no error":    {ofPool, ledger.Result{State: jobs.StateFailed, Reason: "timeout"}, became(ledger.Recorded, jobs.StateFailed), "attempt ended state=failed pool=p task=2 attempt=1 reason=timeout", "2 recorded failed late=false: failed", false},
		"lost":                {ofPool, ledger.Result{Verdict: ledger.Died, State: jobs.StateLost}, became(ledger.Recorded, jobs.StateLost), "attempt ended state=lost pool=p task=2 attempt=1", "2 recorded lost late=false: lost", false},
		"late":                {ofPool, ledger.Result{State: jobs.StateSucceeded}, became(ledger.Late, jobs.StateSucceeded), "attempt ended state=succeeded pool=p late=true task=2 attempt=1", "2 recorded succeeded late=true: succeeded", false},
		"again":               {ofPool, ledger.Result{Verdict: ledger.Again, State: jobs.StateFailed, RetryIn: time.Minute + time.Microsecond}, became(ledger.Recorded, jobs.StatePending), "attempt ended state=failed pool=p task=2 attempt=1 retry_in=1m0s", "2 recorded failed late=false: pending", true},
		"of a job, again":     {ofJob, ledger.Result{Verdict: ledger.Again, State: jobs.StateFailed}, became(ledger.Recorded, jobs.StatePending), "attempt ended state=failed pool=p job=j at=" + at.String() + " task=1 attempt=2 retry_in=0s", "1 recorded failed late=false: pending", true},
		"refused":             {ofJob, ledger.Result{State: jobs.StateSucceeded}, became(ledger.Fenced, ""), "result rejected: stale token; the task no longer belongs to this replica task=1 job=j token=7 state=succeeded", "1 fenced succeeded: ", false},
		"handed back":         {ofJob, ledger.Result{Verdict: ledger.HandBack}, became(ledger.Recorded, jobs.StatePending), "", "1 handed back: pending", false},
		"handed back, fenced": {ofPool, ledger.Result{Verdict: ledger.HandBack}, became(ledger.Fenced, ""), "result rejected: stale token; the task no longer belongs to this replica task=2 job= token=8 state=", "2 fenced : ", false},
	} {
		log, m := &replicatest.Lines{}, &observed{}
		s := replicaOn(t, replicatest.NewPicky(nil), replicatest.Blocked{})
		s.work.log, s.work.metrics = slog.New(log), m
		var recorded []string
		s.work.on.Recorded = func(job string, state jobs.State) { recorded = append(recorded, fmt.Sprintf("%q %s", job, state)) }
		c.r.Task = &c.task
		s.work.recorded(outcome{session: "session", result: c.r}, c.f)
		if got := strings.Join(log.Take(), "\n"); got != c.want {
			t.Errorf("%s: said is %q, want %q", what, got, c.want)
		}
		warnings := &replicatest.Warnings{}
		other := replicaOn(t, replicatest.NewPicky(nil), replicatest.Blocked{})
		other.work.log = slog.New(warnings)
		other.work.recorded(outcome{session: "session", result: c.r}, c.f)
		if warned := len(warnings.Take()) > 0; warned != (strings.HasPrefix(what, "failed") || c.f.Finish == ledger.Fenced) {
			t.Errorf("%s: it is a warning: %v", what, warned)
		}
		if !slices.Equal(m.all, []string{c.told}) {
			t.Errorf("%s: metrics are told %q, not %q", what, m.all, c.told)
		}
		if polls := len(s.work.wakePoll) > 0; polls != c.polls {
			t.Errorf("%s: the poll is woken: %t", what, polls)
		}
		var told []string
		if c.f.Finish != ledger.Fenced && c.r.Verdict != ledger.HandBack {
			told = []string{fmt.Sprintf("%q %s", c.task.Job, c.f.State)}
		}
		if !slices.Equal(recorded, told) {
			t.Errorf("%s: the other parts are told %q, want %q", what, recorded, told)
		}
	}
}

// An end that another process has recorded before is counted and logged by that one. One that this replica may have written itself, by a call
// without an answer, is its own.
func TestAnEndThatWasRecordedBefore(t *testing.T) {
	for _, c := range []struct {
		verdict ledger.Verdict
		finish  ledger.Finish
		tried   bool
		told    []string
		lines   int
		wakes   int
	}{
		{ledger.Ended, ledger.Recorded, false, nil, 0, 1},
		{ledger.Ended, ledger.Late, false, nil, 0, 1},
		{ledger.HandBack, ledger.Recorded, false, nil, 0, 0},
		{ledger.Ended, ledger.Recorded, true, []string{"1 recorded succeeded late=false: succeeded"}, 1, 1},
		{ledger.HandBack, ledger.Recorded, true, []string{"1 handed back: succeeded"}, 0, 0},
	} {
		log, m := &replicatest.Lines{}, &observed{}
		s := replicaOn(t, replicatest.NewPicky(nil), replicatest.Blocked{})
		s.work.log, s.work.metrics = slog.New(log), m
		wakes := 0
		s.work.on.Recorded = func(string, jobs.State) { wakes++ }
		task := jobs.Task{ID: "1", Pool: "p", Attempt: 1}
		s.work.recorded(outcome{session: "session", result: ledger.Result{Verdict: c.verdict, State: jobs.StateSucceeded, Task: &task}, tried: c.tried},
			ledger.Finished{Finish: c.finish, Before: true, State: jobs.StateSucceeded})
		if lines := log.Take(); !slices.Equal(m.all, c.told) || len(lines) != c.lines || wakes != c.wakes {
			t.Errorf("%+v: told %q, said %q, %d woken", c, m.all, lines, wakes)
		}
	}
}

// unheardOf is a store whose first answer is lost, and that says from then on that the end was recorded before.
type unheardOf struct {
	*replicatest.Picky
	calls int
}

func (u *unheardOf) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	done, err := u.Picky.Finish(ctx, session, results)
	if u.calls++; u.calls == 1 {
		return nil, jobs.ErrUnavailable
	}
	for i := range done {
		done[i].Before = true
	}
	return done, err
}

// An end whose call had no answer is counted once, though the next call finds that it was recorded before.
func TestAnEndWithoutAnAnswerIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &observed{}
		s := replicaOn(t, &unheardOf{Picky: replicatest.NewPicky(nil)}, replicatest.Blocked{})
		s.work.metrics = m
		task := jobs.Task{ID: "1", Pool: "p", Attempt: 1}
		s.work.recorder.add("session", &task, ledger.Result{TaskID: "1", Verdict: ledger.Ended, State: jobs.StateSucceeded})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.work.recorder.run(ctx) }()
		time.Sleep(2 * recordRetry)
		synctest.Wait()
		stop()
		<-ended
		if want := []string{"1 recorded succeeded late=false: "}; !slices.Equal(m.all, want) {
			t.Errorf("told %q, want %q", m.all, want)
		}
	})
}
