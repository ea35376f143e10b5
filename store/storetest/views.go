package storetest

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

var viewCases = []Case{
	{"Views/Tasks", viewTasks},
	{"Views/TaskPages", viewTaskPages},
	{"Views/TaskDetails", viewTaskDetails},
	{"Views/ManyDetails", viewManyDetails},
	{"Views/Task", viewTask},
	{"Views/Triggers", viewTriggers},
	{"Views/Jobs", viewJobs},
	{"Views/Pools", viewPools},
	{"Views/Overrides", viewOverrides},
	{"Views/Output", viewOutput},
	{"Views/BrokenTags", brokenTags},
	{"Views/BrokenPages", brokenPages},
	{"Views/JobNames", viewJobNames},
	{"Views/Overview", viewOverview},
	{"Views/Wrong", viewWrong},
	{"Views/WrongAtOnce", viewWrongAtOnce},
	{"Views/FewRows", viewFewRows},
	{"Views/ManyAttempts", viewManyAttempts},
	{"Views/LargePayloads", viewLargePayloads},
	{"Views/PayloadSizes", viewPayloadSizes},
	{"Views/LongErrors", viewLongErrors},
}

func pageOf(pool, job string, limit int) wire.TaskFilter {
	return wire.TaskFilter{Pool: pool, Job: job, Page: wire.Page{Limit: limit}}
}

// end moves a task to {done} as Finish does.
func end(t *testing.T, b *Bench, id string, state jobs.State) {
	t.Helper()
	b.DB.Exec(t, `INSERT INTO {done} (id, pool, kind, task_key, job, trigger_at, trigger_seq, state, rank_order, run_at, attempt, failures, losses,
			max_attempts, on_lost, token, session_id, replica, idem_key, payload, tags, retry_of, reason, error, exit_code, created_at, started_at, finished_at, made_by)
		SELECT id, pool, kind, task_key, job, trigger_at, trigger_seq, ?, rank_order, run_at, 1, failures, losses,
			max_attempts, on_lost, 9, session_id, 'r', idem_key, payload, tags, retry_of, 'why', 'oops', 3, created_at, run_at, run_at + 1, made_by
		FROM {tasks} WHERE id = ?`, string(state), id)
	b.DB.Exec(t, `DELETE FROM {tasks} WHERE id = ?`, id)
}

// some makes tasks of two pools and two jobs in every state, in order of their ids.
func some(t *testing.T, b *Bench) []jobs.Task {
	t.Helper()
	Pools(t, b, Join(t, b, "a"), "p", "q")
	var ids []string
	for i := range 70 {
		id := Enqueue(t, b, newTask([]string{"p", "q"}[i%2]))[0].Task.ID
		b.DB.Exec(t, `UPDATE {tasks} SET job = ? WHERE id = ?`, []string{"", "j", "k"}[i%3], id)
		switch i % 7 {
		case 1:
			b.DB.Exec(t, `UPDATE {tasks} SET state = 1 WHERE id = ?`, id)
		case 2:
			b.DB.Exec(t, `UPDATE {tasks} SET state = 2 WHERE id = ?`, id)
		case 3, 4, 5, 6:
			end(t, b, id, []jobs.State{jobs.StateSucceeded, jobs.StateFailed, jobs.StateLost, jobs.StateCancelled}[i%7-3])
		}
		ids = append(ids, id)
	}
	var all []jobs.Task
	for _, id := range ids {
		task, _, err := b.SQL().Task(t.Context(), id)
		must(t, err)
		all = append(all, task)
	}
	return all
}

// viewTasks compares every filter, page by page, with the plain meaning of it.
func viewTasks(t *testing.T, b *Bench) {
	all := some(t, b)
	for _, pool := range []string{"", "p", "none"} {
		for _, job := range []string{"", "j"} {
			for _, state := range []jobs.State{"", jobs.StatePending, jobs.StateRunning, jobs.StateSucceeded, jobs.StateFailed, jobs.StateLost, jobs.StateCancelled} {
				f := wire.TaskFilter{Pool: pool, Job: job, State: state, Page: wire.Page{Limit: 3}}
				var want, got []string
				for _, task := range slices.Backward(all) {
					if (pool == "" || pool == task.Pool) && (job == "" || job == task.Job) && (state == "" || state == task.State) {
						want = append(want, task.ID)
					}
				}
				for {
					tasks, next, err := b.SQL().Tasks(t.Context(), f)
					must(t, err)
					for _, task := range tasks {
						got = append(got, task.ID)
					}
					if f.Cursor != "" && len(tasks) == 0 {
						t.Errorf("pool %q, job %q, state %q: the last page is empty", pool, job, state)
					}
					if next != "" && len(tasks) != f.Limit {
						t.Errorf("pool %q, job %q, state %q: a page of %d tasks, which is not the last", pool, job, state, len(tasks))
					}
					if f.Cursor = next; next == "" {
						break
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("pool %q, job %q, state %q: %s", pool, job, state, diff)
				}
			}
		}
	}
	if _, _, err := b.SQL().Tasks(t.Context(), wire.TaskFilter{State: "asleep"}); !errors.Is(err, jobs.ErrInvalid) {
		t.Fatalf("an unknown state: %v", err)
	}
}

// viewTaskPages: a task that ends between two pages is on one of them, and on one only.
func viewTaskPages(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	all := Enqueue(t, b, newTask("p"), newTask("p"), newTask("p"), newTask("p"))
	first, next, err := b.SQL().Tasks(t.Context(), pageOf("p", "", 2))
	must(t, err)
	for _, e := range all {
		end(t, b, e.Task.ID, jobs.StateSucceeded)
	}
	f := pageOf("p", "", 2)
	f.Cursor = next
	second, last, err := b.SQL().Tasks(t.Context(), f)
	must(t, err)
	var got []string
	for _, task := range append(first, second...) {
		got = append(got, task.ID)
	}
	want := []string{all[3].Task.ID, all[2].Task.ID, all[1].Task.ID, all[0].Task.ID}
	if diff := cmp.Diff(want, got); diff != "" || last != "" {
		t.Fatal(diff, last)
	}
}

func viewTask(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	id := Enqueue(t, b, jobs.NewTask{Pool: "p", Payload: "x", By: "ann"})[0].Task.ID
	b.DB.Exec(t, `UPDATE {tasks} SET job = 'j', trigger_at = 1700000000000000, trigger_seq = 2, retry_of = 'first' WHERE id = ?`, id)
	b.DB.Exec(t, `INSERT INTO {attempts} (task_id, attempt, state, reason, token, replica, started_at, finished_at, exit_code, error)
		VALUES (?, 2, 'lost', 'gone', 8, 'r2', 5000000, 6000000, NULL, ''), (?, 1, 'failed', '', 7, 'r1', 1000000, 2000000, 3, 'oops')`, id, id)
	end(t, b, id, jobs.StateFailed)
	task, attempts, err := b.SQL().Task(t.Context(), id)
	must(t, err)
	three := 3
	want := jobs.Task{
		ID: id, Pool: "p", Job: "j", ScheduledAt: time.Unix(1700000000, 0).UTC(), Seq: 2, State: jobs.StateFailed, Reason: "why",
		Attempt: 1, MaxAttempts: 3, Token: 9, Replica: "r", ExitCode: &three, Error: "oops", Payload: []byte(`"x"`), PayloadSize: 3, By: "ann", RetryOf: "first",
		OnLost: jobs.LostRetries, LostLimit: 3, IdempotencyKey: "j@2023-11-14T22:13:20Z/2",
	}
	if diff := cmp.Diff(want, task, cmpopts.IgnoreFields(jobs.Task{}, "CreatedAt", "RunAt", "StartedAt", "FinishedAt")); diff != "" {
		t.Fatal(diff)
	}
	if task.FinishedAt.Sub(task.StartedAt) != time.Microsecond {
		t.Fatalf("ran from %s to %s", task.StartedAt, task.FinishedAt)
	}
	wantAttempts := []jobs.Attempt{
		{Attempt: 1, State: jobs.StateFailed, Token: 7, Replica: "r1", StartedAt: time.Unix(1, 0).UTC(), FinishedAt: time.Unix(2, 0).UTC(), ExitCode: &three, Error: "oops"},
		{Attempt: 2, State: jobs.StateLost, Reason: "gone", Token: 8, Replica: "r2", StartedAt: time.Unix(5, 0).UTC(), FinishedAt: time.Unix(6, 0).UTC()},
	}
	if diff := cmp.Diff(wantAttempts, attempts); diff != "" {
		t.Fatal(diff)
	}
	if _, _, err := b.SQL().Task(t.Context(), "nothing"); !errors.Is(err, jobs.ErrNotFound) {
		t.Fatal(err)
	}
	row, err := b.SQL().Sides().Replica.TaskRow(t.Context(), id)
	must(t, err)
	if diff := cmp.Diff(task, row); diff != "" {
		t.Error(diff)
	}
	if _, err := b.SQL().Sides().Replica.TaskRow(t.Context(), "nothing"); !errors.Is(err, jobs.ErrNotFound) {
		t.Error(err)
	}
}

func addTrigger(t *testing.T, b *Bench, g jobs.Trigger) {
	t.Helper()
	b.DB.Exec(t, `INSERT INTO {triggers} (job, at, seq, until_at, due_count, cause, outcome, reason, result, replica, decided_at, finished_at)
		VALUES (?, ?, ?, 0, 1, 'schedule', ?, ?, ?, 'r', ?, ?)`,
		g.Job, g.At.UnixMicro(), g.Seq, string(g.Outcome), g.Reason, string(g.Result), g.At.UnixMicro(), g.At.UnixMicro()+1)
}

func viewTriggers(t *testing.T, b *Bench) {
	var all []jobs.Trigger // latest first
	for i := range 12 {
		at := time.Unix(int64(1000-i), 0).UTC()
		for _, job := range []string{"k", "j"} {
			for seq := 1; seq >= 0; seq-- {
				g := jobs.Trigger{Job: job, At: at, Seq: seq, Count: 1, Cause: jobs.CauseSchedule, Replica: "r", DecidedAt: at, FinishedAt: at.Add(time.Microsecond)}
				g.Outcome = []jobs.Outcome{jobs.Ran, jobs.Missed, ""}[i%3]
				if g.Outcome == jobs.Ran {
					g.Result = []jobs.State{jobs.StateSucceeded, jobs.StateFailed}[seq]
				}
				addTrigger(t, b, g)
				all = append(all, g)
			}
		}
	}
	for _, f := range []wire.TriggerFilter{
		{},
		{Job: "j"},
		{Outcome: jobs.Missed},
		{Result: jobs.StateFailed},
		{Job: "k", Result: jobs.StateSucceeded},
		{Since: time.Unix(995, 0)},
		{Job: "k", Outcome: jobs.Ran, Since: time.Unix(994, 0)},
		{Job: "none"},
	} {
		var want, got []jobs.Trigger
		for _, g := range all {
			if (f.Job == "" || f.Job == g.Job) && (f.Outcome == "" || f.Outcome == g.Outcome) && (f.Result == "" || f.Result == g.Result) && !g.At.Before(f.Since) {
				want = append(want, g)
			}
		}
		for page := f; ; {
			page.Limit = 3
			triggers, next, err := b.SQL().Triggers(t.Context(), page)
			must(t, err)
			got = append(got, triggers...)
			if page.Cursor != "" && len(triggers) == 0 {
				t.Errorf("%+v: the last page is empty", f)
			}
			if page.Cursor = next; next == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%+v: %s", f, diff)
		}
	}
}

func viewOutput(t *testing.T, b *Bench) {
	b.DB.Exec(t, `INSERT INTO {outputs} (task_id, attempt, output, created_at) VALUES ('t', 1, 'one', 1), ('t', 2, 'two', 1)`)
	for _, beside := range []string{"s", "u"} {
		b.DB.Exec(t, `INSERT INTO {outputs} (task_id, attempt, output, created_at) VALUES (?, 1, 'of another', 1), (?, 3, 'of another', 1)`, beside, beside)
	}
	for attempt, want := range []string{"two", "one", "two"} {
		got, err := b.SQL().Output(t.Context(), "t", attempt)
		if err != nil || string(got) != want {
			t.Fatalf("attempt %d: %q, %v", attempt, got, err)
		}
	}
	for _, attempt := range []int{3, -1} {
		if _, err := b.SQL().Output(t.Context(), "t", attempt); !errors.Is(err, jobs.ErrNotFound) {
			t.Fatal(err)
		}
	}
}

// brokenTags: a row that cannot be read is named.
func brokenTags(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	id := Enqueue(t, b, newTask("p"))[0].Task.ID
	b.DB.Exec(t, `UPDATE {tasks} SET tags = '{'`)
	if _, _, err := b.SQL().Task(t.Context(), id); err == nil || !strings.Contains(err.Error(), "id "+id+": ") || !strings.Contains(err.Error(), `"tags"`) {
		t.Error(err)
	}
}

func brokenPages(t *testing.T, b *Bench) {
	Pools(t, b, Join(t, b, "a"), "p")
	Enqueue(t, b, newTask("p"), newTask("p"))
	_, next, err := b.SQL().Tasks(t.Context(), pageOf("", "", 1))
	must(t, err)
	for _, page := range []wire.Page{{Limit: -1}, {Limit: 501}, {Cursor: "%"}, {Cursor: "YQ"}} {
		if _, _, err := b.SQL().Tasks(t.Context(), wire.TaskFilter{Page: page}); !errors.Is(err, jobs.ErrInvalid) {
			t.Errorf("tasks %+v: %v", page, err)
		}
		if _, _, err := b.SQL().Triggers(t.Context(), wire.TriggerFilter{Page: page}); !errors.Is(err, jobs.ErrInvalid) {
			t.Errorf("triggers %+v: %v", page, err)
		}
	}
	if _, _, err := b.SQL().Triggers(t.Context(), wire.TriggerFilter{Page: wire.Page{Cursor: next}}); !errors.Is(err, jobs.ErrInvalid) {
		t.Errorf("a cursor of another list: %v", err)
	}
	made := func(parts ...string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(parts, "\n")))
	}
	for _, cursor := range []string{next + "%", made("triggers", "x"), made("task"), made("task", "x", "y")} {
		if _, _, err := b.SQL().Tasks(t.Context(), wire.TaskFilter{Page: wire.Page{Cursor: cursor}}); !errors.Is(err, jobs.ErrInvalid) {
			t.Errorf("tasks behind %q: %v", cursor, err)
		}
	}
	for _, cursor := range []string{made("trigger", "x", "j", "0"), made("trigger", "1", "j", "x")} {
		if _, _, err := b.SQL().Triggers(t.Context(), wire.TriggerFilter{Page: wire.Page{Cursor: cursor}}); !errors.Is(err, jobs.ErrInvalid) {
			t.Errorf("triggers behind %q: %v", cursor, err)
		}
	}
}
