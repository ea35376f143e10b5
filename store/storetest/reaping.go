package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

var reapCases = []Case{
	{"Reap/Fails", reapFails},
	{"Reap/Retries", reapRetries},
	{"Reap/Quarantine", reapQuarantine},
	{"Reap/Cancelled", reapCancelled},
	{"Reap/Busy", reapBusy},
	{"Reap/ClaimAfterDeath", claimAfterDeath},
	{"Reap/Limit", reapLimit},
	{"Reap/Together", reapTogether},
	{"Reap/Extended", reapExtended},
}

// What fails when lost ends as lost, and its job is busy for as long as the attempt may run.
func reapFails(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	got, err := s.decide(run("a", due(1), true))
	must(t, err)
	task := got.Started[0]
	if reaped := other.reap(); len(reaped) != 0 {
		t.Fatalf("reaped tasks of the living: %+v", reaped)
	}
	s.die()
	reaped := other.reap()
	if len(reaped) != 1 || reaped[0].Replica != "one" || reaped[0].Task.ID != task.ID || reaped[0].Task.State != jobs.StateLost || reaped[0].Task.FinishedAt.IsZero() {
		t.Fatalf("reaped %+v", reaped)
	}
	s.want("task", s.task(task.ID), "lost attempt 1 token 1 replica one: the session of replica one expired while it had the task")
	s.want("trigger", s.trigger("a", due(1), 0), "lost lost: the session of replica one expired while it had the task")
	s.wantInt(due(61).UnixMicro(), "SELECT busy_until FROM {jobs} WHERE name='a'")
	s.wantInt(0, "SELECT busy_until FROM {jobs} WHERE name='b'")
	s.wantInt(1, "SELECT losses FROM {done}")
	if again := other.reap(); len(again) != 0 {
		t.Errorf("reaped again: %+v", again)
	}
}

// What is retried when lost runs again, until three attempts were lost, not before the lost
// attempt must have ended, and without using up its retries.
func reapRetries(t *testing.T, b *Bench) {
	s := newScene(t, b)
	living := s.second("living")
	id := s.enqueue("again", 1)[0]
	for n := 1; n <= limits.Losses; n++ {
		s.die()
		s.session = s.join("one")
		task := s.claim("again", 1)[0]
		if task.Attempt != n || task.Lost != n-1 {
			t.Fatalf("claimed %+v", task)
		}
		if n < limits.Losses {
			s.die()
			living.reap()
			s.want("row", s.task(id)[:23], "waits attempt "+string(rune('0'+n))+" token "+string(rune('0'+n)))
			s.wantInt(s.DB.Int(t, "SELECT started_at FROM {attempts} WHERE attempt=?", n)+minute, "SELECT run_at FROM {tasks}")
			s.wantInt(int64(n), "SELECT COUNT(*) FROM {attempts} WHERE state='lost' AND replica='one'")
			s.wantInt(0, "SELECT failures FROM {tasks}")
			s.DB.Exec(t, "UPDATE {tasks} SET run_at=1, state=0")
		}
	}
	s.die()
	reaped := living.reap()
	if len(reaped) != 1 || reaped[0].Task.State != jobs.StateLost || reaped[0].Task.Lost != 3 || reaped[0].Task.ReasonCode != reason.Quarantined {
		t.Fatalf("reaped %+v", reaped)
	}
	s.want("row", s.task(id), "lost attempt 3 token 3 replica one: quarantined: 3 replicas died while they had it, the last one one")
	s.wantInt(1, "SELECT COUNT(*) FROM {done} WHERE reason_code='quarantined'")
	s.wantInt(2, "SELECT COUNT(*) FROM {attempts} WHERE reason_code='replica_died'")
	s.want("the event", s.DB.Text(t, "SELECT reason_code FROM {events} WHERE event='lost'"), "quarantined")
	again, err := s.Store.Retry(s.ctx(), id, "alice", true)
	must(t, err)
	if again.Lost != 0 || again.State != jobs.StatePending {
		t.Errorf("the retry is %+v", again)
	}
}

// A task is quarantined for the replicas that died with it, and for nothing else that lost it.
func reapQuarantine(t *testing.T, b *Bench) {
	s := newScene(t, b)
	living := s.second("living")
	for _, c := range []struct {
		drained int // of three attempts
		code    reason.Code
	}{{0, reason.Quarantined}, {1, reason.LostLimit}, {2, reason.LostLimit}} {
		id := s.enqueue("again", 1)[0]
		for n := range 3 {
			s.die()
			s.session = s.join("one")
			task := s.claim("again", 1)[0]
			if n < c.drained {
				r := result(task, ledger.Died, jobs.StateLost)
				r.Code = reason.Drained
				s.finish(r)
			} else {
				s.die()
				living.reap()
			}
			s.DB.Exec(t, "UPDATE {tasks} SET run_at=1, state=0")
		}
		s.want("the code", s.DB.Text(t, "SELECT reason_code FROM {done} WHERE id=?", id), string(c.code))
	}
}

// Its cancellation was requested, so it does not run again.
func reapCancelled(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	s.enqueue("again", 1)
	task := s.claim("again", 1)[0]
	_, err := b.Store.Cancel(s.ctx(), task.ID, "bob")
	must(t, err)
	s.die()
	other.reap()
	s.want("row", s.task(task.ID), "lost attempt 1 token 1 replica one: the session of replica one expired while it had the task; cancelled by bob")
}

// A job is busy until the last of its attempts must have ended, and no shorter than it was; what may run again does so at
// once if its attempt must have ended by now.
func reapBusy(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	claim := func(job string, n int, until time.Time) {
		t.Helper()
		d := run(job, due(n), true)
		admit(d.Triggers[0].Task.ID, until)
		_, err := s.decide(d)
		must(t, err)
	}
	claim("a", 1, due(90))
	claim("a", 2, due(80))
	claim("b", 1, due(50))
	claim("c", 1, time.UnixMicro(5))
	s.DB.Exec(t, "UPDATE {jobs} SET busy_until=? WHERE name='b'", due(70).UnixMicro())
	over := s.enqueue("again", 1)[0]
	s.claim("again", 1)
	s.DB.Exec(t, "UPDATE {tasks} SET may_run_until=5 WHERE id=?", over)
	s.die()
	if reaped := other.reap(); len(reaped) != 5 {
		t.Fatalf("reaped %+v", reaped)
	}
	s.wantInt(due(90).UnixMicro(), "SELECT busy_until FROM {jobs} WHERE name='a'")
	s.wantInt(due(70).UnixMicro(), "SELECT busy_until FROM {jobs} WHERE name='b'")
	s.wantInt(5, "SELECT busy_until FROM {jobs} WHERE name='c'")
	s.want("what must have ended", s.task(over), "ready attempt 1 token 1 replica -: the session of replica one expired while it had the task")
	if again := other.claim("again", 1); len(again) != 1 || again[0].Lost != 1 {
		t.Errorf("claimed %+v", again)
	}
}

// A claim that commits after its session was declared dead is found by the next Reap.
func claimAfterDeath(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	s.enqueue("work", 1)
	got, err := s.decide(run("a", due(1), false))
	must(t, err)
	pending := got.Opened[0].ID
	die := s.die
	if b.Dialect == store.SQLite { // there, no session ends between the statements of a claim
		die = func() {}
	}
	c := s.claiming("work", 1)
	c.Admit = func(now time.Time, _ ledger.Candidate) (time.Time, bool) { die(); return now, true }
	claimed, err := tasksOf(b.Store.Claim(s.ctx(), c))
	must(t, err)
	request := s.deciding(func([]ledger.JobState) []ledger.Decision { die(); return []ledger.Decision{run("b", due(1), true)} })
	if b.Dialect == store.SQLite {
		_, err = decidedOf(b.Store.Decide(s.ctx(), request))
		must(t, err)
	} else if _, err = decidedOf(b.Store.Decide(s.ctx(), request)); !errors.Is(err, ledger.ErrSessionDead) {
		t.Errorf("a dead session decides: %v", err)
	}
	s.die()
	reaped := other.reap()
	want := []string{claimed.Tasks[0].ID}
	if b.Dialect == store.SQLite {
		want = append(want, b.DB.Text(t, "SELECT id FROM {done} WHERE job='b'"))
	}
	var lost []string
	for _, r := range reaped {
		lost = append(lost, r.Task.ID)
	}
	if d := cmp.Diff(want, lost); d != "" {
		t.Error(d)
	}
	// The session's row need not exist either.
	other.claim("default", 1)
	s.DB.Exec(t, "DELETE FROM {sessions} WHERE id=?", other.session)
	if reaped := other.reap(); len(reaped) != 1 || reaped[0].Task.ID != pending || reaped[0].Replica != "two" {
		t.Errorf("reaped %+v", reaped)
	}
}

// A beat of the dead session that is still in progress moves may_run_until while the task is being reaped: the job is busy
// until then, and what runs again waits until then.
func reapExtended(t *testing.T, b *Bench) {
	if b.Dialect == store.SQLite {
		return // there, no other process writes between the statements of Reap
	}
	s := newScene(t, b)
	other := s.second("two")
	for n, c := range []struct {
		lost jobs.OnLost
		row  string
	}{
		{jobs.LostFails, "lost attempt 1 token 1 replica one: the session of replica one expired while it had the task"},
		{jobs.LostRetries, "waits attempt 1 token 2 replica -: the session of replica one expired while it had the task"},
	} {
		decision := run("a", due(n+1), true)
		decision.Triggers[0].Task.OnLost = c.lost
		got, err := s.decide(decision)
		must(t, err)
		s.die()
		lock, err := b.DB.Handle().BeginTx(s.ctx(), nil)
		must(t, err)
		defer func() { _ = lock.Rollback() }()
		must(t, lock.QueryRowContext(s.ctx(), "SELECT name FROM lockstep_jobs WHERE name='a' FOR UPDATE").Scan(new(string)))
		reaped := make(chan error, 1)
		go func() { _, err := other.Store.Reap(s.ctx(), 9); reaped <- err }()
		await.Until(t, "the reaper has read the task, and waits for the job", func() bool {
			return b.DB.Int(t, "SELECT COUNT(*) FROM information_schema.processlist WHERE db=DATABASE() AND info LIKE 'SELECT name%{jobs}%FOR UPDATE' AND id<>CONNECTION_ID()") == 1
		})
		until := due(90 + n).UnixMicro()
		b.DB.Exec(t, "UPDATE {tasks} SET may_run_until=? WHERE id=?", until, got.Started[0].ID)
		must(t, lock.Rollback())
		must(t, <-reaped)
		s.want("task", s.task(got.Started[0].ID), c.row)
		s.wantInt(until, "SELECT busy_until FROM {jobs} WHERE name='a'")
		if c.lost == jobs.LostRetries {
			s.wantInt(until, "SELECT run_at FROM {tasks}")
		}
		s.session = s.join("one")
	}
}

// One row that the database does not take holds up no other, and where it takes none, few are tried.
func reapRefused(t *testing.T, b *Bench) {
	s := newScene(t, b)
	ids := s.enqueue("work", 64)
	s.claim("work", 64)
	s.die()
	refused := 0
	for i, id := range ids {
		if i%7 != 0 {
			continue
		}
		refused++ // an end of theirs is there already
		s.DB.Exec(t, `INSERT INTO {done} (id, pool, kind, job, trigger_at, trigger_seq, state, rank_order, run_at, attempt, failures, losses, max_attempts, on_lost,
			token, session_id, replica, idem_key, payload, tags, retry_of, reason, error, created_at, started_at, finished_at)
			SELECT id, pool, kind, job, trigger_at, trigger_seq, 'failed', rank_order, run_at, attempt, failures, losses, max_attempts, on_lost,
			token, session_id, replica, idem_key, payload, tags, retry_of, reason, error, created_at, started_at, 1 FROM {tasks} WHERE id=?`, id)
	}
	for _, want := range []int{64 - refused, 0} {
		reaped, err := b.Store.Reap(s.ctx(), 100)
		if err == nil || errors.Is(err, jobs.ErrUnavailable) || len(reaped) != want {
			t.Errorf("%d were reaped, of %d: %v", len(reaped), want, err)
		}
	}
	s.wantInt(int64(64-refused), "SELECT COUNT(*) FROM {done} WHERE state='lost'")
	s.wantInt(int64(refused), "SELECT COUNT(*) FROM {tasks} WHERE state=2")

	s.enqueue("work", 100)
	s.session = s.join("one")
	s.claim("work", 100)
	s.die()
	b.DB.Exec(t, "ALTER TABLE {done} RENAME TO {elsewhere}")
	reaped, err := b.Store.Reap(s.ctx(), 100)
	b.DB.Exec(t, "ALTER TABLE {elsewhere} RENAME TO {done}")
	if err == nil || len(reaped) > 0 {
		t.Fatalf("without a table, %d were reaped: %v", len(reaped), err)
	}
	if tries := strings.Count(err.Error(), "\n") + 1; tries > 30 {
		t.Errorf("a database that takes no end of any task was asked about %d of them, one by one", tries)
	}
}

func reapLimit(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 7)
	s.claim("work", 7)
	s.die()
	var counts []int
	for range 3 {
		reaped, err := b.Store.Reap(s.ctx(), 4)
		must(t, err)
		counts = append(counts, len(reaped))
	}
	if d := cmp.Diff([]int{4, 3, 0}, counts); d != "" {
		t.Error(d)
	}
}

// Several replicas reap at the same time, and the owner that was declared dead still runs: each task ends once.
func reapTogether(t *testing.T, b *Bench) {
	s := newScene(t, b)
	got, err := s.decide(run("a", due(1), true), run("b", due(1), true), run("c", due(1), true))
	must(t, err)
	s.enqueue("work", 40)
	tasks := append(got.Started, s.claim("work", 40)...)
	s.die()
	var reaped [4]int
	var done []ledger.Finished
	Together(t, 5, func(ctx context.Context, i int) error {
		if i == 4 {
			var results []ledger.Result
			for _, task := range tasks {
				results = append(results, result(task, ledger.Ended, jobs.StateSucceeded))
			}
			var err error
			done, err = b.Store.Finish(ctx, s.session, results)
			return err
		}
		for {
			list, err := b.Store.Reap(ctx, 10)
			if err != nil || len(list) == 0 {
				return err
			}
			reaped[i] += len(list)
		}
	})
	recorded, late := 0, 0
	for _, d := range done {
		switch d.Finish {
		case ledger.Recorded:
			recorded++
		case ledger.Late:
			late++
		}
	}
	n := len(tasks)
	if sum := reaped[0] + reaped[1] + reaped[2] + reaped[3]; recorded+late != n || sum+recorded != n {
		t.Errorf("of %d tasks %d were reaped (%v), %d recorded and %d late", n, sum, reaped, recorded, late)
	}
	s.wantInt(int64(n), "SELECT COUNT(*) FROM {done} WHERE state='succeeded'")
	s.wantInt(int64(late), "SELECT COUNT(*) FROM {done} WHERE late=1")
	s.wantInt(3, "SELECT COUNT(*) FROM {triggers} WHERE outcome='ran' AND result='succeeded'")
}
