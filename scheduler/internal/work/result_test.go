package work

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// The result of an attempt, by how it ended and why it was told to stop.
func TestWhatAnAttemptComesTo(t *testing.T) {
	failed := errors.New("failed")
	again := func(in time.Duration) ledger.Result {
		return ledger.Result{Verdict: ledger.Again, State: jobs.StateFailed, Code: reason.Error, Error: "failed", RetryIn: in}
	}
	ended := func(s jobs.State, code reason.Code, why, text string) ledger.Result {
		return ledger.Result{Verdict: ledger.Ended, State: s, Code: code, Reason: why, Error: text}
	}
	died := func(code reason.Code, why, text string) ledger.Result {
		return ledger.Result{Verdict: ledger.Died, State: jobs.StateLost, Code: code, Reason: why, Error: text}
	}
	noRoom, notStarted := fmt.Errorf("fork: %w", abort.ErrNoRoom), fmt.Errorf("late: %w", abort.ErrNotStarted)
	lost := fmt.Errorf("its helper: %w", abort.ErrLost)
	later := jobs.Snooze(time.Hour)
	snoozed := func(text string) ledger.Result {
		return ledger.Result{Verdict: ledger.Snoozed, State: jobs.StatePending, RetryIn: time.Hour, Reason: text, Code: reason.Snoozed}
	}
	for what, c := range map[string]struct {
		err           error
		why           stopped
		attempt, lost int
		want          ledger.Result
	}{
		"no error":                         {nil, notStopped, 1, 0, ended(jobs.StateSucceeded, "", "", "")},
		"no error after a stop":            {nil, stopTimeout, 1, 0, ended(jobs.StateSucceeded, "", "", "")},
		"the first failure":                {failed, notStopped, 1, 0, again(time.Second)},
		"the last failure with a retry":    {failed, notStopped, 2, 0, again(time.Second)},
		"the first one without":            {failed, notStopped, 3, 0, ended(jobs.StateFailed, reason.Error, "", "failed")},
		"a failure after losses":           {failed, notStopped, 4, 2, again(time.Second)},
		"a failure after too few losses":   {failed, notStopped, 4, 1, ended(jobs.StateFailed, reason.Error, "", "failed")},
		"a delay of its own":               {jobs.RetryAfter(time.Hour, failed), notStopped, 1, 0, again(time.Hour)},
		"a timeout":                        {failed, stopTimeout, 3, 0, ended(jobs.StateFailed, reason.Timeout, "why", "failed")},
		"a drain":                          {failed, stopDrained, 1, 0, died(reason.Drained, "why", "failed")},
		"its time was over":                {failed, stopExpired, 1, 0, died(reason.SessionExpired, "why", "failed")},
		"cancelled":                        {failed, stopCancelled, 1, 0, ended(jobs.StateCancelled, reason.Cancelled, "why", "failed")},
		"cancelled by its handler":         {jobs.Cancel(failed), notStopped, 1, 0, ended(jobs.StateCancelled, reason.CancelledByHandler, "cancelled by its handler", jobs.Cancel(failed).Error())},
		"permanent":                        {jobs.Permanent(failed), notStopped, 1, 0, ended(jobs.StateFailed, reason.Error, "", "not retried: failed")},
		"permanent, wrapped, in a delay":   {jobs.RetryAfter(time.Hour, fmt.Errorf("send: %w", jobs.Permanent(failed))), notStopped, 1, 0, ended(jobs.StateFailed, reason.Error, "", "send: not retried: failed")},
		"permanent, after a timeout":       {jobs.Permanent(failed), stopTimeout, 1, 0, ended(jobs.StateFailed, reason.Timeout, "why", "not retried: failed")},
		"permanent, in a drain":            {jobs.Permanent(failed), stopDrained, 1, 0, died(reason.Drained, "why", "not retried: failed")},
		"permanent, and cancelled":         {jobs.Permanent(failed), stopCancelled, 1, 0, ended(jobs.StateCancelled, reason.Cancelled, "why", "not retried: failed")},
		"permanent, and cancels itself":    {errors.Join(jobs.Permanent(failed), jobs.Cancel(nil)), notStopped, 1, 0, ended(jobs.StateCancelled, reason.CancelledByHandler, "cancelled by its handler", "not retried: failed\ncancelled by its handler")},
		"no room":                          {noRoom, notStopped, 1, 0, ledger.Result{Verdict: ledger.HandBack, Reason: noRoom.Error(), Code: reason.NoRoom}},
		"no room, in a drain":              {noRoom, stopDrained, 1, 0, ledger.Result{Verdict: ledger.HandBack, Reason: noRoom.Error(), Code: reason.NoRoom}},
		"no room for what was cancelled":   {noRoom, stopCancelled, 1, 0, ended(jobs.StateCancelled, reason.Cancelled, "why", noRoom.Error())},
		"not started":                      {notStarted, notStopped, 1, 0, ledger.Result{Verdict: ledger.HandBack}},
		"not started, in a drain":          {notStarted, stopDrained, 1, 0, ledger.Result{Verdict: ledger.HandBack}},
		"not started, as it was cancelled": {notStarted, stopCancelled, 1, 0, ended(jobs.StateCancelled, reason.Cancelled, "why", notStarted.Error())},
		"snoozed":                          {later, notStopped, 3, 0, snoozed("snoozed for 1h0m0s")},
		"snoozed, with a text":             {fmt.Errorf("no file: %w", later), notStopped, 3, 0, snoozed("no file: snoozed for 1h0m0s")},
		"snoozed, in a drain":              {later, stopDrained, 1, 0, snoozed("snoozed for 1h0m0s")},
		"snoozed, after a timeout":         {later, stopTimeout, 3, 0, snoozed("snoozed for 1h0m0s")},
		"snoozed, and cancelled":           {later, stopCancelled, 1, 0, ended(jobs.StateCancelled, reason.Cancelled, "why", "snoozed for 1h0m0s")},
		"snoozed, and cancels itself":      {jobs.Cancel(later), notStopped, 1, 0, ended(jobs.StateCancelled, reason.CancelledByHandler, "cancelled by its handler", jobs.Cancel(later).Error())},
		"snoozed, and permanent":           {jobs.Permanent(later), notStopped, 1, 0, ended(jobs.StateFailed, reason.Error, "", "not retried: snoozed for 1h0m0s")},
		"lost":                             {lost, notStopped, 1, 0, died(reason.OutcomeUnknown, lost.Error(), lost.Error())},
		"lost, in a drain":                 {lost, stopDrained, 1, 0, died(reason.Drained, "why", lost.Error())},
		"lost, and cancelled":              {lost, stopCancelled, 1, 0, ended(jobs.StateCancelled, reason.Cancelled, "why", lost.Error())},
		"lost, after a timeout":            {lost, stopTimeout, 3, 0, ended(jobs.StateFailed, reason.Timeout, "why", lost.Error())},
	} {
		a := &attempt{
			task: &jobs.Task{ID: "1", Token: 7, Attempt: c.attempt, Lost: c.lost},
			work: plan.Execution{Retries: jobs.Retries{Limit: 2, Backoff: time.Second, MaxBackoff: time.Second}},
			why:  c.why,
		}
		if c.why != notStopped {
			a.reason = "why"
		}
		got := a.result(c.err, []byte("out"), "")
		c.want.TaskID, c.want.Token = "1", 7
		if got.Verdict.Undone() == (string(got.Output) == "out") {
			t.Errorf("%s: the output is %q", what, got.Output)
		}
		if got.Output = nil; got.RetryIn >= time.Second/2 && got.RetryIn <= 3*time.Second/2 {
			got.RetryIn = time.Second // within half of it, by lot
		}
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) {
			t.Errorf("%s:\n%+v, want\n%+v", what, got, c.want)
		}
	}
	full := (&attempt{task: &jobs.Task{}}).result(fmt.Errorf("command: %w", &jobs.ExitError{Code: -1, Signal: 9, OutOfMemory: true, Text: "killed at its memory limit of 1 GiB"}), nil, "")
	if full.Code != reason.MemoryLimit || full.State != jobs.StateFailed || full.ExitCode == nil || *full.ExitCode != -1 {
		t.Errorf("killed at its memory limit: %+v", full)
	}
	exit := (&attempt{task: &jobs.Task{}}).result(fmt.Errorf("command: %w", &jobs.ExitError{Code: 3}), nil, "")
	if exit.ExitCode == nil || *exit.ExitCode != 3 || exit.Code != reason.ExitCode {
		t.Errorf("the exit code is %v, and the reason %s", exit.ExitCode, exit.Code)
	}
}

// A task that is claimed when the replica takes nothing any more is handed back, and its slot is free again.
func TestWhatComesAfterTheLastStartGoesBack(t *testing.T) {
	st := replicatest.NewPicky(nil)
	s := replicaOn(t, st, replicatest.Blocked{})
	s.work.attempts.drain()
	s.work.slots.take("p", 1)
	s.work.start(t.Context(), claimed{task: &jobs.Task{ID: "1", Token: 7, Pool: "p"}, session: "session"})
	if room := s.work.slots.room("p"); room != 4 || !s.work.register.holds("1") {
		t.Errorf("%d slots are free, want 4; it is to be recorded: %v", room, s.work.register.holds("1"))
	}
	if batch := s.work.recorder.take(); len(batch) != 1 || batch[0].result.Verdict != ledger.HandBack || batch[0].result.Token != 7 || batch[0].session != "session" {
		t.Errorf("to record: %+v", batch)
	}
}

// A replica starts no task of a session that it does not have any more or that is not trusted, none that it has no
// handler for, and none after a halt. They are handed back.
func TestWhatIsNotStartedGoesBack(t *testing.T) {
	for what, spoil := range map[string]func(s *replica, c *claimed){
		"nothing is wrong":   nil,
		"of another session": func(_ *replica, c *claimed) { c.session = "other" },
		"it is not trusted": func(s *replica, _ *claimed) {
			s.assume(&membership.Session{ID: "session", Trust: boottime.Awake()})
		},
		"nobody knows its pool": func(_ *replica, c *claimed) { c.task.Pool = "q" },
		"nobody knows its kind": func(_ *replica, c *claimed) { c.task.Kind = "k" },
		"after a halt":          func(s *replica, _ *claimed) { s.Halt() },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &replicatest.Counting{}
				s := replicaOn(t, replicatest.NewPicky(nil), h)
				s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Hour)})
				c := claimed{task: &jobs.Task{ID: "1", Pool: "p"}, session: "session"}
				if spoil != nil {
					spoil(s, &c)
				}
				s.work.execute(context.Background(), c)
				verdict := s.work.recorder.take()[0].result.Verdict
				if ran := h.Count() == 1; ran != (spoil == nil) || ran == (verdict == ledger.HandBack) {
					t.Errorf("it ran: %v, and is recorded as %v", ran, verdict)
				}
			})
		})
	}
}

// A batch has results of one session, at most so many, and at most so much text unless it is one result.
func TestWhatGoesIntoABatch(t *testing.T) {
	half := make([]byte, recordBytes/2)
	for what, c := range map[string]struct {
		sessions string // of each result, a letter
		output   []byte
		text     string
		want     []int
	}{
		"as many as it takes":       {fmt.Sprintf("%0*d", recordBatch, 0), nil, "", []int{recordBatch}},
		"one more":                  {fmt.Sprintf("%0*d", recordBatch+1, 0), nil, "", []int{recordBatch, 1}},
		"of two sessions":           {"aabba", nil, "", []int{2, 2, 1}},
		"as much as it takes":       {"aaaa", half, "", []int{2, 2}},
		"more than it takes":        {"aaa", append(half[:len(half):len(half)], half...), "x", []int{1, 1, 1}},
		"a byte more than it takes": {"aaa", half, "x", []int{1, 1, 1}},
	} {
		r := newRecorder(&Executor{register: newRegister()})
		for n, session := range c.sessions {
			r.add(string(session), &jobs.Task{ID: fmt.Sprint(n)}, ledger.Result{Output: c.output, Error: c.text})
		}
		for _, want := range c.want {
			if got := len(r.take()); got != want {
				t.Errorf("%s: %d in a batch, want %d", what, got, want)
			}
		}
		if got := r.take(); len(got) > 0 {
			t.Errorf("%s: %d are left", what, len(got))
		}
	}
}

// Workers wait while recordBacklog results wait, and no longer; with one less they do not.
func TestWhenWorkersWaitForTheRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(&Executor{register: newRegister()})
		for range recordBacklog - 1 {
			r.add("session", &jobs.Task{ID: "1"}, ledger.Result{})
		}
		r.waitForRoom()
		r.add("session", &jobs.Task{ID: "2"}, ledger.Result{})
		var went bool
		go func() { r.waitForRoom(); went = true }()
		synctest.Wait()
		if went {
			t.Error("a worker went on with a full backlog")
		}
		r.take()
		synctest.Wait()
		if !went {
			t.Error("a worker waits beside a backlog that is not full")
		}
	})
}
