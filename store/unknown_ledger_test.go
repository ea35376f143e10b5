package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Whatever the scheduler calls, a lost answer to COMMIT changes nothing in the result of the call,
// and nothing is done twice: whether the server did it or never got it.
func TestLostAnswersOfTasks(t *testing.T) {
	servers.MySQL(t)
	for _, before := range []bool{false, true} {
		t.Run(map[bool]string{false: "done", true: "not done"}[before], func(t *testing.T) {
			s, p := behindLossy(t)
			p.before.Store(before)
			lostAnswersOfTasks(t, s, func(op string, fn func() error) {
				t.Helper()
				p.lost.Store(0)
				p.cuts.Store(1)
				if err := fn(); err != nil {
					t.Fatalf("%s: %v", op, err)
				}
				p.cuts.Store(0)
				if p.lost.Load() != 1 {
					t.Fatalf("%s: no COMMIT was cut", op)
				}
			})
		})
	}
}

// The same on a file, where the answer is lost in this process: a disk that fails may have written.
func TestLostAnswersOfTasksInAFile(t *testing.T) {
	for _, before := range []bool{false, true} {
		t.Run(map[bool]string{false: "done", true: "not done"}[before], func(t *testing.T) {
			s := migrated(t, "sqlite", filepath.Join(t.TempDir(), "a.db"), Options{})
			p := &lostCommit{Dialect: s.db.Dialect, undone: before}
			s.db.Dialect = p
			lostAnswersOfTasks(t, s, func(op string, fn func() error) {
				t.Helper()
				p.lose, p.lost = true, false
				if err := fn(); err != nil {
					t.Fatalf("%s: %v", op, err)
				}
				if p.lose = false; !p.lost {
					t.Fatalf("%s: no COMMIT was lost", op)
				}
			})
		})
	}
}

func lostAnswersOfTasks(t *testing.T, s *Store, losing func(op string, fn func() error)) {
	ctx := t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(n, query string) {
		t.Helper()
		if got := text(t, s, query); got != n {
			t.Errorf("%s is %s, want %s", query, got, n)
		}
	}
	session, err := s.Sides().Replica.Join(ctx, ledger.Member{Replica: "r", LockService: "x"})
	check(err)
	_, err = s.Sides().Replica.Load(ctx, session, ledger.Definitions{
		Jobs:  []ledger.JobDef{{Name: "j", Hash: "1", Schedule: "s", Next: func(t time.Time) time.Time { return t.Add(time.Hour) }}},
		Pools: []ledger.PoolDef{{Name: "p", Hash: "1", MaxAttempts: 5}},
	})
	check(err)
	same := func(now time.Time) (time.Time, error) { return now, nil }
	due := time.Now().UTC().Truncate(time.Second).Add(time.Hour)
	runs := uuid.NewString()
	decide := func(dec ledger.Decision) (ledger.Decided, error) {
		return s.Sides().Replica.Decide(ctx, ledger.Decide{
			Admission: ledger.Admission{
				Session: session, Replica: "r", Pools: map[string]ledger.Share{"p": {Hash: "1", Room: 1000}},
				Admit: func(now time.Time, c ledger.Candidate) (time.Time, bool) { return now, c.Task.ID == runs },
			},
			Jobs:   []string{"j"},
			Now:    same,
			Decide: func(time.Time, []ledger.JobState) []ledger.Decision { return []ledger.Decision{dec} },
		})
	}

	run := ledger.Opening{
		Trigger: jobs.Trigger{Job: "j", At: due, Cause: jobs.CauseSchedule},
		Task:    &jobs.Task{ID: runs, Pool: "p"},
	}
	losing("decide", func() error {
		d, err := decide(ledger.Decision{Job: "j", Cursor: due, Triggers: []ledger.Opening{run}})
		if err == nil && (len(d.Started) != 1 || d.Started[0].Token != 1) {
			err = errors.New("it is said to have been decided before")
		}
		return err
	})
	losing("decide: cursor", func() error {
		_, err := decide(ledger.Decision{Job: "j", Cursor: due.Add(time.Second)})
		return err
	})
	retry := ledger.Opening{Task: &jobs.Task{ID: uuid.NewString(), Pool: "p", ScheduledAt: due}}
	losing("decide: retry", func() error {
		d, err := decide(ledger.Decision{Job: "j", Triggers: []ledger.Opening{retry}})
		if err == nil && len(d.Opened) != 1 {
			err = errors.New("it was not opened")
		}
		return err
	})
	want("1", `SELECT COUNT(*) FROM {triggers}`)
	want("2", `SELECT COUNT(*) FROM {tasks}`)

	keyed := jobs.NewTask{Pool: "p", IdempotencyKey: "k"}
	for _, existed := range []bool{false, true} {
		losing("enqueue", func() error {
			all, err := s.Enqueue(ctx, keyed)
			if err == nil && all[0].Existed != existed {
				err = errors.New("it is told wrongly whether the task was there before")
			}
			return err
		})
	}
	losing("enqueue, some of them new", func() error {
		all, err := s.Enqueue(ctx, keyed, jobs.NewTask{Pool: "p"}, jobs.NewTask{Pool: "p"}, jobs.NewTask{Pool: "p"})
		if err == nil && (!all[0].Existed || all[1].Existed || all[3].Existed) {
			err = errors.New("it is told wrongly whether the tasks were there before")
		}
		return err
	})
	want("6", `SELECT COUNT(*) FROM {tasks}`)
	claim := func(admit bool) (ledger.Claimed, error) {
		return s.Sides().Replica.Claim(ctx, ledger.Claim{
			Admission: ledger.Admission{
				Session: session, Replica: "r", Pools: map[string]ledger.Share{"p": {Hash: "1", Room: 9}},
				Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now, admit },
			},
			Pool: "p",
			ID:   uuid.NewString(),
			Now:  same,
		})
	}
	losing("claim of nothing", func() error {
		got, err := claim(false)
		if err == nil && (len(got.Tasks) != 0 || len(got.Foreign) != 5) {
			err = errors.New("what was refused is told wrongly")
		}
		return err
	})
	var tasks []jobs.Task
	losing("claim", func() error {
		got, err := claim(true)
		for _, task := range got.Tasks {
			if task.Job == "" {
				tasks = append(tasks, *task.Task)
			}
		}
		if err == nil && len(got.Tasks) != 5 {
			err = errors.New("not all were claimed")
		}
		return err
	})
	want("5", `SELECT COUNT(*) FROM {tasks} WHERE state = 2 AND attempt = 1 AND job = '' OR token = 2`)
	finish := func(results ...ledger.Result) func() error {
		return func() error {
			done, err := s.Sides().Replica.Finish(ctx, session, results)
			for _, d := range done {
				if d.Finish != ledger.Recorded {
					err = errors.New(string(d.Finish))
				}
			}
			return err
		}
	}
	result := func(i int, v ledger.Verdict) ledger.Result {
		return ledger.Result{TaskID: tasks[i].ID, Token: tasks[i].Token, Verdict: v, State: jobs.StateFailed, Task: &tasks[i]}
	}
	losing("finish of tasks that are not read", finish(result(0, ledger.Ended)))
	losing("finish", finish(result(1, ledger.Again), result(2, ledger.HandBack)))
	want("1", `SELECT COUNT(*) FROM {done} WHERE state = 'failed' AND failures = 1`)
	want("1", `SELECT COUNT(*) FROM {attempts}`)
	losing("cancel, pending", func() error {
		task, err := s.Cancel(ctx, tasks[2].ID, "me")
		if err == nil && task.State != jobs.StateCancelled {
			err = errors.New(string(task.State))
		}
		return err
	})
	want("1", `SELECT COUNT(*) FROM {done} WHERE state = 'cancelled'`)
	losing("cancel, running", func() error { _, err := s.Cancel(ctx, tasks[3].ID, "me"); return err })
	// A change whose COMMIT had no answer, of a task that was claimed since.
	for what, c := range map[string]struct {
		change func(*openTask)
		ok     bool
	}{
		"as it was written":    {func(*openTask) {}, true},
		"of another change":    {func(r *openTask) { r.Priority++ }, false},
		"of a later change":    {func(r *openTask) { r.Token++ }, false},
		"of another task":      {func(r *openTask) { r.ID = tasks[0].ID }, false},
		"with other tags":      {func(r *openTask) { r.Tags = []string{"x"} }, false},
		"with another payload": {func(r *openTask) { r.Payload = json.RawMessage(`1`) }, false},
	} {
		wrote := openTask{Task: tasks[3]}
		wrote.Token--
		c.change(&wrote)
		err := s.sure(ctx, "test", func(t *tx) error { t.Again = true; return t.notUpdated(tasks[3].ID, &wrote) })
		if ok := err == nil && wrote.Task.State == jobs.StateRunning; ok != c.ok || err != nil && !errors.Is(err, jobs.ErrConflict) {
			t.Errorf("update, claimed since, %s: %v", what, err)
		}
	}
	retried := ""
	losing("retry", func() error { task, err := s.Retry(ctx, tasks[0].ID, "me", false); retried = task.ID; return err })
	losing("update", func() error {
		task, err := s.UpdateTask(ctx, retried, wire.TaskChange{Priority: new(7)})
		if err == nil && task.Priority != 7 {
			err = errors.New("it is as it was")
		}
		return err
	})
	want("1", `SELECT COUNT(*) FROM {tasks} WHERE rank_order = -7 AND token = 1`)
	want("1", `SELECT COUNT(*) FROM {tasks} WHERE retry_of <> '' AND job = ''`)
	check(s.sure(ctx, "test", func(t *tx) error {
		_, err := t.Exec(`DELETE FROM {events}`)
		if err != nil {
			return err
		}
		return t.keepEvents(time.Now(), []ledger.Event{{Notification: jobs.Notification{Pool: "p", Event: jobs.EventFailed}}, {Notification: jobs.Notification{Pool: "p", Event: jobs.EventLost}}})
	}))
	losing("notify", func() error {
		done, err := s.Sides().Replica.Notify(ctx, ledger.Notify{Limit: 9, Route: func(_ time.Time, e ledger.Event) (r ledger.Route) {
			if e.Event == jobs.EventLost {
				r.Task = &jobs.NewTask{Pool: "p", Kind: "told", IdempotencyKey: e.ID}
			}
			return r
		}})
		if err == nil && (done.Tasks != 1 || done.Dropped != 1) {
			err = fmt.Errorf("%d tasks and %d events without one are counted", done.Tasks, done.Dropped)
		}
		return err
	})
	want("1", `SELECT COUNT(*) FROM {tasks} WHERE kind = 'told'`)
	for _, action := range []wire.BulkAction{wire.BulkCancel, wire.BulkPurge} {
		losing("bulk "+string(action), func() error {
			got, err := s.ChangeTasks(ctx, action, wire.Bulk{TaskMatch: wire.TaskMatch{Pool: "p", Kind: "told"}, By: "me"})
			if err == nil && (got.Matched != 1 || got.Done != 1 || len(got.Tasks) != 1) {
				err = fmt.Errorf("%+v, want one task", got)
			}
			return err
		})
	}
	want("0", `SELECT COUNT(*) FROM {done} WHERE kind = 'told'`)
	check(s.Sides().Replica.Leave(ctx, session))
	losing("reap", func() error {
		reaped, err := s.Sides().Replica.Reap(ctx, 9)
		if err == nil && len(reaped) != 3 {
			err = errors.New("not all were reaped")
		}
		return err
	})
	want("3", `SELECT COUNT(*) FROM {done} WHERE state = 'lost' AND losses = 1`)
	late := []ledger.Result{{TaskID: run.Task.ID, Token: 1, Verdict: ledger.Ended, State: jobs.StateSucceeded}}
	losing("late result", func() error {
		done, err := s.Sides().Replica.Finish(ctx, session, late)
		if err == nil && done[0].Finish != ledger.Late {
			err = errors.New(string(done[0].Finish))
		}
		return err
	})
	want("1", `SELECT COUNT(*) FROM {done} WHERE late = 1 AND state = 'succeeded'`)
	want("1", `SELECT COUNT(*) FROM {events} WHERE event = 'recovered'`)
}

// If the answer to a cancellation was lost that did not take place, and the task ended meanwhile by another call, the first call has not
// cancelled it.
func TestALostCancelIsNotTakenForAnother(t *testing.T) {
	for end, meanwhile := range map[string]func(t *testing.T, s *Store, id string) error{
		"cancelled by another": func(t *testing.T, s *Store, id string) error {
			_, err := s.Cancel(t.Context(), id, "another")
			return err
		},
		"failed in these words": func(t *testing.T, s *Store, id string) error {
			session, err := s.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "r", LockService: "x"})
			if err != nil {
				return err
			}
			got, err := s.Sides().Replica.Claim(t.Context(), ledger.Claim{
				Admission: ledger.Admission{
					Session: session, Replica: "r", Pools: map[string]ledger.Share{"p": {Hash: (jobs.Pool{}).WithDefaults().Hash(), Room: 1}},
					Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now, true },
				},
				Pool: "p",
				ID:   uuid.NewString(),
				Now:  func(now time.Time) (time.Time, error) { return now, nil },
			})
			if err != nil {
				return err
			}
			_, err = s.Sides().Replica.Finish(t.Context(), session, []ledger.Result{{
				TaskID: id, Token: got.Tasks[0].Token, Verdict: ledger.Ended, State: jobs.StateFailed, Reason: "cancelled by me",
			}})
			return err
		},
	} {
		t.Run(end, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "a.db")
			other, s := migrated(t, "sqlite", file, Options{}), migrated(t, "sqlite", file, Options{})
			if err := other.AddPools(t.Context(), map[string]jobs.Pool{"p": {}}); err != nil {
				t.Fatal(err)
			}
			all, err := s.Enqueue(t.Context(), jobs.NewTask{Pool: "p"})
			if err != nil {
				t.Fatal(err)
			}
			id := all[0].Task.ID
			s.db.Dialect = &lostCommit{Dialect: s.db.Dialect, lose: true, undone: true, meanwhile: func() {
				if err := meanwhile(t, other, id); err != nil {
					t.Error(err)
				}
			}}
			if task, err := s.Cancel(t.Context(), id, "me"); !errors.Is(err, jobs.ErrConflict) {
				t.Errorf("%+v, %v; want %v", task, err, jobs.ErrConflict)
			}
		})
	}
}

// While the database is unreachable, the outcome of a COMMIT is unknown.
func TestUnsettledCommit(t *testing.T) {
	s, p := behindLossy(t)
	id, err := s.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "r", LockService: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sides().Replica.Load(t.Context(), id, ledger.Definitions{Pools: []ledger.PoolDef{{Name: "p", Hash: "1", MaxAttempts: 1}}}); err != nil {
		t.Fatal(err)
	}
	all, err := s.Enqueue(t.Context(), jobs.NewTask{Pool: "p"})
	if err != nil {
		t.Fatal(err)
	}
	p.cuts.Store(1000)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err = s.Cancel(ctx, all[0].Task.ID, "me")
	if !errors.Is(err, jobs.ErrUnavailable) || errors.Is(err, jobs.ErrConflict) {
		t.Errorf("%v, want %v", err, jobs.ErrUnavailable)
	}
	p.cuts.Store(0)
	want := text(t, s, `SELECT COUNT(*) FROM {done} WHERE state = 'cancelled'`)
	if want != "1" {
		t.Errorf("%s cancelled tasks", want)
	}
}
