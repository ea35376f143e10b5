package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var standingCases = []Case{
	{"Standings/Job", standingOfJob},
	{"Standings/Pool", standingOfPool},
	{"Standings/Missed", missedEvents},
	{"Standings/Lost", lostEvents},
	{"Standings/Cancelled", cancelledEnds},
	{"Standings/Late", lateRecovers},
	{"Standings/Mixed", mixedBatch},
	{"Standings/Notifications", endsOfNotifications},
	{"Standings/Together", recoverTogether},
	{"Standings/Neighbours", standingNeighbours},
}

// standing is a row as "failing", "fine" or "none".
func (s *scene) standing(kind, name string) string {
	s.t.Helper()
	switch s.DB.Text(s.t, "SELECT failing FROM {standings} WHERE kind=? AND name=?", kind, name) {
	case "1":
		return "failing"
	case "0":
		return "fine"
	}
	return "none"
}

// events are the rows of {events} in order, as "failed job a", "lost pool work".
func (s *scene) events() string {
	s.t.Helper()
	var all []string
	for n := range s.DB.Int(s.t, "SELECT COUNT(*) FROM {events}") {
		row := fmt.Sprintf(" FROM {events} ORDER BY id LIMIT 1 OFFSET %d", n)
		text := s.DB.Text(s.t, "SELECT event"+row)
		if job := s.DB.Text(s.t, "SELECT job"+row); job != "" {
			text += " job " + job
		} else {
			text += " pool " + s.DB.Text(s.t, "SELECT pool"+row)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// runJob runs job at due(n) to state.
func (s *scene) runJob(job string, n int, state jobs.State) jobs.Task {
	s.t.Helper()
	d, err := s.decide(run(job, due(n), true))
	must(s.t, err)
	s.wantFinish(s.finish(result(d.Started[0], ledger.Ended, state)), ledger.Recorded)
	return d.Started[0]
}

// runPool runs one task of the pool to state.
func (s *scene) runPool(pool string, state jobs.State) {
	s.t.Helper()
	s.enqueue(pool, 1)
	s.wantFinish(s.finish(result(s.claim(pool, 1)[0], ledger.Ended, state)), ledger.Recorded)
}

func standingOfJob(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.want("standing", s.standing("job", "a"), "none")
	s.runJob("a", 1, jobs.StateSucceeded)
	s.want("standing", s.standing("job", "a"), "fine")
	success := b.DB.Int(t, "SELECT last_success_at FROM {standings} WHERE kind='job' AND name='a'")
	if end := b.DB.Int(t, "SELECT finished_at FROM {done} WHERE job='a'"); success != end {
		t.Errorf("last success is %d, the task ended at %d", success, end)
	}
	s.wantInt(success, "SELECT last_end_at FROM {standings} WHERE kind='job' AND name='a'")

	s.runJob("a", 2, jobs.StateFailed)
	s.want("standing", s.standing("job", "a"), "failing")
	s.wantInt(success, "SELECT last_success_at FROM {standings} WHERE kind='job' AND name='a'")
	if end := b.DB.Int(t, "SELECT last_end_at FROM {standings} WHERE kind='job' AND name='a'"); end <= success {
		t.Errorf("last end is %d, the success before was %d", end, success)
	}
	s.want("events", s.events(), "failed job a")

	s.runJob("b", 1, jobs.StateSucceeded) // another job changes nothing for a
	s.runJob("a", 3, jobs.StateFailed)
	fixed := s.runJob("a", 4, jobs.StateSucceeded)
	s.runJob("a", 5, jobs.StateSucceeded)
	s.want("standing", s.standing("job", "a"), "fine")
	s.want("events", s.events(), "failed job a, failed job a, recovered job a")
	s.wantInt(1, "SELECT COUNT(*) FROM {events} WHERE event='recovered' AND task_id=? AND trigger_at=? AND replica='one' AND attempt=1 AND happened_at>0",
		fixed.ID, due(4).UnixMicro())
	s.wantInt(0, "SELECT COUNT(*) FROM {standings} WHERE kind='pool'")
}

func standingOfPool(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.runPool("work", jobs.StateSucceeded)
	s.want("standing", s.standing("pool", "work"), "none") // nothing to say
	s.runPool("work", jobs.StateFailed)
	s.runPool("work", jobs.StateFailed)
	s.want("standing", s.standing("pool", "work"), "failing")
	s.runPool("again", jobs.StateSucceeded)
	s.wantInt(0, "SELECT MAX(last_end_at) FROM {standings}") // a pool's row is not written with each end
	s.runPool("work", jobs.StateSucceeded)
	s.runPool("work", jobs.StateSucceeded)
	s.want("standing", s.standing("pool", "work"), "fine")
	s.want("events", s.events(), "failed pool work, failed pool work, recovered pool work")
	s.wantInt(0, "SELECT MAX(last_success_at) FROM {standings}")

	// An attempt that is followed by another one is no end.
	s.enqueue("work", 1)
	s.finish(ledger.Result{TaskID: s.claim("work", 1)[0].ID, Token: 1, Verdict: ledger.Again, State: jobs.StateFailed, RetryIn: time.Hour})
	s.want("standing", s.standing("pool", "work"), "fine")
}

func missedEvents(t *testing.T, b *Bench) {
	s := newScene(t, b)
	missed := ledger.Decision{Job: "a", Cursor: due(5), NextAt: due(6), Triggers: []ledger.Opening{
		{Trigger: jobs.Trigger{Job: "a", At: due(1), Until: due(3), Count: 3, Cause: jobs.CauseCatchUp, Outcome: jobs.Missed, Reason: "nobody was there"}},
		{Trigger: jobs.Trigger{Job: "a", At: due(4), Count: 1, Cause: jobs.CauseSchedule, Outcome: jobs.Skipped, Reason: "suspended"}},
	}}
	for range 2 { // the second time the rows exist
		_, err := s.decide(missed)
		must(t, err)
	}
	s.want("events", s.events(), "missed job a")
	s.wantInt(1, "SELECT COUNT(*) FROM {events} WHERE trigger_at=? AND until_at=? AND due_count=3 AND task_id='' AND reason='nobody was there' AND replica='one'",
		due(1).UnixMicro(), due(3).UnixMicro())
	s.want("standing", s.standing("job", "a"), "failing")
	s.runJob("a", 5, jobs.StateSucceeded)
	s.want("events", s.events(), "missed job a, recovered job a")
}

func lostEvents(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 1)
	s.enqueue("again", 1)
	s.claim("work", 1)
	s.claim("again", 1)
	_, err := s.decide(run("a", due(1), true))
	must(t, err)
	s.die()
	if n := len(s.reap()); n != 3 {
		t.Fatalf("%d reaped", n)
	}
	if got := s.events(); got != "lost job a, lost pool work" && got != "lost pool work, lost job a" { // what runs again is not lost yet
		t.Errorf("events are %q", got)
	}
	s.wantInt(2, "SELECT COUNT(*) FROM {events} WHERE replica='one' AND reason LIKE 'the session of replica one expired%'")
	s.want("job", s.standing("job", "a"), "failing")
	s.want("pool", s.standing("pool", "work"), "failing")
	s.want("pool", s.standing("pool", "again"), "none")
}

func cancelledEnds(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.runJob("a", 1, jobs.StateFailed)
	s.runJob("a", 2, jobs.StateCancelled)
	d, err := s.decide(run("a", due(3), false))
	must(t, err)
	_, err = b.Store.Cancel(s.ctx(), d.Opened[0].ID, "")
	must(t, err)
	s.runPool("work", jobs.StateCancelled)
	s.want("events", s.events(), "failed job a")
	s.want("standing", s.standing("job", "a"), "failing")
	s.want("standing", s.standing("pool", "work"), "none")

	// It is an end of its job, and neither a failure nor a success.
	s.runJob("b", 1, jobs.StateSucceeded)
	const end, success = "SELECT last_end_at FROM {standings} WHERE kind='job' AND name='b'", "SELECT last_success_at FROM {standings} WHERE kind='job' AND name='b'"
	succeeded := b.DB.Int(t, success)
	s.runJob("b", 2, jobs.StateCancelled)
	s.want("standing", s.standing("job", "b"), "fine")
	s.wantInt(succeeded, success)
	if ended := b.DB.Int(t, end); ended <= succeeded {
		t.Errorf("the last end was at %d, and the success before it at %d", ended, succeeded)
	}

	// A success is when it was, also where the clock was ahead at the end before.
	b.DB.Exec(t, "UPDATE {standings} SET last_end_at=? WHERE name='b'", due(1_000_000).UnixMicro())
	s.runJob("b", 3, jobs.StateSucceeded)
	s.wantInt(due(1_000_000).UnixMicro(), end)
	if now := b.DB.Int(t, success); now <= succeeded || now >= due(1_000_000).UnixMicro() {
		t.Errorf("the last success was at %d", now)
	}
}

func lateRecovers(t *testing.T, b *Bench) {
	s := newScene(t, b)
	d, err := s.decide(run("a", due(1), true))
	must(t, err)
	s.die()
	s.reap()
	r := result(d.Started[0], ledger.Ended, jobs.StateSucceeded)
	s.wantFinish(s.finish(r), ledger.Late)
	s.wantFinish(s.finish(r), ledger.Late)
	s.want("events", s.events(), "lost job a, recovered job a")
	s.want("standing", s.standing("job", "a"), "fine")
}

// What is recorded together happened at once: a failure among it is what counts.
func mixedBatch(t *testing.T, b *Bench) {
	s := newScene(t, b)
	batch := func(states ...jobs.State) {
		t.Helper()
		s.enqueue("work", len(states))
		var results []ledger.Result
		for i, task := range s.claim("work", len(states)) {
			results = append(results, result(task, ledger.Ended, states[i]))
		}
		s.finish(results...)
	}
	batch(jobs.StateSucceeded, jobs.StateFailed, jobs.StateSucceeded)
	s.want("standing", s.standing("pool", "work"), "failing")
	batch(jobs.StateFailed, jobs.StateSucceeded)
	s.want("events", s.events(), "failed pool work, failed pool work")
	batch(jobs.StateSucceeded, jobs.StateSucceeded)
	s.want("events", s.events(), "failed pool work, failed pool work, recovered pool work")
	batch(jobs.StateFailed)
	batch(jobs.StateCancelled, jobs.StateSucceeded) // what was cancelled is neither
	s.want("standing", s.standing("pool", "work"), "fine")
	s.want("events", s.events(), "failed pool work, failed pool work, recovered pool work, failed pool work, recovered pool work")

	const success = "SELECT last_success_at FROM {standings} WHERE kind='job' AND name='a'"
	n := 0
	ofJob := func(states ...jobs.State) {
		t.Helper()
		s.DB.Exec(t, "DELETE FROM {events}")
		var decisions []ledger.Decision
		for range states {
			n++
			decisions = append(decisions, run("a", due(n), true))
		}
		d, err := s.decide(decisions...)
		must(t, err)
		var results []ledger.Result
		for i, task := range d.Started {
			results = append(results, result(task, ledger.Ended, states[i]))
		}
		s.finish(results...)
	}
	ofJob(jobs.StateSucceeded, jobs.StateFailed)
	s.want("standing of the job", s.standing("job", "a"), "failing")
	first := b.DB.Int(t, success)
	if first == 0 {
		t.Error("a success beside a failure is not kept")
	}
	ofJob(jobs.StateFailed, jobs.StateSucceeded)
	s.want("events of the job", s.events(), "failed job a")
	s.want("standing of the job", s.standing("job", "a"), "failing")
	ofJob(jobs.StateSucceeded, jobs.StateCancelled)
	s.want("events of the job", s.events(), "recovered job a")
	s.want("standing of the job", s.standing("job", "a"), "fine")
	if last := b.DB.Int(t, success); last <= first {
		t.Errorf("the last success was at %d, and the first one at %d", last, first)
	}
}

// Notifications make no notifications.
func endsOfNotifications(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.DB.Exec(t, "UPDATE {pools} SET name=? WHERE name='work'", naming.NotificationsPool)
	s.runPool(naming.NotificationsPool, jobs.StateFailed)
	s.wantEmpty("events", "standings")
	d, err := s.decide(run("a", due(1), true)) // a job that runs there is no notification
	must(t, err)
	s.DB.Exec(t, "UPDATE {tasks} SET pool=?", naming.NotificationsPool)
	s.finish(result(d.Started[0], ledger.Ended, jobs.StateFailed))
	s.want("events", s.events(), "failed job a")
}

// Of two replicas that record successes at once, one recovers the job.
func recoverTogether(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	for n := range 5 {
		s.runPool("work", jobs.StateFailed)
		s.enqueue("work", 2)
		mine, theirs := s.claim("work", 1), other.claim("work", 1)
		failed := make(chan error)
		go func() {
			_, err := other.Store.Finish(other.ctx(), other.session, []ledger.Result{result(theirs[0], ledger.Ended, jobs.StateSucceeded)})
			failed <- err
		}()
		_, err := s.Store.Finish(s.ctx(), s.session, []ledger.Result{result(mine[0], ledger.Ended, jobs.StateSucceeded)})
		must(t, err)
		must(t, <-failed)
		s.wantInt(int64(n)+1, "SELECT COUNT(*) FROM {events} WHERE event='recovered'")
	}
}

// A job and a pool of one name have a standing each, and the end of one changes no other.
func standingNeighbours(t *testing.T, b *Bench) {
	s := newScene(t, b)
	b.DB.Exec(t, "UPDATE {pools} SET name='a' WHERE name='work'")
	stands := func(kind, name string) string {
		return fmt.Sprint(s.standing(kind, name), s.DB.Text(t, "SELECT last_end_at FROM {standings} WHERE kind=? AND name=?", kind, name))
	}
	s.runJob("b", 1, jobs.StateFailed)
	s.runJob("a", 1, jobs.StateFailed)
	a, other := stands("job", "a"), stands("job", "b")
	s.runPool("a", jobs.StateSucceeded)
	s.want("a pool that had no failure", stands("pool", "a"), "none")
	s.runPool("a", jobs.StateFailed)
	s.want("the pool", s.standing("pool", "a"), "failing")
	s.want("the job of its name", stands("job", "a"), a)

	s.runJob("c", 1, jobs.StateSucceeded)
	s.want("beside the end of a job", stands("job", "b"), other)
	got, err := s.decide(run("a", due(2), true), run("c", due(2), true))
	must(t, err)
	s.finish(result(got.Started[0], ledger.Ended, jobs.StateSucceeded), result(got.Started[1], ledger.Ended, jobs.StateSucceeded))
	s.want("beside the ends of two", stands("job", "b"), other)
	s.want("the job", s.standing("job", "a"), "fine")
	s.want("the pool of its name", s.standing("pool", "a"), "failing")
}

// An end and its event are written together or not at all.
func noEvent(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 1)
	task := s.claim("work", 1)[0]
	b.DB.Exec(t, "ALTER TABLE {events} RENAME TO {elsewhere}")
	_, err := s.Store.Finish(s.ctx(), s.session, []ledger.Result{result(task, ledger.Ended, jobs.StateFailed)})
	b.DB.Exec(t, "ALTER TABLE {elsewhere} RENAME TO {events}")
	if err == nil {
		t.Error("finished without its event")
	}
	s.want("task", s.task(task.ID), "running attempt 1 token 1 replica one: -")
	s.wantEmpty("standings", "done")
	s.wantFinish(s.finish(result(task, ledger.Ended, jobs.StateFailed)), ledger.Recorded)
	s.want("events", s.events(), "failed pool work")
}
