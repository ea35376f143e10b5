package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

var slotCases = []Case{
	{"Slots/Queued", queuedTasks},
	{"Slots/Replaced", replacedTasks},
	{"Slots/Stopped", replacedWhileItRuns},
	{"Slots/Cancelled", cancelledInTheQueue},
	{"Slots/Unknown", unknownSlots},
	{"Slots/Definitions", queueOfAnEditedJob},
	{"Slots/LostAndCancelled", lostAndCancelled},
	{"Slots/Together", queueTogether},
}

// queue is run with a task that waits for a slot.
func queue(job string, at time.Time) ledger.Decision {
	d := run(job, at, false)
	o := &d.Triggers[0]
	o.Queued, o.Task.Reason, o.Task.ReasonCode = true, "waits for a slot of its job: it is taken", reason.WaitsForSlot
	return d
}

// idOf is the task of a decision.
func idOf(d ledger.Decision) string { return d.Triggers[0].Task.ID }

// A task that waits for a slot is pending, and nothing claims it before it has one. The rows say what has slots, and what waits.
func queuedTasks(t *testing.T, b *Bench) {
	s := newScene(t, b)
	holder, first, second := run("a", due(1), true), queue("a", due(2)), queue("a", due(3))
	for _, d := range []ledger.Decision{holder, first, second} {
		_, err := s.decide(d)
		must(t, err)
	}
	s.want("what waits", s.task(idOf(first)), "queued attempt 0 token 0 replica -: waits for a slot of its job: it is taken")
	s.want("its trigger", s.trigger("a", due(2), 0), "open: -")
	if got := s.claim("default", 10); len(got) > 0 {
		t.Fatalf("claimed %+v, which has no slot", got)
	}
	_, err := s.Store.Ready(s.ctx(), asIs)
	must(t, err)
	if got := s.claim("default", 10); len(got) > 0 {
		t.Fatalf("claimed %+v, which has no slot", got)
	}
	state := s.states()["a"]
	ids := func(tasks []jobs.Task) (all []string) {
		for _, task := range tasks {
			all = append(all, task.ID)
		}
		return all
	}
	if d := cmp.Diff([]string{idOf(holder)}, ids(state.Open)) + cmp.Diff([]string{idOf(first), idOf(second)}, ids(state.Queued)); d != "" {
		t.Error(d)
	}
	if got := state.Queued[1]; !got.ScheduledAt.Equal(due(3)) || got.State != jobs.StatePending || got.ReasonCode != reason.WaitsForSlot {
		t.Errorf("what waits is %+v", got)
	}
	pools, err := s.Store.Pools(s.ctx())
	must(t, err)
	i := slices.IndexFunc(pools, func(p ledger.PoolStatus) bool { return p.Name == "default" })
	if pools[i].Pending != 2 || pools[i].Running != 1 {
		t.Errorf("the pool has %d pending, %d running", pools[i].Pending, pools[i].Running)
	}

	got, err := s.decide(ledger.Decision{Job: "a", Cursor: due(3), NextAt: due(4), Starts: []string{idOf(first)}})
	must(t, err)
	if len(got.Opened) != 1 || got.Opened[0].ID != idOf(first) || got.Opened[0].Pool != "default" {
		t.Errorf("opened %+v", got.Opened)
	}
	s.want("what has a slot", s.task(idOf(first)), "ready attempt 0 token 0 replica -: -")
	s.want("what waits still", s.task(idOf(second)), "queued attempt 0 token 0 replica -: waits for a slot of its job: it is taken")
	claimed := s.claim("default", 10)
	if len(claimed) != 1 || claimed[0].ID != idOf(first) || claimed[0].Token != 2 {
		t.Fatalf("claimed %+v", claimed)
	}
	s.wantInt(claimed[0].StartedAt.UnixMicro(), "SELECT started_at FROM {triggers} WHERE job='a' AND at=?", due(2).UnixMicro())
}

// second2 is the error of two results.
func second2[T any](_ T, err error) error { return err }

// A pending task that is replaced ends in the transaction of what replaces it, and its trigger as skipped, or if an attempt of it started before, as cancelled.
func replacedTasks(t *testing.T, b *Bench) {
	s := newScene(t, b)
	ready, waits, started := run("a", due(1), false), queue("a", due(2)), run("b", due(1), true)
	for _, d := range []ledger.Decision{ready, waits, started} {
		_, err := s.decide(d)
		must(t, err)
	}
	s.finish(ledger.Result{TaskID: idOf(started), Token: 1, Verdict: ledger.Again, State: jobs.StateFailed, RetryIn: time.Hour})
	newer, other := run("a", due(3), true), run("b", due(2), true)
	newer.Ends = []ledger.Ending{ledger.Replaced(idOf(ready), "the run of x (task y)"), {Task: idOf(waits), Code: reason.Suspended, Reason: "suspended while it waited"}}
	other.Ends = []ledger.Ending{ledger.Replaced(idOf(started), "the run of z (task w)")}
	got, err := s.decide(newer, other)
	must(t, err)
	if len(got.Started) != 2 {
		t.Errorf("started %+v", got.Started)
	}
	const by = "replaced by the run of x (task y)"
	s.want("what was ready", s.task(idOf(ready)), "cancelled attempt 0 token 0 replica -: "+by)
	s.want("its trigger", s.trigger("a", due(1), 0), "skipped cancelled: "+by)
	s.want("its code", s.DB.Text(t, "SELECT reason_code FROM {triggers} WHERE job='a' AND at=?", due(1).UnixMicro()), string(reason.Replaced))
	s.want("what waited", s.trigger("a", due(2), 0), "skipped cancelled: suspended while it waited")
	s.want("what was to run again", s.task(idOf(started)), "cancelled attempt 1 token 1 replica -: replaced by the run of z (task w)")
	s.want("its trigger", s.trigger("b", due(1), 0), "ran cancelled: replaced by the run of z (task w)")
	s.want("its code", s.DB.Text(t, "SELECT reason_code FROM {done} WHERE id=?", idOf(started)), string(reason.Replaced))
}

// The owner of a running task that is replaced is asked to stop it, unless a user asked before; the task has its slot until it has ended.
func replacedWhileItRuns(t *testing.T, b *Bench) {
	s := newScene(t, b)
	old, asked := run("a", due(1), true), run("b", due(1), true)
	_, err := s.decide(old, asked)
	must(t, err)
	_, err = s.Store.Cancel(s.ctx(), idOf(asked), "ann")
	must(t, err)
	newer, other := queue("a", due(2)), queue("b", due(2))
	newer.Ends = []ledger.Ending{ledger.Replaced(idOf(old), "the run of x (task y)")}
	other.Ends = []ledger.Ending{ledger.Replaced(idOf(asked), "the run of x (task y)")}
	_, err = s.decide(newer, other)
	must(t, err)
	s.want("the request", s.DB.Text(t, "SELECT cancel FROM {tasks} WHERE id=?", idOf(old)), "replaced by the run of x (task y)")
	s.want("an earlier request", s.DB.Text(t, "SELECT cancel FROM {tasks} WHERE id=?", idOf(asked)), "cancelled by ann")
	if state := s.states()["a"]; len(state.Open) != 1 || len(state.Queued) != 1 || !slices.Equal(state.Stopping, []string{idOf(old)}) {
		t.Errorf("a is %+v", state)
	}
	if got := s.claim("default", 10); len(got) > 0 {
		t.Fatalf("claimed %+v before the old one has ended", got)
	}
	s.finish(
		ledger.Result{TaskID: idOf(old), Token: 1, Verdict: ledger.Again, State: jobs.StateFailed, Reason: "it failed"},
		ledger.Result{TaskID: idOf(asked), Token: 1, Verdict: ledger.HandBack},
	)
	s.want("the old one", s.task(idOf(old)), "cancelled attempt 1 token 1 replica one: replaced by the run of x (task y)")
	s.want("its code", s.DB.Text(t, "SELECT reason_code FROM {done} WHERE id=?", idOf(old)), string(reason.Replaced))
	s.want("its trigger", s.trigger("a", due(1), 0), "ran cancelled: replaced by the run of x (task y)")
	s.want("the code of the other one", s.DB.Text(t, "SELECT reason_code FROM {done} WHERE id=?", idOf(asked)), string(reason.Cancelled))
	if state := s.states()["a"]; len(state.Open) != 0 || len(state.Queued) != 1 {
		t.Errorf("a is %+v", state)
	}
}

// What waits for a slot can be cancelled, and ends then as what never started.
func cancelledInTheQueue(t *testing.T, b *Bench) {
	s := newScene(t, b)
	holder, waits := run("a", due(1), true), queue("a", due(2))
	for _, d := range []ledger.Decision{holder, waits} {
		_, err := s.decide(d)
		must(t, err)
	}
	task, err := s.Store.Cancel(s.ctx(), idOf(waits), "ann")
	must(t, err)
	if task.State != jobs.StateCancelled {
		t.Errorf("it is %s", task.State)
	}
	s.want("its trigger", s.trigger("a", due(2), 0), "skipped cancelled: cancelled")
	if state := s.states()["a"]; len(state.Queued) != 0 {
		t.Errorf("a is %+v", state)
	}
}

// A slot for what waits for none is refused, and so is the end of a task that is not open; nothing is written then.
func unknownSlots(t *testing.T, b *Bench) {
	s := newScene(t, b)
	ready, other := run("a", due(1), false), queue("b", due(1))
	for _, d := range []ledger.Decision{ready, other} {
		_, err := s.decide(d)
		must(t, err)
	}
	for what, starts := range map[string]string{"it has a slot": idOf(ready), "it is another job's": idOf(other), "there is none": newID()} {
		d := run("a", due(2), false)
		d.Starts = []string{starts}
		if _, err := s.decide(d); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	s.wantInt(0, "SELECT COUNT(*) FROM {triggers} WHERE at=?", due(2).UnixMicro())
}

// A job of which a run waits for a slot is looked at soon after an edit of its schedule. Its due time is shown as before. What waits is cancelled with the
// job, and it comes back without.
func queueOfAnEditedJob(t *testing.T, b *Bench) {
	s := newScene(t, b)
	for _, d := range []ledger.Decision{run("a", due(1), true), queue("a", due(2))} {
		d.Queues(time.UnixMicro(noon).UTC())
		_, err := s.decide(d)
		must(t, err)
	}
	next := func(what string, shown time.Duration) {
		t.Helper()
		now := s.DB.Int(t, "SELECT cursor_at FROM {jobs} WHERE name='a'") // an edit moves it to now
		if at := s.DB.Int(t, "SELECT next_at FROM {jobs} WHERE name='a'"); at < now || at > now+2_000_000 {
			t.Errorf("%s: it is looked at %v after its cursor", what, time.Duration(at-now)*time.Microsecond)
		}
		all, err := s.Store.Jobs(s.ctx(), "a")
		must(t, err)
		want := time.Time{}
		if shown > 0 {
			want = time.UnixMicro(now).UTC().Add(shown)
		}
		if !all[0].NextAt.Equal(want) {
			t.Errorf("%s: due at %v is shown, want %v", what, all[0].NextAt, want)
		}
		rows, err := s.Store.Upcoming(s.ctx(), []int{0})
		must(t, err)
		if len(rows) != 1 || !rows[0].Waits {
			t.Errorf("%s: upcoming %+v", what, rows)
		}
	}
	edit := func(hash, schedule string, every time.Duration) {
		t.Helper()
		s.DB.Exec(t, "UPDATE {jobs} SET cursor_at=1 WHERE name='a'")
		d := definitions()
		d.Jobs[0].Hash, d.Jobs[0].Schedule, d.Jobs[0].Next = hash, schedule, func(at time.Time) time.Time {
			if every == 0 {
				return time.Time{}
			}
			return at.Add(every)
		}
		_, err := s.Store.Assert(s.ctx(), s.session, d)
		must(t, err)
	}
	edit("2", "every hour", time.Hour)
	next("an edit", time.Hour)
	edit("3", "never", 0)
	next("an edit to never", 0)
	d := definitions()
	d.Jobs = d.Jobs[1:]
	_, err := s.Store.Assert(s.ctx(), s.session, d)
	must(t, err)
	s.wantInt(0, "SELECT next_at FROM {jobs} WHERE name='a'")
	edit("4", "every day", 24*time.Hour)
	rows, err := s.Store.Upcoming(s.ctx(), []int{0})
	must(t, err)
	if cursor := s.DB.Int(t, "SELECT cursor_at FROM {jobs} WHERE name='a'"); len(rows) != 1 || rows[0].Waits || rows[0].NextAt.UnixMicro() != cursor+(24*time.Hour).Microseconds() {
		t.Errorf("it has come back without the run that waited, which was cancelled with it: upcoming %+v, cursor %d", rows, cursor)
	}
}

// A lost attempt whose task was to run again counts when that is cancelled, until it must have ended.
func lostAndCancelled(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	retried, replaced := run("a", due(1), true), run("b", due(1), true)
	for _, d := range []*ledger.Decision{&retried, &replaced} {
		d.Triggers[0].Task.OnLost = jobs.LostRetries
		admit(idOf(*d), time.Now().UTC().Truncate(time.Microsecond).Add(time.Hour))
	}
	_, err := s.decide(retried, replaced)
	must(t, err)
	s.die()
	other.reap()
	_, err = other.Store.Cancel(s.ctx(), idOf(retried), "ann")
	must(t, err)
	newer := queue("b", due(2))
	newer.Ends = []ledger.Ending{ledger.Replaced(idOf(replaced), "another")}
	_, err = other.decide(newer)
	must(t, err)
	states := other.states()
	for job, id := range map[string]string{"a": idOf(retried), "b": idOf(replaced)} {
		got := states[job]
		if len(got.Lost) != 1 || got.Lost[0].ID != id || !got.Lost[0].Until.Equal(got.BusyUntil) || got.LostSlots(time.Now(), 3) != 1 {
			t.Errorf("%s is %+v", job, got)
		}
	}
}

// Two replicas that decide at the same time never have more runs wait than may.
func queueTogether(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	for n := 1; n <= 10; n++ {
		Together(t, 2, func(_ context.Context, i int) error {
			me := []*scene{s, other}[i]
			request := me.deciding(func(states []ledger.JobState) []ledger.Decision {
				if len(states[0].Queued) >= 3 {
					return nil
				}
				return []ledger.Decision{queue("a", due(2*n+i))}
			})
			request.Jobs = []string{"a"}
			return second2(me.Store.Decide(s.ctx(), request))
		})
	}
	s.wantInt(3, "SELECT COUNT(*) FROM {tasks} WHERE job='a'")
}
