package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

func readyPools(t *testing.T, b *Bench) {
	s := newScene(t, b)
	check := func(want []string, wantNext int64) {
		t.Helper()
		is, err := b.Store.Ready(s.ctx(), asIs)
		pools, next := is.Pools, is.Next
		must(t, err)
		if d := cmp.Diff(want, pools); d != "" {
			t.Error(d)
		}
		if got := next; wantNext == 0 && !got.IsZero() || wantNext != 0 && got.UnixMicro() != wantNext {
			t.Errorf("next is %v", got)
		}
	}
	check(nil, 0)
	waiting := s.enqueue("again", 2)
	s.enqueue("work", 2)
	s.enqueue("unknown", 1)
	s.DB.Exec(t, "UPDATE {tasks} SET state=1 WHERE pool='again'")
	s.DB.Exec(t, "UPDATE {tasks} SET run_at=? WHERE id=?", noon*2, waiting[1])
	check([]string{"again", "work"}, noon*2)
	s.want("due", s.task(waiting[0]), "ready attempt 0 token 0 replica -: -")
	s.want("not due", s.task(waiting[1]), "waits attempt 0 token 0 replica -: -")
	s.claim("work", 5)
	check([]string{"again"}, noon*2)
	for _, paused := range []bool{true, false} {
		must(t, b.Store.PausePool(s.ctx(), "again", "bob", &paused))
		if paused {
			check(nil, noon*2)
		} else {
			check([]string{"again"}, noon*2)
		}
	}
	paused := true
	must(t, b.Store.PausePool(s.ctx(), "again", "bob", &paused))
	must(t, b.Store.PausePool(s.ctx(), "again", "bob", nil))
	check([]string{"again"}, noon*2)

	s.DB.Exec(t, "UPDATE {pools} SET hash='' WHERE name='again'")
	check(nil, noon*2)
}

// A task becomes ready when it is due, however many are ready, and once: one that another replica has
// made ready meanwhile, and that has been claimed, stays claimed.
func promoted(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 1000) // as many as become ready at once
	id := s.enqueue("again", 1)[0]
	s.DB.Exec(t, "UPDATE {tasks} SET state=1, run_at=2 WHERE id=?", id)
	_, err := b.Store.Ready(s.ctx(), asIs)
	must(t, err)
	s.want("behind those that are ready", s.task(id), "ready attempt 0 token 0 replica -: -")
	if b.Dialect == store.SQLite {
		return // there, no other process writes between the statements of a transaction
	}
	s.DB.Exec(t, "UPDATE {tasks} SET state=1 WHERE id=?", id)
	other, err := b.DB.Handle().BeginTx(s.ctx(), nil)
	must(t, err)
	defer func() { _ = other.Rollback() }()
	_, err = other.ExecContext(s.ctx(), "UPDATE lockstep_tasks SET state=2, attempt=1, token=1, replica='two' WHERE id=?", id)
	must(t, err)
	done := make(chan error, 1)
	go func() { _, err := b.Store.Ready(s.ctx(), asIs); done <- err }()
	await.Until(t, "somebody has read that the task waits, and would make it ready", func() bool {
		return b.DB.Int(t, "SELECT COUNT(*) FROM information_schema.processlist WHERE db=DATABASE() AND info LIKE 'UPDATE {tasks}%' AND id<>CONNECTION_ID()") == 1
	})
	must(t, other.Commit())
	must(t, <-done)
	s.want("what was claimed", s.task(id), "running attempt 1 token 1 replica two: -")
}

// What is out of scope is no work.
func lookScope(t *testing.T, b *Bench) {
	s := newScene(t, b)
	again := s.enqueue("again", 2)
	s.enqueue("work", 2)
	_, err := s.decide(run("a", due(1), false))
	must(t, err)
	s.DB.Exec(t, "UPDATE {tasks} SET kind='mail' WHERE pool='again'")
	s.DB.Exec(t, "UPDATE {tasks} SET state=1, kind='waits' WHERE id=?", again[1])
	for _, c := range []struct {
		pool  string
		scope ledger.Scope
		want  bool
	}{
		{"again", ledger.Scope{}, true},
		{"again", ledger.Scope{Kinds: []string{"", "fax"}}, false},
		{"again", ledger.Scope{Kinds: []string{"", "mail"}}, true},
		{"again", ledger.Scope{Kinds: []string{"", "waits"}}, false},
		{"again", ledger.Scope{Kinds: []string{}}, false},
		{"work", ledger.Scope{Kinds: []string{"mail"}}, false},
		{"work", ledger.Scope{SkipJobs: []string{"a"}}, true},
		{"default", ledger.Scope{Kinds: []string{}}, true},
		{"default", ledger.Scope{Kinds: []string{"mail"}}, true}, // a job's task has no kind
		{"default", ledger.Scope{SkipJobs: []string{"b", "a"}}, false},
		{"default", ledger.Scope{SkipJobs: []string{"b"}}, true},
		{"nothing", ledger.Scope{}, false},
	} {
		seen, err := b.Store.Look(s.ctx(), c.pool, ledger.Look{Scope: c.scope, Most: 10})
		must(t, err)
		if found := seen.Work != nil; found != c.want || len(seen.Past) > 0 {
			t.Errorf("%s, %+v: %+v", c.pool, c.scope, seen)
		}
	}
}

// Look reads a bounded number of tasks of each priority, and goes on behind them the next time.
func lookWindows(t *testing.T, b *Bench) {
	s := newScene(t, b)
	made := s.enqueue("work", 12)
	at := func(n int) time.Time { return time.UnixMicro(noon + int64(n)).UTC() }
	for i, id := range made {
		s.DB.Exec(t, "UPDATE {tasks} SET kind='typo', run_at=? WHERE id=?", noon+int64(i), id)
	}
	s.DB.Exec(t, "UPDATE {tasks} SET rank_order=-7 WHERE id IN (?, ?)", made[10], made[11])
	s.DB.Exec(t, "UPDATE {tasks} SET run_at=? WHERE id=?", noon+2, made[3]) // both are read, as one of them is
	// What waits, runs, or is in another pool is not among them.
	beside := append(s.enqueue("work", 4), s.enqueue("again", 4)...)
	for i, id := range beside {
		s.DB.Exec(t, "UPDATE {tasks} SET state=?, kind='mail', run_at=? WHERE id=?", []int{1, 2, 1, 2, 0, 0, 0, 0}[i], noon+int64(i%4)*3, id)
	}
	scope := ledger.Scope{Kinds: []string{"mail"}}
	type past = map[int]time.Time
	check := func(from past, want ledger.Seen) {
		t.Helper()
		seen, err := b.Store.Look(s.ctx(), "work", ledger.Look{Scope: scope, Past: from, Most: 3})
		must(t, err)
		if d := cmp.Diff(want, seen); d != "" {
			t.Error(d)
		}
	}
	check(nil, ledger.Seen{Past: past{0: at(2)}})
	check(past{0: at(2)}, ledger.Seen{Past: past{0: at(6)}})
	check(past{0: at(6)}, ledger.Seen{Past: past{0: at(9)}})
	check(past{0: at(9)}, ledger.Seen{Past: past{}})
	check(past{7: at(11)}, ledger.Seen{Past: past{0: at(2)}})
	s.DB.Exec(t, "UPDATE {tasks} SET kind='mail' WHERE id=?", made[6])
	check(past{0: at(1)}, ledger.Seen{Past: past{0: at(4)}})
	check(past{0: at(4)}, ledger.Seen{Work: &ledger.Window{After: at(4), UpTo: at(7)}, Past: past{}})
	check(past{0: at(6)}, ledger.Seen{Past: past{0: at(9)}})
	s.DB.Exec(t, "UPDATE {tasks} SET kind='mail' WHERE id=?", made[9])
	check(past{0: at(7)}, ledger.Seen{Work: &ledger.Window{After: at(7)}, Past: past{}})
	s.DB.Exec(t, "UPDATE {tasks} SET kind='mail' WHERE id IN (?, ?)", made[0], made[11])
	check(nil, ledger.Seen{Work: &ledger.Window{Priority: 7}, Past: past{}})
	check(past{7: at(10)}, ledger.Seen{Work: &ledger.Window{Priority: 7, After: at(10)}, Past: past{}})
	check(past{7: at(11)}, ledger.Seen{Work: &ledger.Window{UpTo: at(2)}, Past: past{}})
}

// A claim takes what is in its window.
func claimWithin(t *testing.T, b *Bench) {
	s := newScene(t, b)
	made := s.enqueue("work", 6)
	const past = noon / 2
	at := func(n int) time.Time { return time.UnixMicro(past + int64(n)).UTC() }
	for i, id := range made {
		s.DB.Exec(t, "UPDATE {tasks} SET run_at=? WHERE id=?", past+int64(i), id)
	}
	s.DB.Exec(t, "UPDATE {tasks} SET rank_order=-7 WHERE id=?", made[2])
	for _, c := range []struct {
		w    ledger.Window
		want []string
	}{
		{ledger.Window{Priority: 3}, nil},
		{ledger.Window{Priority: 7, After: at(2)}, nil},
		{ledger.Window{After: at(0), UpTo: at(3)}, []string{made[1], made[3]}},
		{ledger.Window{Priority: 7}, []string{made[2]}},
		{ledger.Window{After: at(4)}, []string{made[5]}},
		{ledger.Window{}, []string{made[0], made[4]}},
	} {
		q := s.claiming("work", 10)
		q.Scope.Within = &c.w
		got, err := tasksOf(b.Store.Claim(s.ctx(), q))
		must(t, err)
		if !slices.Equal(ids(got.Tasks), c.want) {
			t.Errorf("%+v: claimed %v of %v, not %v", c.w, ids(got.Tasks), made, c.want)
		}
	}
}

// A look at the pools tells what other looks would find: of tasks in whatever pool and state, of all jobs and events.
func readyAhead(t *testing.T, b *Bench) {
	s := newScene(t, b)
	check := func(when string, want ledger.Ahead) {
		t.Helper()
		is, err := b.Store.Ready(s.ctx(), asIs)
		must(t, err)
		first := b.DB.Int(t, "SELECT COALESCE(MIN(next_at), 0) FROM {jobs} WHERE next_at > 0")
		if is.FirstDue.IsZero() != (first == 0) || first > 0 && is.FirstDue.UnixMicro() != first {
			t.Errorf("%s: the first due time is %v, want %d", when, is.FirstDue, first)
		}
		want.FirstDue = is.FirstDue
		if is.Ahead != want {
			t.Errorf("%s: %+v, want %+v", when, is.Ahead, want)
		}
	}
	check("at the start", ledger.Ahead{})
	s.DB.Exec(t, "UPDATE {jobs} SET next_at=? WHERE name='a'", noon)
	check("with a job that is due earlier", ledger.Ahead{})
	s.DB.Exec(t, "UPDATE {jobs} SET next_at=0")
	check("with jobs that are never due", ledger.Ahead{})
	s.newTask(jobs.NewTask{ExpiresAt: far})
	check("with a task that expires", ledger.Ahead{Waits: true})
	s.claim("work", 1)
	check("with a task that runs", ledger.Ahead{Running: true})
	s.newTask(jobs.NewTask{RunAt: far})
	check("with one that waits beside it", ledger.Ahead{Running: true, Waits: true})
	must(t, b.Store.Leave(s.ctx(), s.session))
	other := s.second("other")
	check("with a task of an ended session", ledger.Ahead{Running: true, Waits: true})
	_, err := other.Store.Reap(s.ctx(), 10)
	must(t, err)
	other.fails("again", "boom")
	check("with an event", ledger.Ahead{Events: true, Waits: true})
}
