package work

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// coded is a handler whose failures have codes.
type coded struct{ replicatest.Blocked }

func (coded) Codes() (low, high, timeout int) { return 1, 599, 124 }

// An attempt whose code is not listed ends its task as failed, with the reason; one whose code is, or that the list says nothing of, is retried.
func TestCodesThatAreNotRetried(t *testing.T) {
	exit := func(code, signal int) error {
		return fmt.Errorf("command: %w", &jobs.ExitError{Code: code, Signal: signal, Text: "x"})
	}
	status := func(code int, no bool) error { return &jobs.StatusError{Status: code, NoAnswer: no, Text: "x"} }
	const among = " is not among what is retried: 75, 124, 143, 502"
	for what, c := range map[string]struct {
		err    error
		why    stopped
		want   ledger.Verdict
		code   reason.Code
		reason string
	}{
		"an exit code that is listed":        {exit(75, 0), notStopped, ledger.Again, reason.ExitCode, ""},
		"one that is not":                    {exit(3, 0), notStopped, ledger.Ended, reason.NotRetried, "command: x; exit code 3" + among},
		"one that is not, and says no more":  {&jobs.ExitError{Code: 3, Text: "exit code 3"}, notStopped, ledger.Ended, reason.NotRetried, "exit code 3" + among},
		"one that is not, of many lines":     {&jobs.ExitError{Code: 3, Text: strings.Repeat("é", 150) + "\nmore"}, notStopped, ledger.Ended, reason.NotRetried, strings.Repeat("é", 128) + "; exit code 3" + among},
		"a signal that is listed":            {exit(-1, 15), notStopped, ledger.Again, reason.ExitCode, ""},
		"one that is not, as without memory": {exit(-1, 9), notStopped, ledger.Ended, reason.NotRetried, "command: x; ended by a signal, which counts as 137 and" + among},
		"a status that is listed":            {status(502, false), notStopped, ledger.Again, reason.Error, ""},
		"one that is not, of an answer":      {status(404, false), notStopped, ledger.Ended, reason.NotRetried, "x; status 404" + among},
		"no connection":                      {status(502, true), notStopped, ledger.Again, reason.Error, ""},
		"no answer in time":                  {status(504, true), notStopped, ledger.Ended, reason.NotRetried, "x; no answer, which counts as 504 and" + among},
		"a timeout of the attempt":           {exit(-1, 9), stopTimeout, ledger.Again, reason.Timeout, "why"},
		"no code":                            {errors.New("no such program"), notStopped, ledger.Ended, reason.NotRetried, "no such program; the failure has no code, and so" + among},
		"no code, and a delay":               {jobs.RetryAfter(time.Second, nil), notStopped, ledger.Again, reason.Error, ""},
		"a delay beside a code that is not":  {jobs.RetryAfter(time.Second, status(429, false)), notStopped, ledger.Ended, reason.NotRetried, "x; status 429" + among},
		"a delay beside one that is listed":  {jobs.RetryAfter(time.Second, status(502, false)), notStopped, ledger.Again, reason.Error, ""},
		"a lock was lost":                    {exit(-1, 9), stopLockLost, ledger.Again, reason.LockLost, "why"},
		"permanent":                          {jobs.Permanent(exit(75, 0)), notStopped, ledger.Ended, reason.ExitCode, ""},
		"cancelled by its handler":           {jobs.Cancel(exit(3, 0)), notStopped, ledger.Ended, reason.CancelledByHandler, "cancelled by its handler"},
		"cancelled":                          {exit(3, 0), stopCancelled, ledger.Ended, reason.Cancelled, "why"},
		"a drain":                            {exit(3, 0), stopDrained, ledger.Died, reason.Drained, "why"},
		"not known":                          {fmt.Errorf("%w: %w", abort.ErrLost, exit(3, 0)), notStopped, ledger.Died, reason.OutcomeUnknown, "lost: command: x"},
		"snoozed":                            {errors.Join(exit(3, 0), jobs.Snooze(time.Second)), notStopped, ledger.Snoozed, reason.Snoozed, "command: x\nsnoozed for 1s"},
		"a panic":                            {panicked("p"), notStopped, ledger.Ended, reason.NotRetried, "p; the failure has no code, and so" + among},
	} {
		for _, of := range []jobs.Handler{coded{}, replicatest.Blocked{}} {
			a := &attempt{
				task: &jobs.Task{Attempt: 1},
				work: plan.Execution{Handler: of, Retries: jobs.Retries{Limit: 1, Backoff: time.Second, MaxBackoff: time.Second, On: []int{75, 124, 143, 502}}},
				why:  c.why,
			}
			if c.why != notStopped {
				a.reason = "why"
			}
			r, want := a.result(read(c.err, io.Discard), nil, ""), c.want
			if _, has := of.(coded); !has && c.code == reason.NotRetried {
				want = ledger.Again // its failures have no codes
			} else if r.Code != c.code || r.Reason != c.reason && r.Verdict != ledger.Died {
				t.Errorf("%s: %s, %q; want %s, %q", what, r.Code, r.Reason, c.code, c.reason)
			}
			if r.Verdict != want {
				t.Errorf("%s, of %T: %s, want %s", what, of, r.Verdict, want)
			}
			a.work.Retries.On = nil
			if r := a.result(read(c.err, io.Discard), nil, ""); c.code == reason.NotRetried && r.Verdict != ledger.Again {
				t.Errorf("%s, without a list: %s", what, r.Verdict)
			}
		}
	}
}

// The reason is the same where no retry is left: what failed in one way is one group of dead letters.
func TestACodeThatIsNotRetriedAtTheLastAttempt(t *testing.T) {
	a := &attempt{task: &jobs.Task{Attempt: 2}, work: plan.Execution{Handler: coded{}, Retries: jobs.Retries{Limit: 1, On: []int{75}}}}
	if r := a.result(&jobs.ExitError{Code: 3}, nil, ""); r.Code != reason.NotRetried || r.ExitCode == nil || *r.ExitCode != 3 {
		t.Errorf("%s, %v", r.Code, r.ExitCode)
	}
	if r := a.result(&jobs.ExitError{Code: 75}, nil, ""); r.Code != reason.ExitCode || r.Verdict != ledger.Ended {
		t.Errorf("%s, %s", r.Code, r.Verdict)
	}
}

// A timeout whose code is not listed is not retried. The handler says which code that is.
func TestATimeoutThatIsNotRetried(t *testing.T) {
	a := &attempt{task: &jobs.Task{Attempt: 1}, work: plan.Execution{Handler: coded{}, Retries: jobs.Retries{Limit: 1, On: []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 143, 137}}}, why: stopTimeout, reason: "timeout after 1s"}
	r := a.result(&jobs.ExitError{Code: -1, Signal: 15, Text: "ended by a signal: terminated"}, nil, "")
	const want = "timeout after 1s, which counts as 124 and is not among what is retried: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, and 2 more"
	if r.Verdict != ledger.Ended || r.Code != reason.NotRetried || r.Reason != want {
		t.Errorf("%s, %s, %q", r.Verdict, r.Code, r.Reason)
	}
}
