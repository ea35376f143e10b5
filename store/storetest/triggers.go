package storetest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/store"
)

var triggerCases = []Case{
	{"Triggers/Decide", decideRows},
	{"Triggers/States", decideStates},
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
		{Name: "a", Hash: hash, Cursor: due(1), Fence: 1, Open: []ledger.OpenTask{{
			ID: opened.Started[0].ID, ScheduledAt: due(1), State: jobs.StateRunning, Pool: "default", Attempt: 1, Replica: "one", RunAt: opened.Started[0].RunAt, StartedAt: opened.Now,
		}}},
		{Name: "b", Hash: hash, Cursor: due(1), Suspended: &no, BusyUntil: due(0), Open: []ledger.OpenTask{{
			ID: opened.Opened[0].ID, ScheduledAt: due(1), State: jobs.StatePending, Pool: "default", RunAt: opened.Opened[0].RunAt,
		}}},
	} // c is retired
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A replica that decides late, with a stale cursor, opens nothing a second time and moves
// no cursor back. The ledger's key is what stops it.
func lateDecider(t *testing.T, b *Bench) {
	s := newScene(t, b)
	first, err := s.decide(run("a", due(1), false))
	must(t, err)
	_, err = s.decide(run("a", due(2), false))
	must(t, err)

	late := s.second("two")
	got, err := late.decide(run("a", due(1), true), run("b", due(1), true))
	must(t, err)
	if len(got.Started) != 1 || got.Started[0].Job != "b" || len(got.Decisions[0].Triggers) != 0 {
		t.Errorf("started %+v, decided %+v", got.Started, got.Decisions)
	}
	s.wantInt(2, "SELECT COUNT(*) FROM {tasks} WHERE job='a'")
	s.wantInt(1, "SELECT COUNT(*) FROM {triggers} WHERE job='a' AND at=?", due(1).UnixMicro())
	s.want("first task", s.DB.Text(t, "SELECT task_id FROM {triggers} WHERE job='a' AND at=?", due(1).UnixMicro()), first.Opened[0].ID)
	s.wantInt(due(2).UnixMicro(), "SELECT cursor_at FROM {jobs} WHERE name='a'")
	s.wantInt(due(3).UnixMicro(), "SELECT next_at FROM {jobs} WHERE name='a'")
	s.wantInt(0, "SELECT fence FROM {jobs} WHERE name='a'")
}

// Replicas that all decide the same due times decide each once.
func decidersTogether(t *testing.T, b *Bench) {
	s := newScene(t, b)
	scenes := make([]*scene, 8)
	for i := range scenes {
		scenes[i] = s.second(string(rune('A' + i)))
	}
	const times = 10
	Together(t, len(scenes), func(ctx context.Context, i int) error {
		for n := 1; n <= times; n++ {
			request := scenes[i].deciding(func(states []ledger.JobState) (all []ledger.Decision) {
				for _, state := range states {
					if state.Name != "c" {
						all = append(all, run(state.Name, due(n), state.Name == "a"))
					}
				}
				return all
			})
			for len(request.Jobs) > 0 {
				got, err := decidedOf(scenes[i].Store.Decide(ctx, request))
				if err != nil {
					return err
				}
				request.Jobs = got.Busy
			}
		}
		return nil
	})
	for _, job := range []string{"a", "b"} {
		s.wantInt(times, "SELECT COUNT(*) FROM {tasks} WHERE job=?", job)
		s.wantInt(times, "SELECT COUNT(*) FROM {triggers} WHERE job=?", job)
		s.wantInt(due(times).UnixMicro(), "SELECT cursor_at FROM {jobs} WHERE name=?", job)
	}
	s.wantInt(times, "SELECT COUNT(DISTINCT token) FROM {tasks} WHERE job='a'")
	s.wantInt(times, "SELECT fence FROM {jobs} WHERE name='a'")
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
			ledger.Decision{Job: "a", Triggers: []ledger.Opening{manual("a", jobs.CauseManual), manual("a", jobs.CauseBackfill)}},
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
			Attempt: 1, MaxAttempts: 1, OnLost: jobs.LostFails, Token: 1, Replica: "one", IdempotencyKey: "a@" + due(1).Format(time.RFC3339),
		},
		beforeLater,
	}
	w := &want[1]
	w.Job, w.State, w.ScheduledAt, w.Seq, w.CreatedAt = "a", jobs.StatePending, due(2), 1, got.Now
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

// With the guard, two replicas that decide for one stripe wait for each other.
func guard(t *testing.T, b *Bench) {
	s := newScene(t, b)
	neighbour := "b"
	for n := 0; ledger.Stripe(neighbour) != ledger.Stripe("a"); n++ {
		neighbour = "b" + strconv.Itoa(n)
	}
	b.DB.Exec(t, "UPDATE {jobs} SET name=? WHERE name='b'", neighbour)
	s.wantInt(64, "SELECT COUNT(*) FROM {stripes}")
	other := s.second("two")
	var inside atomic.Int32
	Together(t, 2, func(ctx context.Context, i int) error {
		me := []*scene{s, other}[i]
		request := me.deciding(func([]ledger.JobState) []ledger.Decision {
			if inside.Add(1) > 1 {
				t.Error("both decide at once")
			}
			time.Sleep(50 * time.Millisecond) // time for the other one to come in, if it can
			inside.Add(-1)
			return nil
		})
		request.Jobs, request.Guard = []string{"a", neighbour}[i:i+1], true
		_, err := decidedOf(me.Store.Decide(ctx, request))
		return err
	})
	if b.Dialect == store.SQLite { // there, decisions never overlap
		return
	}
	// No transaction waits for another stripe.
	apart := "c"
	for n := 0; ledger.Stripe(apart) == ledger.Stripe("a"); n++ {
		apart = "c" + strconv.Itoa(n)
	}
	b.DB.Exec(t, "UPDATE {jobs} SET name=? WHERE name='c'", apart)
	var asked []string
	outer := s.deciding(func([]ledger.JobState) []ledger.Decision {
		inner := other.deciding(func(states []ledger.JobState) []ledger.Decision {
			for _, state := range states {
				asked = append(asked, state.Name)
			}
			return nil
		})
		inner.Jobs, inner.Guard = []string{apart, neighbour}, true
		if got, err := decidedOf(other.Store.Decide(s.ctx(), inner)); err != nil || !slices.Equal(got.Busy, []string{neighbour}) || !slices.Equal(asked, []string{apart}) {
			t.Errorf("beside another stripe: busy are %q, asked about %q, %v", got.Busy, asked, err)
		}
		return nil
	})
	outer.Jobs, outer.Guard = []string{"a"}, true
	_, err := decidedOf(s.Store.Decide(s.ctx(), outer))
	must(t, err)
}

// A replica that decides what others left gets what is still due, and nothing else.
func overdueOnly(t *testing.T, b *Bench) {
	s := newScene(t, b)
	b.DB.Exec(t, "UPDATE {jobs} SET next_at=? WHERE name='a'", time.Now().Add(24*time.Hour).UnixMicro())
	b.DB.Exec(t, "UPDATE {jobs} SET next_at=1 WHERE name='b'")
	b.DB.Exec(t, "UPDATE {jobs} SET next_at=0 WHERE name='c'") // never
	var asked []string
	request := s.deciding(func(states []ledger.JobState) []ledger.Decision {
		for _, state := range states {
			asked = append(asked, state.Name)
		}
		return nil
	})
	request.Overdue = true
	for len(request.Jobs) > 0 {
		got, err := decidedOf(s.Store.Decide(s.ctx(), request))
		must(t, err)
		request.Jobs = got.Busy
	}
	s.want("asked about", strings.Join(asked, " "), "b")
}

// In a pool that is paused, or not as the deciding replica has it, nothing is running from the start.
func heldBack(t *testing.T, b *Bench) {
	s := newScene(t, b)
	for n, set := range []string{"max_running=1", "max_running=0, paused=1", "paused=0, hash='newer'", "hash=''", "hash='hash'", "paused=NULL"} {
		s.DB.Exec(t, "UPDATE {pools} SET "+set+" WHERE name='default'")
		got, err := s.decide(run("a", due(n+1), true))
		must(t, err)
		if held := n < 4; len(got.Opened) == 1 != held || len(got.Started) == 1 == held {
			t.Errorf("%s: %d started, %d opened", set, len(got.Started), len(got.Opened))
		}
	}
	s.wantInt(2, "SELECT fence FROM {jobs} WHERE name='a'")

	// Nor in a pool that neither of them has.
	s.DB.Exec(t, "UPDATE {pools} SET hash='' WHERE name='default'")
	request := s.deciding(func([]ledger.JobState) []ledger.Decision { return []ledger.Decision{run("a", due(9), true)} })
	request.Pools = nil
	if got, err := decidedOf(s.Store.Decide(s.ctx(), request)); err != nil || len(got.Started) > 0 || len(got.Opened) != 1 {
		t.Errorf("in a pool that nobody has: %+v, %v", got, err)
	}
}

// What was decided before is left out, also where it has more keys than one statement may.
func manyTwice(t *testing.T, b *Bench) {
	s := newScene(t, b)
	const n = 11000
	again := ledger.Decision{Job: "a", Cursor: due(n), NextAt: due(n + 1)}
	for i := range n {
		again.Triggers = append(again.Triggers, ledger.Opening{Trigger: jobs.Trigger{
			Job: "a", At: due(i + 1), Cause: jobs.CauseCatchUp, Outcome: jobs.Skipped, Reason: "a test",
		}})
	}
	for i, left := range []int{n, 0} {
		got, err := s.decide(again)
		must(t, err)
		if len(got.Decisions[0].Triggers) != left {
			t.Errorf("time %d: %d due times are decided, want %d", i+1, len(got.Decisions[0].Triggers), left)
		}
	}
	s.wantInt(n, "SELECT COUNT(*) FROM {triggers}")
}

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
	notes := map[string]string{"a": ledger.Forced + strings.Repeat("é", 300), "b": ledger.Forced + "somebody may object", "c": ledger.Forced + strings.Repeat("é", 166)}
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
		if !utf8.ValidString(why) || len(why) > 512 || !strings.Contains(why, "; replica rrrrrrrr") || !strings.Contains(why, "; late: éééééééé") {
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
	const note = ledger.Forced + "somebody may object"
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

	plain, err := s.decide(byHand("b", 2, "", false))
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
	s.want("lost", s.trigger("a", due(3), 1), "lost lost: "+note+"; replica one died while it had the task")
	s.want("lost", code("a", 3), "replica_died")
	s.wantInt(1, "SELECT COUNT(*) FROM {jobs} WHERE name='a' AND busy_until>0")
	s.finish(result(lostAgain.Started[0], ledger.Ended, jobs.StateSucceeded))
	s.want("late", s.trigger("a", due(3), 1), "ran succeeded: "+note+"; replica one died while it had the task; late")
	s.want("late", code("a", 3), "late")
}
