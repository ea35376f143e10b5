package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// What is written about one task, due time or session leaves the rows beside it alone.
var neighbourCases = []Case{
	{"Neighbours/Triggers", triggerNeighbours},
	{"Neighbours/Late", lateNeighbours},
	{"Neighbours/Extend", extendNeighbours},
	{"Neighbours/MaxRunning", maxRunningNeighbours},
	{"Neighbours/Load", loadNeighbours},
	{"Neighbours/Pools", poolNeighbours},
	{"Neighbours/Sessions", sessionNeighbours},
	{"Neighbours/Own", ownNeighbours},
	{"Neighbours/Overrides", overrideNeighbours},
	{"Neighbours/Outputs", outputNeighbours},
}

// ledgerRow is a row of the ledger as one line.
func (s *scene) ledgerRow(job string, at time.Time, seq int) string {
	const row = " FROM {triggers} WHERE job=? AND at=? AND seq=?"
	return fmt.Sprint(s.trigger(job, at, seq), ", started ", s.DB.Int(s.t, "SELECT started_at"+row, job, at.UnixMicro(), seq),
		", finished ", s.DB.Int(s.t, "SELECT finished_at"+row, job, at.UnixMicro(), seq))
}

// Each step of a task is a step of the trigger that it came from, and of no other: not of the same job's other
// due times, of another job's due time, of a manual run, of a trigger that has another task or has ended.
func triggerNeighbours(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	with := func(v ledger.Verdict, state jobs.State) func(...jobs.Task) {
		return func(tasks ...jobs.Task) {
			var results []ledger.Result
			for _, task := range tasks {
				results = append(results, result(task, v, state))
			}
			s.finish(results...)
		}
	}
	succeed := with(ledger.Ended, jobs.StateSucceeded)
	steps := []struct {
		name    string
		claimed bool
		lost    bool
		started int64 // of the rows beside it
		do      func(...jobs.Task)
	}{
		{"claim", false, false, 0, func(tasks ...jobs.Task) { s.claim("default", len(tasks)) }},
		{"hand back", true, false, 5, with(ledger.HandBack, "")},
		{"end", true, false, 5, succeed},
		{"late result", true, true, 5, succeed},
	}
	n := 0
	for _, step := range steps {
		for i, apart := range []string{"", "task_id='another'", "outcome='skipped'", "", "task_id='another'", "outcome='skipped'"} {
			n += 10
			s.DB.Exec(t, "DELETE FROM {tasks}")
			at := due(n)
			decisions := []ledger.Decision{run("a", at, step.claimed)}
			if i >= 3 { // together with another job's
				decisions = append(decisions, run("c", at, step.claimed))
			}
			got, err := s.decide(decisions...)
			must(t, err)
			tasks := append(got.Started, got.Opened...)
			task := tasks[0]
			outcome := ""
			if step.lost {
				s.die()
				if reaped := other.reap(); len(reaped) != len(tasks) {
					t.Fatalf("reaped %+v", reaped)
				}
				s.session, outcome = s.join("one"), "lost"
			}
			type key struct {
				job string
				at  time.Time
				seq int
			}
			beside := []key{{"b", at, 0}, {"a", due(n + 1), 0}, {"a", at, 7}}
			for _, k := range beside {
				s.DB.Exec(t, `INSERT INTO {triggers} (job, at, seq, until_at, cause, outcome, replica, decided_at, task_id, started_at) VALUES (?, ?, ?, 0, 'schedule', ?, '', 1, ?, ?)`,
					k.job, k.at.UnixMicro(), k.seq, outcome, task.ID, step.started)
			}
			own := key{"a", at, 0}
			if apart != "" {
				s.DB.Exec(t, "UPDATE {triggers} SET "+apart+" WHERE job='a' AND at=? AND seq=0", at.UnixMicro())
				beside = append(beside, own)
			}
			rows := func() (all []string) {
				for _, k := range beside {
					all = append(all, fmt.Sprint(k.job, " ", k.at.Format("15:04"), " ", k.seq, ": ", s.ledgerRow(k.job, k.at, k.seq)))
				}
				return all
			}
			before, was := rows(), s.ledgerRow(own.job, own.at, own.seq)
			step.do(tasks...)
			if d := cmp.Diff(before, rows()); d != "" {
				t.Errorf("%s %s: %s", step.name, apart, d)
			}
			if is := s.ledgerRow(own.job, own.at, own.seq); apart == "" && is == was {
				t.Errorf("%s: the trigger is still %q", step.name, is)
			}
		}
	}
}

// A late result replaces what was given up of its own task, whole.
func lateNeighbours(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	s.enqueue("work", 4)
	tasks := s.claim("work", 4)
	got, err := s.decide(run("a", due(1), true), run("b", due(1), true))
	must(t, err)
	s.die()
	if reaped := other.reap(); len(reaped) != 6 {
		t.Fatalf("reaped %+v", reaped)
	}
	s.DB.Exec(t, "UPDATE {done} SET finished_at=1")
	s.DB.Exec(t, "UPDATE {triggers} SET finished_at=1")
	code := 4
	late := func(task jobs.Task) ledger.Result {
		r := result(task, ledger.Ended, jobs.StateFailed)
		r.Error, r.ExitCode = "boom", &code
		return r
	}
	s.wantFinish(s.finish(late(tasks[0]), late(tasks[1])), ledger.Late, ledger.Late)
	s.wantFinish(s.finish(late(tasks[2])), ledger.Late)
	s.wantFinish(s.finish(late(got.Started[0])), ledger.Late)
	s.wantInt(4, "SELECT COUNT(*) FROM {done} WHERE state='failed' AND late=1 AND exit_code=4 AND error='boom' AND reason='late' AND finished_at>1")
	s.wantInt(1, "SELECT COUNT(*) FROM {done} WHERE state='lost' AND late=0 AND exit_code IS NULL AND finished_at=1 AND id=?", tasks[3].ID)
	s.wantInt(1, "SELECT COUNT(*) FROM {triggers} WHERE outcome='ran' AND result='failed' AND finished_at>1")
	s.wantInt(0, "SELECT busy_until FROM {jobs} WHERE name='a'")
	s.wantInt(1, "SELECT COUNT(*) FROM {jobs} WHERE name='b' AND busy_until>0")
}

// Only the owner moves the end of an attempt, under the attempt's token, and of that attempt alone.
func extendNeighbours(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	s.enqueue("work", 3)
	mine, beside := s.claim("work", 1)[0], s.claim("work", 1)[0]
	theirs := other.claim("work", 1)[0]
	until := func(task jobs.Task) int64 {
		return s.DB.Int(t, "SELECT may_run_until FROM {tasks} WHERE id=?", task.ID)
	}
	extend := func(task jobs.Task, token int64, want bool) {
		t.Helper()
		before, apart := until(task), until(beside)
		ours, err := s.Store.Extend(s.ctx(), s.session, []ledger.Extension{{TaskID: task.ID, Token: token, Until: time.Now().Add(time.Hour)}})
		must(t, err)
		if ours[0] != want || (until(task) != before) != want {
			t.Errorf("ours: %v, moved: %v; want %v", ours[0], until(task) != before, want)
		}
		if until(beside) != apart {
			t.Error("the attempt beside it was moved")
		}
	}
	extend(theirs, theirs.Token, false)
	extend(mine, mine.Token-1, false)
	extend(mine, mine.Token+1, false)
	s.DB.Exec(t, "UPDATE {tasks} SET state=0 WHERE id=?", mine.ID)
	extend(mine, mine.Token, false)
	s.DB.Exec(t, "UPDATE {tasks} SET state=2 WHERE id=?", mine.ID)
	extend(mine, mine.Token, true)
}

// What runs in other pools takes no room, nor does what waits in this one.
func maxRunningNeighbours(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("again", 3)
	s.claim("again", 3)
	s.enqueue("work", 5)
	c := s.claiming("work", 5)
	share(&c, func(s *ledger.Share) { s.Limited = true })
	s.limit("work", 2)
	got, err := tasksOf(s.Store.Claim(s.ctx(), c))
	must(t, err)
	if len(got.Tasks) != 2 {
		t.Errorf("claimed %d of two, with three running in another pool", len(got.Tasks))
	}
}

// A configuration is loaded for a live session, and its number counts alone.
func loadNeighbours(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	numbers := func() string {
		return fmt.Sprint(s.DB.Int(t, "SELECT config FROM {sessions} WHERE id=?", s.session), " ", s.DB.Int(t, "SELECT config FROM {sessions} WHERE id=?", other.session))
	}
	number := load(t, b, s.session, definitions())
	s.want("numbers of the sessions", numbers(), fmt.Sprint(number, " 0"))
	other.die()
	if _, err := b.Store.Load(s.ctx(), other.session, definitions()); err == nil {
		t.Error("a dead session loads a configuration")
	}
	s.want("numbers of the sessions", numbers(), fmt.Sprint(number, " 0"))
}

// A pool that was retired comes back as it is defined now, and no other pool with it.
func poolNeighbours(t *testing.T, b *Bench) {
	s := newScene(t, b)
	d := definitions()
	d.Pools = d.Pools[:2]
	load(t, b, s.session, d)
	s.want("hash of the pool that was retired", s.DB.Text(t, "SELECT hash FROM {pools} WHERE name='work'"), "")
	retry := jobs.LostRetries
	must(t, b.Store.AddPools(t.Context(), map[string]jobs.Pool{"work": {MaxRunning: 7, Rate: jobs.Rate{Count: 8, Per: time.Hour}, Burst: 9, Retries: jobs.Retries{Limit: 4}, OnLost: retry}}))
	s.wantInt(1, "SELECT COUNT(*) FROM {pools} WHERE name='work' AND hash<>'' AND config=0 AND max_running=7 AND rate='8/h' AND burst=9 AND max_attempts=5 AND on_lost=?", string(retry))
	s.wantInt(1, "SELECT COUNT(*) FROM {pools} WHERE name='again' AND hash=? AND config>0 AND max_running=0 AND rate='' AND burst=0 AND max_attempts=11", hash)
}

// A change of a session changes no other, and no dead one.
func sessionNeighbours(t *testing.T, b *Bench) {
	s := newScene(t, b)
	two, three := s.second("two"), s.second("three")
	session := func(session string) string {
		const row = " FROM {sessions} WHERE id=?"
		return fmt.Sprint("dead ", s.DB.Int(t, "SELECT dead"+row, session), ", draining ", s.DB.Int(t, "SELECT draining"+row, session),
			", beat ", s.DB.Int(t, "SELECT beat"+row, session))
	}
	seen := func() int64 { return s.DB.Int(t, "SELECT seen_at FROM {sessions} WHERE id=?", s.session) }
	before := seen()
	_, err := b.Store.Beat(s.ctx(), s.session)
	must(t, err)
	if seen() <= before {
		t.Errorf("last seen at %d, before that beat at %d", seen(), before)
	}
	dead, err := b.Store.Expire(s.ctx(), two.session, 0)
	must(t, err)
	if !dead {
		t.Error("the session that did not beat is not dead")
	}
	if err := b.Store.SetDraining(s.ctx(), two.session); !errors.Is(err, ledger.ErrSessionDead) {
		t.Errorf("a dead session drains: %v", err)
	}
	must(t, b.Store.SetDraining(s.ctx(), s.session))
	s.want("one", session(s.session), "dead 0, draining 1, beat 1")
	s.want("two", session(two.session), "dead 1, draining 0, beat 0")
	s.want("three", session(three.session), "dead 0, draining 0, beat 0")
	three.die()
	s.want("one", session(s.session), "dead 0, draining 1, beat 1")
}

// A replica's own rows are those that run under its session.
func ownNeighbours(t *testing.T, b *Bench) {
	s := newScene(t, b)
	other := s.second("two")
	s.enqueue("work", 4)
	mine := s.claim("work", 2)
	other.claim("work", 1)
	s.finish(result(mine[1], ledger.HandBack, ""))
	is, err := b.Store.Running(s.ctx(), s.session)
	must(t, err)
	if len(is.Own) != 1 || is.Own[0].TaskID != mine[0].ID || is.Orphaned {
		t.Errorf("what runs is %+v, want that of %s", is, mine[0].ID)
	}
}

// A job is suspended and a pool paused or limited alone, and not once it is retired.
func overrideNeighbours(t *testing.T, b *Bench) {
	s := newScene(t, b)
	yes := true
	must(t, b.Store.SuspendJob(s.ctx(), "b", "me", &yes))
	must(t, b.Store.PausePool(s.ctx(), "default", "me", &yes))
	s.wantInt(1, "SELECT COUNT(*) FROM {jobs} WHERE suspended=1 OR suspended_by<>''")
	s.wantInt(1, "SELECT COUNT(*) FROM {jobs} WHERE suspended=1 AND name='b'")
	s.wantInt(1, "SELECT COUNT(*) FROM {pools} WHERE paused=1 OR paused_by<>''")
	s.wantInt(1, "SELECT COUNT(*) FROM {pools} WHERE paused=1 AND name='default'")
	must(t, b.Store.LimitPool(s.ctx(), "default", "me", &wire.PoolLimits{Burst: new(7)}))
	s.wantInt(1, "SELECT COUNT(*) FROM {pools} WHERE set_burst=7 OR limits_by<>''")
	s.wantInt(1, "SELECT COUNT(*) FROM {pools} WHERE set_burst=7 AND limits_by='me' AND name='default'")
	d := definitions()
	d.Jobs, d.Pools = d.Jobs[:2], d.Pools[:2]
	load(t, b, s.session, d)
	for what, err := range map[string]error{
		"retired job": b.Store.SuspendJob(s.ctx(), "c", "me", &yes), "no job": b.Store.SuspendJob(s.ctx(), "zz", "me", &yes),
		"retired pool": b.Store.PausePool(s.ctx(), "work", "me", &yes), "no pool": b.Store.PausePool(s.ctx(), "zz", "me", &yes),
		"limits of a retired pool": b.Store.LimitPool(s.ctx(), "work", "me", &wire.PoolLimits{Burst: new(7)}), "limits of no pool": b.Store.LimitPool(s.ctx(), "zz", "me", nil),
	} {
		if !errors.Is(err, jobs.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Old outputs go, and those of today stay, of the same task too.
func outputNeighbours(t *testing.T, b *Bench) {
	s := newScene(t, b)
	for i, at := range []int64{ago(3 * time.Hour), ago(3 * time.Hour), ago(time.Minute)} {
		s.DB.Exec(t, "INSERT INTO {outputs} (task_id, attempt, output, created_at) VALUES ('x', ?, 'out', ?)", i+1, at)
		s.DB.Exec(t, "INSERT INTO {outputs} (task_id, attempt, output, created_at) VALUES (?, 1, 'out', ?)", fmt.Sprint("y", i), at)
	}
	s.sweep(jobs.Retention{Output: 2 * time.Hour}, 100)
	s.wantInt(2, "SELECT COUNT(*) FROM {outputs}")
	s.wantInt(1, "SELECT COUNT(*) FROM {outputs} WHERE task_id='x' AND attempt=3")
	s.wantInt(1, "SELECT COUNT(*) FROM {outputs} WHERE task_id='y2'")
}
