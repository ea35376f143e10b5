package storetest

import (
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// A result that is recorded late has the end of its attempt in each row that says when that was: so long ago as its writer has measured, not before
// the start of the attempt, and not after now.
func endedBefore(t *testing.T, b *Bench) {
	s := newScene(t, b)
	decided, err := s.decide(run("a", due(1), true), run("b", due(1), true), run("c", due(1), true))
	must(t, err)
	s.enqueue("work", 2)
	tasks := s.claim("work", 2)
	b.DB.Exec(t, "UPDATE {tasks} SET started_at=started_at-60000000")
	b.DB.Exec(t, "UPDATE {triggers} SET started_at=started_at-60000000")
	ended := func(task jobs.Task, ago time.Duration, v ledger.Verdict, state jobs.State) ledger.Result {
		task.StartedAt = task.StartedAt.Add(-time.Minute)
		r := result(task, v, state)
		r.Ended = time.Now().Add(-ago)
		return r
	}
	began := time.Now()
	// What lies between the database's time and the measurement counts as before.
	near := func(what string, at int64, ago time.Duration) {
		t.Helper()
		since := time.Since(began) + time.Millisecond
		if got := time.UnixMicro(at); got.Before(began.Add(-ago-since)) || got.After(began.Add(-ago+since)) {
			t.Errorf("%s: ended at %s, want %v before %s", what, got.UTC(), ago, began.UTC())
		}
	}

	known := ended(decided.Started[0], 10*time.Second, ledger.Ended, jobs.StateFailed) // its row is not read
	done := s.finish(known)
	s.wantFinish(done, ledger.Recorded)
	at := done[0].Row(known).FinishedAt.UnixMicro()
	near("in the answer", at, 10*time.Second)
	s.wantInt(at, "SELECT finished_at FROM {done} WHERE job='a'")
	s.wantInt(at, "SELECT finished_at FROM {triggers} WHERE job='a'")
	s.wantInt(at, "SELECT happened_at FROM {events} WHERE job='a'")
	s.wantInt(at, "SELECT last_end_at FROM {standings} WHERE name='a'")

	s.wantFinish(s.finish(ended(decided.Started[1], 20*time.Second, ledger.Again, jobs.StateFailed)), ledger.Recorded)
	near("an attempt that another one follows", b.DB.Int(t, "SELECT finished_at FROM {attempts}"), 20*time.Second)

	early, late := ended(tasks[0], time.Hour, ledger.Ended, jobs.StateSucceeded), ended(tasks[1], -time.Hour, ledger.Ended, jobs.StateSucceeded)
	early.Task = nil // its row is read
	done = s.finish(early, late)
	s.wantFinish(done, ledger.Recorded, ledger.Recorded)
	s.wantInt(b.DB.Int(t, "SELECT started_at FROM {done} WHERE id=?", tasks[0].ID), "SELECT finished_at FROM {done} WHERE id=?", tasks[0].ID)
	s.wantInt(done[0].Task.FinishedAt.UnixMicro(), "SELECT finished_at FROM {done} WHERE id=?", tasks[0].ID)
	near("later than now", b.DB.Int(t, "SELECT finished_at FROM {done} WHERE id=?", tasks[1].ID), 0)

	s.wantFinish(s.finish(ended(decided.Started[2], 5*time.Second, ledger.Died, jobs.StateLost)), ledger.Recorded)
	near("one that its owner has stopped", b.DB.Int(t, "SELECT finished_at FROM {triggers} WHERE job='c'"), 5*time.Second)
	s.wantFinish(s.finish(ended(decided.Started[2], 30*time.Second, ledger.Ended, jobs.StateSucceeded)), ledger.Late)
	at = b.DB.Int(t, "SELECT finished_at FROM {done} WHERE job='c'")
	near("a lost one, by its own result", at, 30*time.Second)
	s.wantInt(at, "SELECT finished_at FROM {triggers} WHERE job='c'")
	s.wantInt(at, "SELECT last_success_at FROM {standings} WHERE name='c'")
}
