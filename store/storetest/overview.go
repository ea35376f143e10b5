package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

func viewJobNames(t *testing.T, b *Bench) {
	a := Join(t, b, "a")
	defs := ledger.Definitions{}
	for _, name := range []string{"A", "a", "a-b", "a.b", "ab", "abc", "b", "z"} {
		defs.Jobs = append(defs.Jobs, JobDef(name, "1", "s"))
	}
	load(t, b, a, defs)
	b.DB.Exec(t, `UPDATE {jobs} SET hash = '' WHERE name IN ('abc', 'z')`)
	for _, c := range []struct {
		prefix, after string
		retired       bool
		limit         int
		want          string
	}{
		{"", "", false, 100, "A a a-b a.b ab b"},
		{"", "", true, 100, "A a a-b a.b ab abc b z"},
		{"a", "", false, 100, "a a-b a.b ab"},
		{"a", "", true, 2, "a a-b"},
		{"a", "a-b", true, 2, "a.b ab"},
		{"ab", "ab", true, 2, "abc"},
		{"a", "b", true, 2, ""},
		{"zz", "", true, 2, ""},
	} {
		names, err := b.SQL().Sides().API.JobNames(t.Context(), c.prefix, c.after, c.retired, c.limit)
		must(t, err)
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func viewOverview(t *testing.T, b *Bench) {
	a := Join(t, b, "a")
	load(t, b, a, ledger.Definitions{
		Jobs:  []ledger.JobDef{JobDef("gone", "1", "s"), JobDef("i", "1", "s"), JobDef("j", "1", "s"), JobDef("k", "1", "s")},
		Pools: []ledger.PoolDef{{Name: "p", Hash: "1"}},
	})
	empty, err := b.SQL().Sides().API.Overview(t.Context(), 10)
	must(t, err)
	if time.Since(empty.At).Abs() > time.Minute || empty.Jobs != 4 || len(empty.Next) != 4 || len(empty.Trouble)+len(empty.Broken)+len(empty.Running)+len(empty.Recent) > 0 {
		t.Fatalf("%+v", empty)
	}
	second := func(n int64) time.Time { return time.Unix(n, 0).UTC() }
	after := func(n int64) time.Time { return second(n).Add(time.Microsecond) }
	b.DB.Exec(t, `UPDATE {jobs} SET hash = '', next_at = 0 WHERE name = 'gone'`)
	for name, at := range map[string]int64{"i": 30, "j": 10, "k": 20} {
		b.DB.Exec(t, `UPDATE {jobs} SET next_at = ? WHERE name = ?`, second(at).UnixMicro(), name)
	}
	b.DB.Exec(t, `UPDATE {jobs} SET suspended = 1 WHERE name = 'k'`)
	addTrigger(t, b, jobs.Trigger{Job: "j", At: second(1), Outcome: jobs.Ran, Result: jobs.StateSucceeded})
	addTrigger(t, b, jobs.Trigger{Job: "j", At: second(2), Outcome: jobs.Ran, Result: jobs.StateFailed, Reason: "exit status 3"})
	addTrigger(t, b, jobs.Trigger{Job: "j", At: second(3), Outcome: jobs.Skipped, Reason: "still running"})
	addTrigger(t, b, jobs.Trigger{Job: "k", At: second(4), Outcome: jobs.Missed, Reason: "missed: nobody was there"})
	// Nothing of these is why a job fails: a later run that has succeeded, though it ended before, one that was skipped, and
	// what another job did.
	for n, job := range []string{"j", "k"} {
		addTrigger(t, b, jobs.Trigger{Job: job, At: second(5 + int64(n)), Outcome: jobs.Ran, Result: jobs.StateSucceeded, Reason: "well"})
		addTrigger(t, b, jobs.Trigger{Job: job, At: second(7 + int64(n)), Outcome: jobs.Skipped, Reason: "still running"})
	}
	addTrigger(t, b, jobs.Trigger{Job: "i", At: second(9), Outcome: jobs.Ran, Result: jobs.StateFailed, Reason: "of another job"})
	for _, job := range []string{"gone", "i", "j", "k"} {
		b.DB.Exec(t, `INSERT INTO {standings} (kind, name, failing, last_success_at, last_end_at) VALUES ('job', ?, ?, 5, ?)`, job, job != "i", job[0])
	}
	b.DB.Exec(t, `INSERT INTO {standings} (kind, name, failing) VALUES ('pool', 'p', 1), ('pool', 'i', 1)`) // a pool of a job's name, too
	var ids []string
	for i, e := range Enqueue(t, b, newTask("p"), newTask("p"), newTask("p"), newTask("p"), newTask("p")) {
		ids = append(ids, e.Task.ID)
		b.DB.Exec(t, `UPDATE {tasks} SET job = 'j', run_at = ?, trigger_at = 7000000 WHERE id = ?`, second(int64(100-i)).UnixMicro(), e.Task.ID)
	}
	end(t, b, ids[0], jobs.StateFailed)
	end(t, b, ids[1], jobs.StateLost)
	end(t, b, ids[2], jobs.StateSucceeded)
	b.DB.Exec(t, `UPDATE {done} SET error = ? WHERE id = ?`, []byte(strings.Repeat("ü", 300)), ids[1])
	for i, id := range ids[3:] {
		b.DB.Exec(t, `UPDATE {tasks} SET state = 2, attempt = 1, replica = 'r', started_at = ? WHERE id = ?`, second(int64(9-i)).UnixMicro(), id)
	}
	b.DB.Exec(t, `UPDATE {tasks} SET progress = '250000 a text' WHERE id = ?`, ids[4])

	got, err := b.SQL().Sides().API.Overview(t.Context(), 10)
	must(t, err)
	yes, three := true, 3
	want := ledger.Overview{
		Jobs: 3, Failing: 2,
		Broken: []ledger.FailingJob{
			{Job: "k", Reason: "missed: nobody was there", LastSuccess: time.UnixMicro(5).UTC(), LastEnd: time.UnixMicro('k').UTC()},
			{Job: "j", Reason: "failed: exit status 3", LastSuccess: time.UnixMicro(5).UTC(), LastEnd: time.UnixMicro('j').UTC()},
		},
		Trouble: []ledger.Trouble{
			{At: after(100), State: "failed", Job: "j", Due: second(7), Pool: "p", TaskID: ids[0], Attempt: 1, Replica: "r", ExitCode: &three, Reason: "why", Error: "oops"},
			{At: after(99), State: "lost", Job: "j", Due: second(7), Pool: "p", TaskID: ids[1], Attempt: 1, Replica: "r", ExitCode: &three, Reason: "why", Error: strings.Repeat("ü", 250)},
			{At: second(4), State: "missed", Job: "k", Due: second(4), Count: 1, Replica: "r", Reason: "missed: nobody was there"},
		},
		Next: []ledger.NextDue{{Job: "j", At: second(10)}, {Job: "k", At: second(20), Suspended: &yes}, {Job: "i", At: second(30)}},
		Running: []ledger.RunningTask{
			{TaskID: ids[4], Pool: "p", Job: "j", Due: second(7), Since: second(8), Attempt: 1, Replica: "r", Progress: new(0.25), ProgressText: "a text"},
			{TaskID: ids[3], Pool: "p", Job: "j", Due: second(7), Since: second(9), Attempt: 1, Replica: "r"},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(ledger.Overview{}, "At", "Recent")); diff != "" {
		t.Error(diff)
	}
	next, err := b.SQL().Sides().API.NextDue(t.Context(), 2)
	must(t, err)
	if diff := cmp.Diff(want.Next[:2], next); diff != "" {
		t.Errorf("next due times: %s", diff)
	}
	if len(got.Recent) != 9 || got.Recent[0].At != second(9) || got.Recent[8].At != second(1) {
		t.Errorf("recent: %+v", got.Recent)
	}
	one, err := b.SQL().Sides().API.Overview(t.Context(), 1)
	must(t, err)
	if one.Failing != 2 || len(one.Broken) != 1 || len(one.Trouble) != 1 || len(one.Next) != 1 || len(one.Running) != 1 || len(one.Recent) != 1 {
		t.Errorf("one row each: %+v", one)
	}
}

// viewWrong: what went wrong within the last hour is counted, however many rows are shown, and the latest of each is among
// those, however often something else went wrong since.
func viewWrong(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p", "q")
	now, err := b.SQL().Sides().Admin.Now(t.Context())
	must(t, err)
	fail := func(task jobs.NewTask, job string, state jobs.State, ago time.Duration) string {
		t.Helper()
		id := Enqueue(t, b, task)[0].Task.ID
		b.DB.Exec(t, `UPDATE {tasks} SET job = ? WHERE id = ?`, job, id)
		end(t, b, id, state)
		b.DB.Exec(t, `UPDATE {done} SET finished_at = ? WHERE id = ?`, now.Add(-ago).UnixMicro(), id)
		return id
	}
	for i := range 40 {
		fail(jobs.NewTask{Pool: "p", Kind: "k"}, "", jobs.StateFailed, time.Duration(i)*time.Second)
	}
	fail(newTask("p"), "", jobs.StateSucceeded, time.Second)
	fail(newTask("p"), "", jobs.StateCancelled, time.Second)
	quiet := fail(newTask("q"), "", jobs.StateFailed, 50*time.Minute)
	fail(newTask("q"), "", jobs.StateFailed, 55*time.Minute)
	of := fail(newTask("p"), "j", jobs.StateLost, 40*time.Minute)
	fail(newTask("p"), "", jobs.StateFailed, 65*time.Minute)
	o, err := b.SQL().Sides().API.Overview(t.Context(), 5)
	must(t, err)
	last := func(ago time.Duration) time.Time { return now.Add(-ago) }
	want := []ledger.TroubleCount{
		{State: "failed", Pool: "p", Kind: "k", Count: 40, Last: last(0)},
		{State: "lost", Job: "j", Pool: "p", Count: 1, Last: last(40 * time.Minute)},
		{State: "failed", Pool: "q", Count: 2, Last: last(50 * time.Minute)},
	}
	if diff := cmp.Diff(want, o.Wrong); diff != "" {
		t.Error(diff)
	}
	shown := map[string]bool{}
	for i, r := range o.Trouble {
		if shown[r.TaskID] {
			t.Errorf("task %s is shown twice", r.TaskID)
		}
		shown[r.TaskID] = true
		if i > 0 && r.At.After(o.Trouble[i-1].At) {
			t.Errorf("%v stands behind %v", r.At, o.Trouble[i-1].At)
		}
	}
	if len(o.Trouble) != 5 || !shown[quiet] || !shown[of] {
		t.Errorf("%d rows are shown, with the one of another pool %v, with the job's %v", len(o.Trouble), shown[quiet], shown[of])
	}
	latest := fail(newTask("p"), "j", jobs.StateLost, -time.Second)
	o, err = b.SQL().Sides().API.Overview(t.Context(), 1)
	must(t, err)
	if len(o.Trouble) != 1 || o.Trouble[0].TaskID != latest {
		t.Errorf("of one row it is not the latest: %+v", o.Trouble)
	}
}

// viewWrongAtOnce: of everything that went wrong in one moment an overview has a task, behind many of another kind.
func viewWrongAtOnce(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p", "q")
	now, err := b.SQL().Sides().Admin.Now(t.Context())
	must(t, err)
	fail := func(task jobs.NewTask, job string, ago time.Duration) string {
		t.Helper()
		id := Enqueue(t, b, task)[0].Task.ID
		b.DB.Exec(t, `UPDATE {tasks} SET job = ? WHERE id = ?`, job, id)
		end(t, b, id, jobs.StateFailed)
		b.DB.Exec(t, `UPDATE {done} SET finished_at = ? WHERE id = ?`, now.Add(-ago).UnixMicro(), id)
		return id
	}
	for range 10 {
		fail(jobs.NewTask{Pool: "p", Kind: "many"}, "", time.Minute)
	}
	var want []string
	for _, job := range []string{"", "i", "j"} {
		for _, pool := range []string{"p", "q"} {
			for _, kind := range []string{"", "x"} {
				want = append(want, fail(jobs.NewTask{Pool: pool, Kind: kind}, job, 2*time.Minute))
			}
		}
	}
	o, err := b.SQL().Sides().API.Overview(t.Context(), 13)
	must(t, err)
	for _, id := range want {
		if !slices.ContainsFunc(o.Trouble, func(r ledger.Trouble) bool { return r.TaskID == id }) {
			t.Errorf("task %s is not shown", id)
		}
	}
}

// viewFewRows: an overview has one row of each kind at least, and a hundred at most.
func viewFewRows(t *testing.T, b *Bench) {
	var d ledger.Definitions
	for i := range 101 {
		d.Jobs = append(d.Jobs, JobDef(fmt.Sprintf("j%03d", i), "1", "s"))
	}
	load(t, b, Join(t, b, "a"), d)
	for asked, want := range map[int]int{-5: 1, 0: 1, 1: 1, 99: 99, 100: 100, 101: 100, 1 << 30: 100} {
		o, err := b.SQL().Sides().API.Overview(t.Context(), asked)
		must(t, err)
		if len(o.Next) != want {
			t.Errorf("asked for %d rows it has %d, want %d", asked, len(o.Next), want)
		}
	}
}

// viewManyAttempts: a task with very many attempts is shown with the beginnings of their errors.
func viewManyAttempts(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	few, many := Enqueue(t, b, newTask("p"))[0].Task.ID, Enqueue(t, b, newTask("p"))[0].Task.ID
	long := []byte(strings.Repeat("ü", limits.Error/2))
	for id, n := range map[string]int{few: 3, many: 300} {
		b.DB.Exec(t, `UPDATE {tasks} SET attempt = ? WHERE id = ?`, n, id)
		for i := range n {
			b.DB.Exec(t, `INSERT INTO {attempts} (task_id, attempt, state, reason, token, replica, started_at, finished_at, exit_code, error)
				VALUES (?, ?, 'failed', '', 1, 'r', 1, 2, NULL, ?)`, id, i+1, long)
		}
		_, attempts, err := b.SQL().Task(t.Context(), id)
		must(t, err)
		bytes := 0
		for _, a := range attempts {
			bytes += len(a.Error)
			if len(a.Error) < 1<<10 || !strings.HasPrefix(string(long), a.Error) {
				t.Fatalf("attempt %d has %d bytes of its error", a.Attempt, len(a.Error))
			}
		}
		if len(attempts) != n || n == 3 && bytes != 3*len(long) || bytes > 1<<20 {
			t.Errorf("%d attempts with %d bytes of errors, of %d", len(attempts), bytes, n)
		}
	}
}
