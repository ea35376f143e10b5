package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// The attempts of live workers that have timed out are found; those of replicas have may_run_until for another reason, and those of dead
// workers are reaped.
func timedOutAtWorkers(t *testing.T, b *Bench) {
	s := newScene(t, b)
	session, dead := s.worker("mailer-1", "", "work", ""), s.worker("mailer-2", "", "work", "")
	ids := s.enqueue("work", 5)
	first := s.claimFor(session, "mailer-1", "work", 1, time.Minute)[0]
	s.claimFor(session, "mailer-1", "work", 2, time.Hour)
	s.claimFor(dead, "mailer-2", "work", 1, time.Minute)
	s.claim("work", 1)
	must(t, s.Store.Leave(s.ctx(), dead))
	for _, c := range []struct {
		after time.Duration
		limit int
		want  []string
	}{
		{time.Minute - time.Microsecond, 9, nil},
		{time.Minute, 9, ids[:1]},
		{2 * time.Hour, 9, ids[:3]},
		{2 * time.Hour, 2, ids[:2]},
	} {
		got, err := s.Store.TimedOut(s.ctx(), first.StartedAt.Add(c.after), c.limit)
		must(t, err)
		var found []string
		for _, h := range got {
			if found = append(found, h.ID); h.Session != session || h.Token != 1 || len(h.Payload) > 0 {
				t.Errorf("found %+v", h)
			}
		}
		if diff := cmp.Diff(c.want, found); diff != "" {
			t.Errorf("%v after the start: %s", c.after, diff)
		}
	}
}

// Attempts of several workers are ended by one call, each under the session that it names and its token.
func endedTogether(t *testing.T, b *Bench) {
	s := newScene(t, b)
	one, two := s.worker("mailer-1", "", "work", ""), s.worker("mailer-2", "", "work", "")
	s.enqueue("work", 4)
	first, second := s.claimFor(one, "mailer-1", "work", 2, time.Minute), s.claimFor(two, "mailer-2", "work", 2, time.Minute)
	result := func(task jobs.Task, session string, verdict ledger.Verdict) ledger.Result {
		return ledger.Result{TaskID: task.ID, Token: task.Token, Session: session, Verdict: verdict, State: jobs.StateFailed, Code: reason.Timeout, Task: &task}
	}
	stale := second[1]
	stale.Token++
	done := s.finish(result(first[0], one, ledger.Ended), result(second[0], two, ledger.Again), result(first[1], two, ledger.Ended), result(stale, two, ledger.Ended))
	s.wantFinish(done, ledger.Recorded, ledger.Recorded, ledger.Fenced, ledger.Fenced)
	s.want("the first", s.task(first[0].ID), "failed attempt 1 token 1 replica mailer-1: -")
	s.want("the second's", s.task(second[0].ID), "waits attempt 1 token 1 replica -: -")
	s.want("under another session", s.task(first[1].ID), "running attempt 1 token 1 replica mailer-1: -")
	s.want("under another token", s.task(second[1].ID), "running attempt 1 token 1 replica mailer-2: -")
}

// Of several calls that record the same end, one has written it, whatever the end is, and the others are told that it was recorded before.
func endedByTwo(t *testing.T, b *Bench) {
	s := newScene(t, b)
	ends := []ledger.Result{
		{Verdict: ledger.Ended, State: jobs.StateSucceeded},
		{Verdict: ledger.Again, State: jobs.StateFailed, RetryIn: time.Hour},
		{Verdict: ledger.Snoozed, State: jobs.StatePending, RetryIn: time.Hour},
		{Verdict: ledger.HandBack},
		{Verdict: ledger.Died, State: jobs.StateLost},
		{Verdict: ledger.Ended, State: jobs.StateFailed},
	}
	session := s.worker("mailer-1", "", "work", "")
	s.enqueue("work", len(ends))
	for i, task := range s.claimFor(session, "mailer-1", "work", len(ends), time.Hour) {
		ends[i].TaskID, ends[i].Token, ends[i].Session = task.ID, task.Token, session
		if i == 0 {
			ends[i].Task, ends[i].Session = &task, "" // the row is not read then
		}
	}
	const calls = 4
	var group sync.WaitGroup
	var all [calls][]ledger.Finished
	for i := range calls {
		other := s.second(fmt.Sprint("r", i))
		group.Go(func() {
			for _, end := range ends {
				done, err := other.Store.Finish(s.ctx(), session, []ledger.Result{end})
				if err != nil {
					t.Error(err)
					return
				}
				all[i] = append(all[i], done[0])
			}
		})
	}
	group.Wait()
	for e := range ends {
		wrote := 0
		for i := range calls {
			if e >= len(all[i]) || all[i][e].Finish != ledger.Recorded {
				t.Fatalf("end %d by call %d: %+v", e, i, all[i])
			}
			if !all[i][e].Before {
				wrote++
			}
		}
		if wrote != 1 {
			t.Errorf("end %d, %s %s, was written by %d calls", e, ends[e].Verdict, ends[e].State, wrote)
		}
	}

	// A late result counts once, too.
	lost := s.enqueue("default", 1)
	task := s.claim("default", 1)[0]
	s.die()
	s.second("living").reap()
	for i, before := range []bool{false, true} {
		done := s.finish(ledger.Result{TaskID: lost[0], Token: task.Token, Verdict: ledger.Ended, State: jobs.StateSucceeded})
		if done[0].Finish != ledger.Late || done[0].Before != before {
			t.Errorf("late, time %d: %+v", i+1, done[0])
		}
	}
}
