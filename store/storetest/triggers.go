package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var triggerCases = []Case{
	{"Triggers/Decide", decideRows},
	{"Triggers/States", decideStates},
	{"Triggers/Jitter", decidedStarts},
	{"Triggers/Late", lateDecider},
	{"Triggers/Together", decidersTogether},
	{"Triggers/Forbid", forbid},
	{"Triggers/Seq", manualSeq},
	{"Triggers/Retry", retryOfJob},
	{"Triggers/Filled", filledIn},
	{"Triggers/Nothing", decideNothing},
	{"Triggers/Refused", refusedDecisions},
	{"Triggers/Guard", guard},
	{"Triggers/Overdue", overdueOnly},
	{"Triggers/HeldBack", heldBack},
	{"Triggers/Limited", limitedTriggers},
	{"Triggers/Compete", newTasksCompete},
	{"Triggers/LimitedBusy", limitedPoolIsBusy},
	{"Triggers/LimitedTogether", limitedTogether},
	{"Triggers/ManyTwice", manyTwice},
	{"Triggers/LostAttempt", lostAttempt},
	{"Triggers/LostAttempts", lostAttempts},
	{"Triggers/Forced", forced},
}

func decideRows(t *testing.T, b *Bench) {
	s := newScene(t, b)
	runs, pends := run("a", due(1), true), run("b", due(1), false)
	missed := ledger.Decision{
		Job: "c", Cursor: due(3), NextAt: due(4),
		Triggers: []ledger.Opening{{Trigger: jobs.Trigger{
			Job: "c", At: due(1), Until: due(3), Count: 3, Cause: jobs.CauseCatchUp, Outcome: jobs.Missed, Reason: "too late",
		}}},
	}
	got, err := s.decide(runs, pends, missed)
	must(t, err)
	if len(got.Started) != 1 || len(got.Opened) != 1 || len(got.Decisions) != 3 {
		t.Fatalf("%d started, %d opened, %d decisions", len(got.Started), len(got.Opened), len(got.Decisions))
	}
	task := got.Started[0]
	if task.Token != 1 || task.Attempt != 1 || task.State != jobs.StateRunning || !task.StartedAt.Equal(got.Now) || !task.ScheduledAt.Equal(due(1)) {
		t.Errorf("started task is %+v", task)
	}
	s.want("task of a", s.task(task.ID), "running attempt 1 token 1 replica one: -")
	s.want("task of b", s.task(got.Opened[0].ID), "ready attempt 0 token 0 replica -: -")
	s.want("trigger of a", s.trigger("a", due(1), 0), "open: -")
	s.want("trigger of c", s.trigger("c", due(1), 0), "missed: too late")
	s.wantInt(3, "SELECT due_count FROM {triggers} WHERE job='c'")
	s.wantInt(due(3).UnixMicro(), "SELECT cursor_at FROM {jobs} WHERE name='c'")
	s.wantInt(due(4).UnixMicro(), "SELECT next_at FROM {jobs} WHERE name='c'")
	s.wantInt(1, "SELECT fence FROM {jobs} WHERE name='a'")
	s.wantInt(0, "SELECT fence FROM {jobs} WHERE name='b'")
	s.wantInt(got.Now.UnixMicro(), "SELECT started_at FROM {triggers} WHERE job='a'")
	s.wantInt(0, "SELECT started_at FROM {triggers} WHERE job='b'")

	// The claim of b's task takes the next number of b's fence, and is the trigger's start.
	claimed := s.claim("default", 10)
	if len(claimed) != 1 || claimed[0].Token != 1 {
		t.Fatalf("claimed %+v", claimed)
	}
	s.wantInt(claimed[0].StartedAt.UnixMicro(), "SELECT started_at FROM {triggers} WHERE job='b'")
	s.wantInt(1, "SELECT fence FROM {jobs} WHERE name='b'")
}

func decideStates(t *testing.T, b *Bench) {
	s := newScene(t, b)
	opened, err := s.decide(run("a", due(1), true), run("b", due(1), false))
	must(t, err)
	s.DB.Exec(t, "UPDATE {jobs} SET hash='' WHERE name='c'")
	s.DB.Exec(t, "UPDATE {jobs} SET suspended=0, busy_until=? WHERE name='b'", noon)
	var got []ledger.JobState
	_, err = decidedOf(s.Store.Decide(s.ctx(), s.deciding(func(states []ledger.JobState) []ledger.Decision { got = states; return nil })))
	must(t, err)
	no := false
	want := []ledger.JobState{
		{Name: "a", Hash: hash, Cursor: due(1), Fence: 1, Open: []jobs.Task{{
			ID: opened.Started[0].ID, ScheduledAt: due(1), State: jobs.StateRunning, Pool: "default", Attempt: 1, Replica: "one", RunAt: opened.Started[0].RunAt, CreatedAt: opened.Now, StartedAt: opened.Now,
		}}},
		{Name: "b", Hash: hash, Cursor: due(1), Suspension: ledger.Suspension{Suspended: &no}, BusyUntil: due(0), Open: []jobs.Task{{
			ID: opened.Opened[0].ID, ScheduledAt: due(1), State: jobs.StatePending, Pool: "default", RunAt: opened.Opened[0].RunAt, CreatedAt: opened.Now,
		}}},
	} // c is retired
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// Two replicas decide at the same time, one an early and one a later due time: the one that comes
// second must see the first one's open task. The lock on the job's row is what shows it.
func forbid(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	for n := 1; n <= 20; n++ {
		Together(t, 2, func(ctx context.Context, i int) error {
			me := []*scene{s, other}[i]
			request := me.deciding(func(states []ledger.JobState) []ledger.Decision {
				if len(states[0].Open) > 0 {
					return nil
				}
				return []ledger.Decision{run("a", due(2*n+i), true)}
			})
			request.Jobs = []string{"a"}
			_, err := decidedOf(me.Store.Decide(ctx, request))
			return err
		})
		s.wantInt(1, "SELECT COUNT(*) FROM {tasks} WHERE job='a'")
		if t.Failed() {
			return
		}
		s.DB.Exec(t, "DELETE FROM {tasks}")
	}
}

func manualSeq(t *testing.T, b *Bench) {
	s := newScene(t, b)
	manual := func(job string, cause jobs.Cause) ledger.Opening {
		return ledger.Opening{
			Trigger: jobs.Trigger{Job: job, At: due(1), Cause: cause, By: "alice"},
			Task:    &jobs.Task{ID: newID(), Pool: "default"},
		}
	}
	_, err := s.decide(run("a", due(1), false))
	must(t, err)
	for n := range 2 {
		got, err := s.decide(
			ledger.Decision{Job: "a", Triggers: []ledger.Opening{manual("a", jobs.CauseManual), manual("a", jobs.CauseManual)}},
			ledger.Decision{Job: "b", Triggers: []ledger.Opening{manual("b", jobs.CauseManual)}},
		)
		must(t, err)
		var seqs []int
		for i, task := range got.Opened {
			seqs = append(seqs, task.Seq)
			if i == 0 && task.IdempotencyKey != got.Opened[0].Job+"@"+due(1).Format(time.RFC3339)+"/"+string(rune('1'+2*n)) {
				t.Errorf("idempotency key %q", task.IdempotencyKey)
			}
		}
		if d := cmp.Diff([]int{2*n + 1, 2*n + 2, n + 1}, seqs); d != "" {
			t.Error(d)
		}
	}
	s.wantInt(5, "SELECT COUNT(*) FROM {triggers} WHERE job='a'")
	s.wantInt(2, "SELECT COUNT(*) FROM {triggers} WHERE job='b' AND by_whom='alice'")
	s.wantInt(noon, "SELECT cursor_at FROM {jobs} WHERE name='b'")
}

// The retry of an ended task writes no ledger row, and its end does not touch the old one.
func retryOfJob(t *testing.T, b *Bench) {
	s := newScene(t, b)
	first, err := s.decide(run("a", due(1), true))
	must(t, err)
	ended := first.Started[0]
	s.finish(result(ended, ledger.Ended, jobs.StateFailed))
	again, err := s.decide(ledger.Decision{Job: "a", Triggers: []ledger.Opening{{
		Task: &jobs.Task{ID: admit(newID(), due(9)), Pool: "default", ScheduledAt: ended.ScheduledAt, RetryOf: ended.ID},
	}}})
	must(t, err)
	retry := again.Started[0]
	if d := cmp.Diff(jobs.Trigger{TaskID: retry.ID}, again.Decisions[0].Triggers[0].Trigger); d != "" {
		t.Errorf("a retry is of no due time: %s", d)
	}
	if retry.Token != 2 || retry.RetryOf != ended.ID || !retry.ScheduledAt.Equal(due(1)) || retry.IdempotencyKey != ended.IdempotencyKey {
		t.Errorf("retry is %+v", retry)
	}
	s.finish(result(retry, ledger.Ended, jobs.StateSucceeded))
	s.want("trigger", s.trigger("a", due(1), 0), "ran failed: -")
	s.wantInt(1, "SELECT COUNT(*) FROM {triggers}")
	s.wantInt(2, "SELECT COUNT(*) FROM {done}")
}

// What a decision leaves open is filled in, and its own task stays as it was; the answer is what is in the rows.
func filledIn(t *testing.T, b *Bench) {
	s := newScene(t, b)
	plain, later := &jobs.Task{ID: admit(newID(), due(2))}, &jobs.Task{
		ID: newID(), Pool: "work", Kind: "mail", Priority: 7, RunAt: time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond), MaxAttempts: 4,
		OnLost: jobs.LostRetries, Payload: []byte(`{"a":1}`), Tags: []string{"x"}, Reason: "a test", By: "eve",
	}
	before, beforeLater := *plain, *later
	b.DB.Exec(t, "UPDATE {jobs} SET cursor_at=0 WHERE name='c'")
	long := strings.Repeat("x", 511)
	got, err := decidedOf(s.Store.Decide(s.ctx(), s.deciding(func([]ledger.JobState) []ledger.Decision {
		return []ledger.Decision{
			{Job: "a", Triggers: []ledger.Opening{
				{Trigger: jobs.Trigger{Job: "a", At: due(1), Seq: 5, Cause: jobs.CauseSchedule}, Task: plain},
				{Trigger: jobs.Trigger{Job: "a", At: due(2), Cause: jobs.CauseManual, By: "eve", Replica: "another", Count: 2}, Task: later},
			}},
			{Job: "b", Triggers: []ledger.Opening{
				{Trigger: jobs.Trigger{Job: "b", At: due(1), Seq: 5, Cause: jobs.CauseCatchUp, Outcome: jobs.Skipped, Reason: long}},
			}},
			{Job: "c"},
		}
	})))
	must(t, err)
	if d := cmp.Diff([]jobs.Task{before, beforeLater}, []jobs.Task{*plain, *later}); d != "" {
		t.Errorf("the decider's tasks were changed: %s", d)
	}
	if len(got.Started) != 1 || len(got.Opened) != 1 {
		t.Fatalf("started %+v, opened %+v", got.Started, got.Opened)
	}
	want := []jobs.Task{
		{
			ID: plain.ID, Pool: "default", Job: "a", State: jobs.StateRunning, ScheduledAt: due(1), RunAt: got.Now, CreatedAt: got.Now, StartedAt: got.Now,
			Attempt: 1, MaxAttempts: 1, OnLost: jobs.LostFails, LostLimit: 3, Token: 1, Replica: "one", IdempotencyKey: "a@" + due(1).Format(time.RFC3339),
		},
		beforeLater,
	}
	w := &want[1]
	w.Job, w.State, w.ScheduledAt, w.Seq, w.CreatedAt, w.LostLimit = "a", jobs.StatePending, due(2), 1, got.Now, 3
	w.PayloadSize, w.IdempotencyKey = 7, "a@"+due(2).Format(time.RFC3339)+"/1"
	for i, answer := range []jobs.Task{got.Started[0], got.Opened[0]} {
		row, _, err := b.Store.Task(s.ctx(), answer.ID)
		must(t, err)
		if d := cmp.Diff(want[i], answer) + cmp.Diff(want[i], *got.Decisions[0].Triggers[i].Task) + cmp.Diff(want[i], row); d != "" {
			t.Errorf("task %d, as it is answered twice and as it is kept: %s", i, d)
		}
	}
	s.want("plain", s.task(plain.ID), "running attempt 1 token 1 replica one: -")
	s.want("later", s.task(later.ID), "waits attempt 0 token 0 replica -: a test")
	s.wantInt(1, "SELECT COUNT(*) FROM {tasks} WHERE id=? AND session_id=? AND may_run_until=?", plain.ID, s.session, due(2).UnixMicro())
	for i, want := range []jobs.Trigger{
		{Job: "a", At: due(1), Cause: jobs.CauseSchedule, Count: 1, Replica: "one", TaskID: plain.ID, DecidedAt: got.Now, StartedAt: got.Now},
		{Job: "a", At: due(2), Seq: 1, Cause: jobs.CauseManual, By: "eve", Count: 2, Replica: "another", TaskID: later.ID, DecidedAt: got.Now},
		{Job: "b", At: due(1), Cause: jobs.CauseCatchUp, Count: 1, Replica: "one", Outcome: jobs.Skipped, Reason: long, DecidedAt: got.Now},
	} {
		want.Definition, want.Config = s.DB.Text(t, "SELECT definition FROM {definitions} WHERE job=?", want.Job), s.DB.Int(t, "SELECT config FROM {sessions}")
		if d := cmp.Diff(want, slices.Concat(got.Decisions[0].Triggers, got.Decisions[1].Triggers)[i].Trigger); d != "" {
			t.Errorf("trigger %d as it is answered: %s", i, d)
		}
		s.wantInt(1, `SELECT COUNT(*) FROM {triggers} WHERE job=? AND at=? AND seq=? AND cause=? AND by_whom=? AND due_count=? AND replica=? AND task_id=?
			AND reason=? AND decided_at=? AND started_at=? AND finished_at=0`, want.Job, want.At.UnixMicro(), want.Seq, string(want.Cause), want.By, want.Count,
			want.Replica, want.TaskID, want.Reason, want.DecidedAt.UnixMicro(), max(want.StartedAt.UnixMicro(), 0))
	}
	s.wantInt(noon, "SELECT cursor_at FROM {jobs} WHERE name='a'") // not part of the decision
	s.wantInt(noon+minute, "SELECT next_at FROM {jobs} WHERE name='c'")
	s.wantInt(noon+minute, "SELECT next_at FROM {jobs} WHERE name='a'")
	s.wantInt(1, "SELECT COUNT(*) FROM {tasks} WHERE id=? AND rank_order=-7", later.ID)
}

// A decision that is not about what was locked, or that cannot be kept, is refused whole.
func refusedDecisions(t *testing.T, b *Bench) {
	s := newScene(t, b)
	for what, o := range map[string]ledger.Opening{
		"a trigger of another job": {Trigger: jobs.Trigger{Job: "b", At: due(1), Cause: jobs.CauseSchedule, Outcome: jobs.Skipped}},
		"a task without an id":     {Trigger: jobs.Trigger{Job: "a", At: due(1), Cause: jobs.CauseSchedule}, Task: &jobs.Task{}},
		"a retry without an id":    {Task: &jobs.Task{ScheduledAt: due(1)}},
	} {
		if _, err := s.decide(run("c", due(1), true), ledger.Decision{Job: "a", Triggers: []ledger.Opening{o}}); err == nil || errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.wantEmpty("triggers", "tasks")
	s.wantInt(noon, "SELECT MAX(cursor_at) FROM {jobs}")
}

func decideNothing(t *testing.T, b *Bench) {
	s := newScene(t, b)
	skew := s.deciding(func([]ledger.JobState) []ledger.Decision { return []ledger.Decision{run("a", due(1), true)} })
	skew.Now = func(time.Time) (time.Time, error) { return time.Time{}, ledger.ErrClock }
	if _, err := decidedOf(s.Store.Decide(s.ctx(), skew)); !errors.Is(err, ledger.ErrClock) {
		t.Errorf("with a wrong clock: %v", err)
	}
	if _, err := s.decide(run("nobody", due(1), true)); err == nil {
		t.Error("a decision about a job whose row is not locked was written")
	}
	s.die()
	if _, err := s.decide(run("a", due(1), true)); !errors.Is(err, ledger.ErrSessionDead) {
		t.Errorf("of a dead session: %v", err)
	}
	s.session = newID()
	if _, err := s.decide(run("a", due(1), true)); !errors.Is(err, ledger.ErrSessionDead) {
		t.Errorf("of no session: %v", err)
	}
	s.wantInt(0, "SELECT COUNT(*) FROM {triggers}")
	s.wantInt(0, "SELECT COUNT(*) FROM {tasks}")
}

// states are the locked rows as Decide gets them.
func (s *scene) states() map[string]ledger.JobState {
	s.t.Helper()
	all := map[string]ledger.JobState{}
	_, err := decidedOf(s.Store.Decide(s.ctx(), s.deciding(func(states []ledger.JobState) []ledger.Decision {
		for _, state := range states {
			all[state.Name] = state
		}
		return nil
	})))
	must(s.t, err)
	return all
}
