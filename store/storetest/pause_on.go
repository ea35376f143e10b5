package storetest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

var pauseOnCases = []Case{
	{"PauseOn/Attempts", pauseOnAttempts},
	{"PauseOn/Twice", pauseOnTwice},
	{"PauseOn/Once", pauseOnOnce},
	{"PauseOn/Anew", pauseOnAnew},
	{"PauseOn/Together", pauseOnTogether},
}

// half of four.
var half = jobs.PauseOn{Failures: 50, Of: 4}

// attempts has tasks of a pool end as they are written: F failed for good, A failed and attempted again, S succeeded, C cancelled, Z snoozed,
// H handed back, D lost in a drain. All are in one call, as if the pool had that PauseOn.
func (s *scene) attempts(pool string, on jobs.PauseOn, how string) []ledger.Result {
	s.t.Helper()
	s.enqueue(pool, len(how))
	var results []ledger.Result
	for i, task := range s.claim(pool, len(how)) {
		r := result(task, ledger.Ended, jobs.StateSucceeded)
		r.PauseOn = ledger.PauseOn{Pool: pool, PauseOn: on}
		switch how[i] {
		case 'F':
			r.State, r.Code = jobs.StateFailed, reason.Timeout
		case 'A':
			r.Verdict, r.State, r.RetryIn = ledger.Again, jobs.StateFailed, time.Hour
		case 'C':
			r.State = jobs.StateCancelled
		case 'Z':
			r.Verdict, r.State = ledger.Snoozed, jobs.StatePending
			r.RetryIn = time.Hour
		case 'H':
			r.Verdict, r.State, r.RetryIn = ledger.HandBack, "", 0
		case 'D':
			r.Verdict, r.State, r.Code = ledger.Died, jobs.StateLost, reason.Drained
		}
		results = append(results, r)
	}
	if len(results) != len(how) {
		s.t.Fatalf("%d of %q were claimed", len(results), how)
	}
	s.finish(results...)
	s.DB.Exec(s.t, "DELETE FROM {tasks}")
	return results
}

// pauseOf is how the pause of a pool is written in these tests: whether it is paused, by whom, why, and the window.
func (s *scene) pauseOf(pool string) string {
	s.t.Helper()
	const of = " FROM {pools} WHERE name=?"
	return fmt.Sprint(s.DB.Int(s.t, "SELECT COALESCE(paused, 0)"+of, pool), " ", s.DB.Text(s.t, "SELECT paused_by"+of, pool), " ",
		s.DB.Text(s.t, "SELECT pause_reason"+of, pool), " ", s.DB.Text(s.t, "SELECT pause_window"+of, pool))
}

// Attempts that failed or succeeded count, and no others; in pools without pause_on none do.
func pauseOnAttempts(t *testing.T, b *Bench) {
	s := newScene(t, b)
	for _, c := range []struct{ how, window string }{
		{"S", "0"}, {"CZHD", "0"}, {"A", "01"}, {"SSS", "1000"}, {"F", "0001"}, {"SSSS", "0000"},
	} {
		s.attempts("work", half, c.how)
		s.want("after "+c.how, s.pauseOf("work"), "0   "+c.window)
	}
	s.attempts("default", jobs.PauseOn{}, "FFFFAAAA")
	s.want("without pause_on", s.pauseOf("default"), "0   ")

	// What was asked to be cancelled is cancelled, also if its attempt failed.
	id := s.enqueue("work", 1)[0]
	task := s.claim("work", 1)[0]
	_, err := s.Store.Cancel(s.ctx(), id, "")
	must(t, err)
	r := result(task, ledger.Again, jobs.StateFailed)
	r.PauseOn = ledger.PauseOn{Pool: "work", PauseOn: half}
	s.finish(r)
	s.want("after a cancelled one", s.pauseOf("work"), "0   0000")
	s.attempts("work", half, "AF")
	s.want("after two failures of four", s.pauseOf("work"), "1 pause_on 2 of the last 4 attempts failed; pause_on: {failures: 50%, of: 4} ")
}

// A pool is paused once, with one event; results that are written again, are fenced, or come in a paused pool change nothing.
func pauseOnOnce(t *testing.T, b *Bench) {
	s := newScene(t, b)
	results := s.attempts("work", half, "F")
	s.finish(results...)
	stale := results[0]
	stale.Token += 5
	s.finish(stale)
	s.want("after an answer that was lost", s.pauseOf("work"), "0   1")
	s.enqueue("work", 3)
	var late []ledger.Result
	for _, task := range s.claim("work", 3) {
		r := result(task, ledger.Ended, jobs.StateFailed)
		r.PauseOn = ledger.PauseOn{Pool: "work", PauseOn: half}
		late = append(late, r)
	}
	s.finish(late[0])
	const why = "2 of the last 2 attempts failed; pause_on: {failures: 50%, of: 4}"
	s.want("after two failures", s.pauseOf("work"), "1 pause_on "+why+" ")
	s.finish(late[1], late[2])
	s.want("after what ran on", s.pauseOf("work"), "1 pause_on "+why+" ")
	s.wantInt(1, "SELECT COUNT(*) FROM {events} WHERE event='paused'")
	event := s.row("events", "event='paused'")
	if event["pool"] != "work" || event["reason"] != why || event["job"] != "" || event["task_id"] != "" {
		t.Errorf("the event is %v", event)
	}
	s.enqueue("work", 1)
	if got := s.claim("work", 1); len(got) != 0 {
		t.Errorf("the pool is paused, and %+v was claimed", got)
	}
	pools, err := s.Store.Pools(s.ctx())
	must(t, err)
	for _, p := range pools {
		if p.Name == "work" && (p.Paused == nil || !*p.Paused || p.PausedBy != "pause_on" || p.PauseReason != why) {
			t.Errorf("the pool is %+v", p)
		}
	}
}

// A pool that is resumed, or was paused by hand, begins anew; its second pause has an event, too.
func pauseOnAnew(t *testing.T, b *Bench) {
	s := newScene(t, b)
	no, yes := false, true
	s.attempts("work", half, "SF")
	must(t, s.Store.PausePool(s.ctx(), "work", "ann", &yes))
	s.want("paused by hand", s.pauseOf("work"), "1 ann  ")
	must(t, s.Store.PausePool(s.ctx(), "work", "bob", &no))
	s.attempts("work", half, "F")
	s.want("after one failure", s.pauseOf("work"), "0 bob  1")
	s.attempts("work", half, "SF")
	s.want("after another", s.pauseOf("work")[:13], "1 pause_on 2 ")
	for range 2 {
		must(t, s.Store.PausePool(s.ctx(), "work", "carol", nil))
		s.want("resumed", s.pauseOf("work"), "0   ")
		s.attempts("work", half, "SSSF")
		s.want("after one failure", s.pauseOf("work"), "0   0001")
		s.attempts("work", half, "F")
	}
	s.wantInt(3, "SELECT COUNT(*) FROM {events} WHERE event='paused'")
}

// Several replicas that record at once pause the pool once, with the number of failures that was set.
func pauseOnTogether(t *testing.T, b *Bench) {
	const replicas, each = 4, 15
	s := newScene(t, b)
	on := jobs.PauseOn{Failures: 40, Of: 100}
	scenes := []*scene{s}
	for i := range replicas - 1 {
		scenes = append(scenes, s.second(fmt.Sprint("r", i)))
	}
	s.enqueue("work", replicas*each)
	var claimed [replicas][]jobs.Task
	for i, other := range scenes {
		claimed[i] = other.claim("work", each)
	}
	var group sync.WaitGroup
	for i, other := range scenes {
		group.Go(func() {
			for _, task := range claimed[i] {
				r := result(task, ledger.Ended, jobs.StateFailed)
				r.PauseOn = ledger.PauseOn{Pool: "work", PauseOn: on}
				other.finish(r)
			}
		})
	}
	group.Wait()
	s.want("the pause", s.pauseOf("work"), "1 pause_on 40 of the last 40 attempts failed; pause_on: {failures: 40%, of: 100} ")
	s.wantInt(1, "SELECT COUNT(*) FROM {events} WHERE event='paused'")
	s.wantInt(replicas*each, "SELECT COUNT(*) FROM {done}")
	if window := s.DB.Text(t, "SELECT pause_window FROM {pools} WHERE name='work'"); strings.Contains(window, "1") {
		t.Errorf("the window is %q", window)
	}
}

// Of two results for one task in a call the first counts, and once.
func pauseOnTwice(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 1)
	task := s.claim("work", 1)[0]
	failed, succeeded := result(task, ledger.Ended, jobs.StateFailed), result(task, ledger.Ended, jobs.StateSucceeded)
	failed.PauseOn = ledger.PauseOn{Pool: "work", PauseOn: half}
	succeeded.PauseOn = failed.PauseOn
	s.finish(failed, succeeded)
	s.want("after both", s.pauseOf("work"), "0   1")
}
