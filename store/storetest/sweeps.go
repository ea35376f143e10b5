package storetest

import (
	"context"
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

var sweepCases = []Case{
	{"Sweep/Tasks", sweepTasks},
	{"Sweep/Triggers", sweepTriggers},
	{"Sweep/Sessions", sweepSessions},
	{"Sweep/WorkersSessions", sweepWorkersSessions},
	{"Sweep/KindsOfReloads", sweepKindsOfReloads},
	{"Sweep/Configurations", sweepConfigurations},
	{"Sweep/Limit", sweepLimit},
	{"Sweep/RetiredJobs", sweepRetiredJobs},
	{"Sweep/RetiredLocks", sweepRetiredLocks},
}

func (s *scene) sweep(r jobs.Retention, limit int) bool {
	s.t.Helper()
	more, err := s.Store.Sweep(s.ctx(), asIs, r, limit)
	must(s.t, err)
	return more
}

// ago is a time by the database's clock, near enough.
func ago(d time.Duration) int64 { return time.Now().Add(-d).UnixMicro() }

func sweepTasks(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 5)
	tasks := s.claim("work", 5)
	var results []ledger.Result
	for i, state := range []jobs.State{jobs.StateSucceeded, jobs.StateFailed, jobs.StateCancelled, jobs.StateFailed} {
		r := result(tasks[i], ledger.Ended, state)
		r.Output = []byte("out")
		results = append(results, r)
	}
	s.finish(results...)
	s.DB.Exec(t, "UPDATE {done} SET state='lost' WHERE id=?", tasks[3].ID) // its attempt would have been retried
	for _, task := range tasks {
		s.DB.Exec(t, "INSERT INTO {attempts} (task_id, attempt, state, token, replica, started_at, finished_at, error) VALUES (?, 0, 'failed', 0, '', 0, 0, '')", task.ID)
		s.DB.Exec(t, "INSERT INTO {idempotency} (pool, idem_key, task_id, body, created_at) VALUES ('work', ?, ?, '', 0)", task.ID, task.ID)
	}
	s.DB.Exec(t, "UPDATE {done} SET finished_at=?", ago(3*time.Hour))
	s.DB.Exec(t, "UPDATE {outputs} SET created_at=?", ago(3*time.Hour))

	s.sweep(jobs.Retention{Succeeded: 4 * time.Hour, Failed: 4 * time.Hour, Output: 4 * time.Hour}, 100)
	s.wantInt(4, "SELECT COUNT(*) FROM {done}")
	s.wantInt(4, "SELECT COUNT(*) FROM {outputs}")
	s.sweep(jobs.Retention{Succeeded: 2 * time.Hour}, 100)
	s.wantInt(3, "SELECT COUNT(*) FROM {done}")
	s.wantInt(0, "SELECT COUNT(*) FROM {done} WHERE state='succeeded'")
	s.wantInt(3, "SELECT COUNT(*) FROM {outputs}")
	s.sweep(jobs.Retention{Output: 2 * time.Hour}, 100)
	s.wantInt(3, "SELECT COUNT(*) FROM {done}")
	s.wantEmpty("outputs")
	s.sweep(jobs.Retention{Failed: 2 * time.Hour}, 100)
	s.wantEmpty("done")
	for _, table := range []string{"attempts", "idempotency"} { // those of the running task stay
		s.wantInt(1, "SELECT COUNT(*) FROM {"+table+"}")
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {tasks}")
}

// Open triggers stay, and what was due last year and was decided today: a backfill, and what an outage had missed.
func sweepTriggers(t *testing.T, b *Bench) {
	s := newScene(t, b)
	add := func(job, outcome string, at, until, decided, finished time.Duration) {
		row := func(d time.Duration) int64 {
			if d == 0 {
				return 0
			}
			return ago(d)
		}
		s.DB.Exec(t, `INSERT INTO {triggers} (job, at, seq, until_at, cause, outcome, replica, decided_at, finished_at) VALUES (?, ?, 0, ?, 'schedule', ?, '', ?, ?)`,
			job, row(at), row(until), outcome, row(decided), row(finished))
	}
	const h = time.Hour
	add("gone 1", "ran", 5*h, 0, 5*h, 5*h)
	add("gone 2", "missed", 9*h, 5*h, 5*h, 0)
	add("open", "", 5*h, 0, 5*h, 0)
	add("range", "missed", 5*h, h, 5*h, 0)
	add("backfill", "ran", 5*h, 0, h, h)
	add("long", "ran", 5*h, 0, 5*h, h)
	add("young", "ran", h, 0, h, h)
	add("missed just now", "missed", 5*h, 0, h, 0)
	s.sweep(jobs.Retention{}, 100)
	s.wantInt(8, "SELECT COUNT(*) FROM {triggers}")
	s.sweep(jobs.Retention{Triggers: 4 * h}, 100)
	s.wantInt(6, "SELECT COUNT(*) FROM {triggers}")
	s.wantInt(0, "SELECT COUNT(*) FROM {triggers} WHERE job LIKE 'gone%'")
}

// What waits for a job that no configuration has any more is cancelled; what runs, ends by itself.
func sweepRetiredJobs(t *testing.T, b *Bench) {
	s := newScene(t, b)
	kept, runs, waits, again := run("a", due(1), false), run("b", due(1), true), run("c", due(1), false), run("c", due(2), true)
	got, err := s.decide(kept, runs, waits, again)
	must(t, err)
	for _, task := range got.Started {
		if task.ID == again.Triggers[0].Task.ID {
			r := result(task, ledger.Again, jobs.StateFailed)
			r.Error, r.RetryIn = "no paper", time.Hour
			s.finish(r)
		}
	}
	_, err = s.decide(run("b", due(2), false)) // beside the one that runs
	must(t, err)
	own := s.enqueue("work", 1)[0]
	s.sweep(jobs.Retention{}, 100)
	s.wantInt(6, "SELECT COUNT(*) FROM {tasks}")

	b.DB.Exec(t, "UPDATE {jobs} SET hash='', schedule='', next_at=0 WHERE name<>'a'") // as what wrote it failed before it had cancelled them
	sweeps := 1                                                                       // one task each; jobs without pending tasks are not in the way
	for s.sweep(jobs.Retention{}, 1) {
		sweeps++
	}
	if sweeps != 4 {
		t.Errorf("after %d sweeps for three tasks nothing was left to do", sweeps)
	}
	s.want("what never ran", s.trigger("c", due(1), 0), "skipped cancelled: cancelled")
	s.want("what waited for another attempt", s.trigger("c", due(2), 0), "ran cancelled: "+ledger.ReasonRetired)
	s.want("what runs", s.trigger("b", due(1), 0), "open: -")
	s.want("what waits beside it", s.trigger("b", due(2), 0), "skipped cancelled: cancelled")
	s.want("what is still defined", s.trigger("a", due(1), 0), "open: -")
	s.wantInt(2, "SELECT COUNT(*) FROM {done} WHERE state='cancelled' AND job='c' AND reason=? AND reason_code='job_removed'", ledger.ReasonRetired)
	s.wantInt(1, "SELECT COUNT(*) FROM {tasks} WHERE id=?", own)
	s.wantInt(3, "SELECT COUNT(*) FROM {tasks}")
}

// A job that comes back while its tasks are about to be cancelled keeps them, and one that is locked
// does not hold up others.
func sweepRetiredLocks(t *testing.T, b *Bench) {
	if b.Dialect == store.SQLite {
		return // there, no other process writes between the statements of a sweep
	}
	s := newScene(t, b)
	_, err := s.decide(run("a", due(1), false), run("c", due(1), false))
	must(t, err)
	b.DB.Exec(t, "UPDATE {jobs} SET hash='', schedule='', next_at=0 WHERE name<>'b'")
	lock := func(job string) *sql.Tx {
		t.Helper()
		tx, err := b.DB.Handle().BeginTx(s.ctx(), nil)
		must(t, err)
		t.Cleanup(func() { _ = tx.Rollback() })
		must(t, tx.QueryRowContext(s.ctx(), "SELECT name FROM lockstep_jobs WHERE name=? FOR UPDATE", job).Scan(new(string)))
		return tx
	}
	back := lock("a")
	swept := make(chan error, 1)
	go func() { _, err := b.Store.Sweep(s.ctx(), asIs, jobs.Retention{}, 1); swept <- err }()
	await.Until(t, "the sweep waits for the job", func() bool {
		return b.DB.Int(t, "SELECT COUNT(*) FROM information_schema.processlist WHERE db=DATABASE() AND info LIKE 'SELECT name FROM {jobs} WHERE name IN%FOR UPDATE' AND id<>CONNECTION_ID()") == 1
	})
	_, err = back.ExecContext(s.ctx(), "UPDATE lockstep_jobs SET hash='hash' WHERE name='a'")
	must(t, err)
	must(t, back.Commit())
	must(t, <-swept)
	s.want("of the job that came back", s.trigger("a", due(1), 0), "open: -")

	s.DB.Exec(t, "UPDATE {jobs} SET hash='' WHERE name='a'")
	beside := lock("b")
	soon, stop := context.WithTimeout(s.ctx(), 20*time.Second)
	defer stop()
	_, err = b.Store.Sweep(soon, asIs, jobs.Retention{}, 100)
	must(t, err)
	must(t, beside.Rollback())
	s.wantEmpty("tasks")
}

func sweepSessions(t *testing.T, b *Bench) {
	s := newScene(t, b)
	living, gone, idle, loading, same := s.second("living"), s.second("gone"), s.second("idle"), s.second("loading"), s.second("same")
	numbers := map[string]int64{}
	for _, r := range []*scene{living, gone, idle} {
		d := withKinds("fax")
		d.Jobs = append(d.Jobs, JobDef(r.replica, "1", "s")) // each has a number of its own
		r.load(d)
		if r == living {
			same.load(d)
		}
		numbers[r.replica] = s.DB.Int(t, "SELECT config FROM {sessions} WHERE id=?", r.session)
	}
	kinds := func(want ...string) {
		t.Helper()
		for name, number := range numbers {
			kept := s.DB.Int(t, "SELECT COUNT(*) FROM {kinds} WHERE config=?", number) > 0
			if kept != slices.Contains(want, name) {
				t.Errorf("kinds of %s: kept %v", name, kept)
			}
		}
	}
	s.enqueue("work", 1)
	claimed, err := gone.claimUnder(withKinds("fax"), 1)
	must(t, err)
	task := claimed[0]
	gone.die()
	idle.die()
	same.die()    // its kinds stay: a live replica has the same configuration
	loading.die() // before it had loaded
	s.sweep(jobs.Retention{}, 100)
	s.wantInt(6, "SELECT COUNT(*) FROM {sessions}")
	kinds("living", "gone", "idle")
	s.DB.Exec(t, "UPDATE {sessions} SET seen_at=?", ago(55*time.Minute))
	s.sweep(jobs.Retention{}, 100)
	s.wantInt(6, "SELECT COUNT(*) FROM {sessions}")
	s.DB.Exec(t, "UPDATE {sessions} SET seen_at=?", ago(65*time.Minute))
	if s.sweep(jobs.Retention{}, 4) {
		t.Error("after three of at most four sessions it says that more is left")
	}
	s.wantInt(3, "SELECT COUNT(*) FROM {sessions}")
	kinds("living", "gone")
	if reaped := living.reap(); len(reaped) != 1 || reaped[0].Task.ID != task.ID {
		t.Errorf("reaped %+v", reaped)
	}
	s.sweep(jobs.Retention{}, 100)
	s.wantInt(2, "SELECT COUNT(*) FROM {sessions}")
	kinds("living")
}

// The dead sessions of workers go after a minute, as each claim may open one; those of replicas, live ones, and those under which tasks run stay.
func sweepWorkersSessions(t *testing.T, b *Bench) {
	s := newScene(t, b)
	replica := s.second("gone")
	replica.die()
	s.enqueue("work", 1)
	runs, live := s.worker("runs-1", "ci", "work", ""), s.worker("live-1", "ci", "work", "")
	if got := s.claimFor(runs, "runs-1", "work", 1, time.Hour); len(got) != 1 {
		t.Fatalf("claimed %+v", got)
	}
	must(t, s.Store.Leave(s.ctx(), runs))
	var left []string
	for range 3 {
		left = append(left, s.worker("left-1", "ci", "work", ""))
		must(t, s.Store.Leave(s.ctx(), left[len(left)-1]))
	}
	s.DB.Exec(t, "UPDATE {sessions} SET seen_at=?", ago(55*time.Second))
	s.sweep(jobs.Retention{}, 100)
	s.wantInt(7, "SELECT COUNT(*) FROM {sessions}")
	s.DB.Exec(t, "UPDATE {sessions} SET seen_at=?", ago(65*time.Second))
	if !s.sweep(jobs.Retention{}, 3) {
		t.Error("after three of at most three it does not say that more may be left")
	}
	s.wantInt(4, "SELECT COUNT(*) FROM {sessions}")
	for what, id := range map[string]string{"the replica's": replica.session, "the one with a task": runs, "the live one": live, "this replica's": s.session} {
		if s.DB.Int(t, "SELECT COUNT(*) FROM {sessions} WHERE id=?", id) != 1 {
			t.Errorf("%s has gone", what)
		}
	}
}

func sweepLimit(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 7)
	for _, task := range s.claim("work", 7) {
		s.finish(result(task, ledger.Ended, jobs.StateSucceeded))
	}
	s.DB.Exec(t, "UPDATE {done} SET finished_at=1")
	r := jobs.Retention{Succeeded: time.Hour}
	if !s.sweep(r, 4) || s.sweep(r, 4) {
		t.Error("more is wrong")
	}
	s.wantEmpty("done")
}
