package storetest

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var claimCases = []Case{
	{"Claims/Order", claimOrder},
	{"Claims/JobsOrder", claimJobsOrder},
	{"Claims/Bytes", claimBytes},
	{"Claims/Wanted", claimWanted},
	{"Claims/Row", claimRow},
	{"Claims/FirstStart", claimFirstStart},
	{"Claims/Refusals", claimRefusals},
	{"Claims/Nothing", claimNothing},
	{"Claims/Candidates", claimCandidates},
	{"Claims/Foreign", claimForeign},
	{"Claims/Beyond", claimBeyond},
	{"Claims/Skip", claimSkip},
	{"Claims/Once", claimOnce},
	{"Claims/MaxRunning", maxRunning},
	{"Claims/Stolen", claimStolen},
	{"Claims/Ready", readyPools},
	{"Claims/Ahead", readyAhead},
	{"Claims/Promoted", promoted},
	{"Claims/Scope", lookScope},
	{"Claims/Look", lookWindows},
	{"Claims/Within", claimWithin},
	{"Claims/Extend", extend},
}

func ids(tasks []jobs.Task) []string {
	var list []string
	for _, t := range tasks {
		list = append(list, t.ID)
	}
	return list
}

func claimOrder(t *testing.T, b *Bench) {
	s := newScene(t, b)
	made := s.enqueue("work", 6)
	s.enqueue("default", 1)
	s.DB.Exec(t, "UPDATE {tasks} SET rank_order=5 WHERE id=?", made[0])
	s.DB.Exec(t, "UPDATE {tasks} SET rank_order=-5, run_at=9 WHERE id=?", made[3])
	s.DB.Exec(t, "UPDATE {tasks} SET rank_order=-5 WHERE id=?", made[4])
	s.DB.Exec(t, "UPDATE {tasks} SET state=1 WHERE id=?", made[5])
	if d := cmp.Diff([]string{made[4], made[3], made[1]}, ids(s.claim("work", 3))); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{made[2], made[0]}, ids(s.claim("work", 3))); d != "" {
		t.Error(d)
	}
	if got := s.claim("work", 3); len(got) != 0 {
		t.Errorf("claimed %v", ids(got))
	}
}

// A trigger's task that waits in its pool is claimed by its priority, before older ones of triggers and enqueues that have a smaller one.
func claimJobsOrder(t *testing.T, b *Bench) {
	s := newScene(t, b)
	made := s.enqueue("work", 2)
	opening := func(job string, at time.Time, priority int) (string, ledger.Decision) {
		id := newID()
		return id, ledger.Decision{Job: job, Triggers: []ledger.Opening{{
			Trigger: jobs.Trigger{Job: job, At: at, Cause: jobs.CauseSchedule}, Task: &jobs.Task{ID: id, Pool: "work", Priority: priority},
		}}}
	}
	old, first := opening("a", due(1), 0)
	urgent, second := opening("b", due(2), 5)
	least, third := opening("c", due(3), -100)
	for _, d := range []ledger.Decision{third, first, second} {
		_, err := s.decide(d)
		must(t, err)
	}
	var order []string
	for range 5 {
		order = append(order, ids(s.claim("work", 1))...)
	}
	if d := cmp.Diff([]string{urgent, made[0], made[1], old, least}, order); d != "" {
		t.Error(d)
	}
}

// A claim ends before the payload that would be too much, in the order of claims, and takes one task whatever it has.
func claimBytes(t *testing.T, b *Bench) {
	s := newScene(t, b)
	made := s.enqueue("work", 6) // with their ids as payloads, in quotes
	s.DB.Exec(t, "UPDATE {tasks} SET payload=? WHERE id=?", []byte(`"`+strings.Repeat("x", 500)+`"`), made[3])
	size := len(made[0]) + 2
	for _, c := range []struct {
		bytes int
		want  []string
		more  bool
	}{{2*size - 1, made[:1], true}, {2 * size, made[1:3], true}, {1, made[3:4], true}, {0, made[4:], false}} {
		claim := s.claiming("work", 5)
		claim.Bytes = c.bytes
		got, err := tasksOf(s.Store.Claim(s.ctx(), claim))
		must(t, err)
		if d := cmp.Diff(c.want, ids(got.Tasks)); d != "" || got.More != c.more {
			t.Errorf("%d bytes: %t, %s", c.bytes, got.More, d)
		}
	}
}

// A claim takes as many as are wanted once its transaction has begun, if these are more than its share has room for, and asks again when it
// begins once more.
func claimWanted(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 9)
	for _, c := range []struct{ room, wanted, want int }{{1, 3, 3}, {2, 1, 2}, {1, 0, 1}, {1, 100, 3}} {
		claim := s.claiming("work", c.room)
		asked := 0
		claim.Wanted = func() int { asked++; return c.wanted }
		got, err := tasksOf(s.Store.Claim(s.ctx(), claim))
		must(t, err)
		if len(got.Tasks) != c.want || asked < 1 {
			t.Errorf("claimed %d with room for %d, as %d are wanted; it asked %d times", len(got.Tasks), c.room, c.wanted, asked)
		}
		if claim.Pools["work"].Room != c.room {
			t.Error("the caller's share was changed")
		}
	}
}

func claimRow(t *testing.T, b *Bench) {
	s := newScene(t, b)
	id := s.enqueue("again", 1)[0]
	s.DB.Exec(t, "UPDATE {tasks} SET attempt=1, token=7, failures=1, reason='x', error='y', exit_code=3, cancel='z' WHERE id=?", id)
	c := s.claiming("again", 5)
	got, err := tasksOf(s.Store.Claim(s.ctx(), c))
	must(t, err)
	want := ledger.Claimed{
		Now: got.Now,
		Tasks: []ledger.Started{{Until: got.Now.Add(time.Minute), Task: &jobs.Task{
			ID: id, Pool: "again", State: jobs.StateRunning, Attempt: 2, MaxAttempts: 11, OnLost: jobs.LostRetries, LostLimit: 3, Token: 8,
			Replica: "one", RunAt: time.UnixMicro(1).UTC(), CreatedAt: time.UnixMicro(1).UTC(), StartedAt: got.Now,
			Payload: json.RawMessage(`"` + id + `"`), PayloadSize: len(id) + 2, IdempotencyKey: id,
		}}},
	}
	if d := cmp.Diff(want, got.Claimed); d != "" {
		t.Error(d)
	}
	s.want("row", s.task(id), "running attempt 2 token 8 replica one: -")
	s.wantInt(1, "SELECT COUNT(*) FROM {tasks} WHERE session_id=? AND claim_id=? AND started_at=? AND may_run_until=? AND max_attempts=11 AND on_lost='retry' AND error='' AND exit_code IS NULL AND cancel=''",
		s.session, c.ID, got.Now.UnixMicro(), got.Now.Add(time.Minute).UnixMicro())
	is, err := s.Store.Running(s.ctx(), s.session)
	must(t, err)
	if d := cmp.Diff(ledger.Running{Own: []ledger.Own{{TaskID: id, Token: 8, ClaimID: c.ID}}}, is); d != "" {
		t.Error(d)
	}
}

// A trigger has started when its first attempt did, whenever another one does.
func claimFirstStart(t *testing.T, b *Bench) {
	s := newScene(t, b)
	_, err := s.decide(run("a", due(1), false))
	must(t, err)
	after := func(waited time.Duration) jobs.Task {
		t.Helper()
		c := s.claiming("default", 1)
		c.LockTook = waited
		got, err := s.Store.Claim(s.ctx(), c)
		must(t, err)
		return *got.Tasks[0].Task
	}
	first := after(7 * time.Millisecond)
	s.finish(ledger.Result{TaskID: first.ID, Token: first.Token, Verdict: ledger.Again, State: jobs.StateFailed})
	s.DB.Exec(t, "UPDATE {tasks} SET state=0, run_at=1")
	second := after(time.Second)
	if second.Attempt != 2 || !second.StartedAt.After(first.StartedAt) {
		t.Fatalf("claimed %+v after %+v", second, first)
	}
	s.wantInt(first.StartedAt.UnixMicro(), "SELECT started_at FROM {triggers} WHERE job='a'")
	s.wantInt(7000, "SELECT lock_took FROM {triggers} WHERE job='a'")
}

func claimRefusals(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 1)
	claim := func(change func(*ledger.Claim)) (claimed, error) {
		c := s.claiming("work", 5)
		change(&c)
		return tasksOf(s.Store.Claim(s.ctx(), c))
	}
	if _, err := claim(func(c *ledger.Claim) { share(c, func(s *ledger.Share) { s.Hash = "other" }) }); !errors.Is(err, ledger.ErrOutdated) {
		t.Errorf("with another hash: %v", err)
	}
	if _, err := claim(func(c *ledger.Claim) {
		c.Pool = "nobody's"
		share(c, func(s *ledger.Share) { s.Hash, s.Room = hash, 5 })
	}); !errors.Is(err, ledger.ErrOutdated) {
		t.Errorf("of an unknown pool: %v", err)
	}
	clock := func(time.Time) (time.Time, error) { return time.Time{}, ledger.ErrClock }
	if _, err := claim(func(c *ledger.Claim) { c.Now = clock }); !errors.Is(err, ledger.ErrClock) {
		t.Errorf("with a wrong clock: %v", err)
	}
	s.DB.Exec(t, "UPDATE {pools} SET paused=1 WHERE name='work'")
	if got, err := claim(func(c *ledger.Claim) {}); err != nil || !got.Paused || len(got.Tasks) > 0 {
		t.Errorf("of a paused pool: %+v, %v", got, err)
	}
	s.DB.Exec(t, "UPDATE {pools} SET paused=0 WHERE name='work'")
	s.die()
	if _, err := claim(func(*ledger.Claim) {}); !errors.Is(err, ledger.ErrSessionDead) {
		t.Errorf("of a dead session: %v", err)
	}
	s.wantInt(0, "SELECT COUNT(*) FROM {tasks} WHERE state<>0")
}

// A replica without room for a task sends no claim, whatever its session and its pool are; and where a pool has no room, no task is
// read.
func claimNothing(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 4)
	claim := func(change func(*ledger.Claim)) (got claimed) {
		t.Helper()
		c := s.claiming("work", 4)
		change(&c)
		got, err := tasksOf(s.Store.Claim(s.ctx(), c))
		must(t, err)
		return got
	}
	want := func(what string, got claimed, want ledger.Claimed) {
		t.Helper()
		want.Now = got.Now
		if d := cmp.Diff(want, got.Claimed); d != "" || got.Now.IsZero() {
			t.Errorf("%s, at %v: %s", what, got.Now, d)
		}
	}
	for _, limit := range []int{0, -1} {
		if d := cmp.Diff(ledger.Claimed{}, claim(func(c *ledger.Claim) { c.Session = "none"; share(c, func(s *ledger.Share) { s.Room = limit }) }).Claimed); d != "" {
			t.Errorf("limit %d: %s", limit, d)
		}
	}
	if got := s.claim("work", 3); len(got) != 3 {
		t.Fatalf("claimed %v", ids(got))
	}
	limited := func(c *ledger.Claim) { share(c, func(s *ledger.Share) { s.Limited = true }) }
	s.limit("work", 3)
	want("as many as may run", claim(limited), ledger.Claimed{Full: true, Limited: true})
	s.limit("work", 2)
	want("more than may run now", claim(limited), ledger.Claimed{Full: true, Limited: true})
	s.limit("work", 0)
	s.DB.Exec(t, "UPDATE {pools} SET paused=1 WHERE name='work'")
	want("a paused pool", claim(func(*ledger.Claim) {}), ledger.Claimed{Paused: true})
	s.DB.Exec(t, "UPDATE {pools} SET paused=0 WHERE name='work'")
	got := claim(func(*ledger.Claim) {})
	if len(got.Tasks) != 1 || got.More {
		t.Errorf("claimed %v of a pool that is paused no more", ids(got.Tasks))
	}
	want("an empty pool", claim(func(*ledger.Claim) {}), ledger.Claimed{})
}

// Admit gets the policy under which a task would run: for a task of a job the one it was made with, for any other
// the current one of its pool. What it admits runs under it.
func claimCandidates(t *testing.T, b *Bench) {
	s := newScene(t, b)
	_, err := s.decide(run("a", due(1), false))
	must(t, err)
	s.enqueue("default", 1)
	s.DB.Exec(t, "UPDATE {tasks} SET rank_order=1 WHERE job=''")
	s.DB.Exec(t, "UPDATE {pools} SET max_attempts=9, on_lost='retry' WHERE name='default'")
	s.DB.Exec(t, "UPDATE {jobs} SET fence=41 WHERE name='a'")
	var asked []ledger.Candidate
	c := s.claiming("default", 5)
	c.Admit = func(now time.Time, k ledger.Candidate) (time.Time, bool) {
		k.Task = jobs.Task{Job: k.Task.Job, MaxAttempts: k.Task.MaxAttempts, OnLost: k.Task.OnLost}
		asked = append(asked, k)
		return now, true
	}
	got, err := tasksOf(s.Store.Claim(s.ctx(), c))
	must(t, err)
	own := jobs.Task{Job: "a", MaxAttempts: 3, OnLost: jobs.LostFails}
	pool := jobs.Task{MaxAttempts: 9, OnLost: jobs.LostRetries}
	if d := cmp.Diff([]ledger.Candidate{{Task: own, JobHash: hash}, {Task: pool}}, asked[len(asked)-2:]); d != "" {
		t.Error(d)
	}
	if len(got.Tasks) != 2 || len(got.Foreign) != 0 {
		t.Fatalf("claimed %+v, foreign %+v", got.Tasks, got.Foreign)
	}
	if job, other := got.Tasks[0].Token, got.Tasks[1].Token; job != 42 || other != 1 {
		t.Errorf("the tokens are %d, which is the next of the job's, and %d", job, other)
	}
	s.want("the job's task", s.task(got.Tasks[0].ID), "running attempt 1 token 42 replica one: -")
	s.wantInt(42, "SELECT fence FROM {jobs} WHERE name='a'")
	for i, want := range []jobs.Task{own, pool} {
		if d := cmp.Diff(want, jobs.Task{Job: want.Job, MaxAttempts: got.Tasks[i].MaxAttempts, OnLost: got.Tasks[i].OnLost}); d != "" {
			t.Errorf("the answer: %s", d)
		}
		s.wantInt(1, "SELECT COUNT(*) FROM {tasks} WHERE state=2 AND id=? AND max_attempts=? AND on_lost=?", got.Tasks[i].ID, want.MaxAttempts, string(want.OnLost))
	}

	// A job without a row has nothing that would order its runs.
	s.finish(result(got.Tasks[0], ledger.HandBack, ""))
	s.DB.Exec(t, "DELETE FROM {jobs}")
	c.ID = newID()
	if got, err = tasksOf(s.Store.Claim(s.ctx(), c)); err != nil || len(got.Tasks) != 0 || len(got.Foreign) != 1 {
		t.Errorf("of a job without a row: claimed %+v, foreign %+v, %v", got.Tasks, got.Foreign, err)
	}
}

// Admit sees the hash of the job's row; what it refuses is named, and does not hide what comes after.
func claimForeign(t *testing.T, b *Bench) {
	s := newScene(t, b)
	_, err := s.decide(run("a", due(1), false), run("b", due(1), false), run("c", due(1), false))
	must(t, err)
	s.DB.Exec(t, "UPDATE {jobs} SET hash='newer' WHERE name IN ('a', 'b')")
	c := s.claiming("default", 2)
	c.Admit = func(now time.Time, c ledger.Candidate) (time.Time, bool) { return now, c.JobHash == hash }
	got, err := tasksOf(s.Store.Claim(s.ctx(), c))
	must(t, err)
	var foreign []string
	for _, task := range got.Foreign {
		foreign = append(foreign, task.Job)
	}
	slices.Sort(foreign)
	if len(got.Tasks) != 1 || got.Tasks[0].Job != "c" || !slices.Equal(foreign, []string{"a", "b"}) {
		t.Errorf("claimed %v, foreign %v", ids(got.Tasks), foreign)
	}
	s.wantInt(0, "SELECT SUM(fence) FROM {jobs} WHERE name IN ('a', 'b')")
}

// The next batch is read if all of the first was refused and there may be more, and the third is not.
func claimBeyond(t *testing.T, b *Bench) {
	s := newScene(t, b)
	got, err := s.decide(run("a", due(1), false), run("b", due(1), false), run("c", due(1), false))
	must(t, err)
	s.DB.Exec(t, "UPDATE {tasks} SET rank_order=? WHERE id=?", 1, got.Opened[1].ID)
	s.DB.Exec(t, "UPDATE {tasks} SET rank_order=? WHERE id=?", 2, got.Opened[2].ID)
	for _, c := range []struct {
		limit, looks   int
		theirs         []string
		taken, foreign string
		more           bool
	}{
		{1, 2, []string{"a", "b", "c"}, "", "ab", true},
		{1, 2, []string{"a", "b"}, "", "ab", true},
		{1, 2, []string{"a"}, "b", "a", true},
		{2, 1, []string{"a"}, "b", "a", true}, // what was taken is returned, and nothing behind it is read
		{3, 2, []string{"a", "b", "c"}, "", "abc", false},
		{4, 1, []string{"a", "b", "c"}, "", "abc", false},
		{4, 1, []string{"b"}, "ac", "b", false},
	} {
		looks := 0
		q := s.claiming("default", c.limit)
		q.Now = func(database time.Time) (time.Time, error) { looks++; return database, nil }
		q.Admit = func(now time.Time, k ledger.Candidate) (time.Time, bool) {
			return now, !slices.Contains(c.theirs, k.Task.Job)
		}
		got, err := tasksOf(s.Store.Claim(s.ctx(), q))
		must(t, err)
		names := func(tasks []jobs.Task) (all string) {
			for _, task := range tasks {
				all += task.Job
			}
			return all
		}
		if names(got.Tasks) != c.taken || names(got.Foreign) != c.foreign || got.More != c.more || c.taken == "" && looks != c.looks {
			t.Errorf("%+v: claimed %q, foreign %q, more %v, in %d looks", c, names(got.Tasks), names(got.Foreign), got.More, looks)
		}
		var back []ledger.Result
		for _, task := range got.Tasks {
			back = append(back, result(task, ledger.HandBack, ""))
		}
		s.finish(back...)
	}
}

func claimSkip(t *testing.T, b *Bench) {
	s := newScene(t, b)
	_, err := s.decide(run("a", due(1), false), run("b", due(1), false))
	must(t, err)
	made := s.enqueue("default", 3)
	s.DB.Exec(t, "UPDATE {tasks} SET kind='mail' WHERE id=?", made[1])
	s.DB.Exec(t, "UPDATE {tasks} SET kind='fax' WHERE id=?", made[2])
	c := s.claiming("default", 10)
	c.Scope = ledger.Scope{SkipJobs: []string{"a", "x"}, Kinds: []string{"mail"}}
	got, err := tasksOf(s.Store.Claim(s.ctx(), c))
	must(t, err)
	// Job b has a handler of its own, although its kind is "".
	if len(got.Tasks) != 2 || got.Tasks[0].ID != made[1] || got.Tasks[1].Job != "b" {
		t.Errorf("claimed %+v", got.Tasks)
	}
}
