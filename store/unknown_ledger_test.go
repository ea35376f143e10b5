package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Whatever the scheduler asks, an answer to COMMIT that was lost changes nothing of what it is told,
// and nothing is done twice: whether the server did it or never heard of it.
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
	session, err := s.Join(ctx, ledger.Member{Replica: "r", LockService: "x"})
	check(err)
	_, err = s.Load(ctx, session, ledger.Definitions{
		Jobs:  []ledger.JobDef{{Name: "j", Hash: "1", Schedule: "s", Next: func(t time.Time) time.Time { return t.Add(time.Hour) }}},
		Pools: []ledger.PoolDef{{Name: "p", Hash: "1", MaxAttempts: 5}},
	})
	check(err)
	same := func(now time.Time) (time.Time, error) { return now, nil }
	due := time.Now().UTC().Truncate(time.Second).Add(time.Hour)
	decide := func(dec ledger.Decision) (ledger.Decided, error) {
		return s.Decide(ctx, ledger.Decide{
			Session: session, Replica: "r", Jobs: []string{"j"}, Pools: map[string]string{"p": "1"}, Now: same,
			Decide: func(time.Time, []ledger.JobState) []ledger.Decision { return []ledger.Decision{dec} },
		})
	}

	run := ledger.Opening{
		Trigger: jobs.Trigger{Job: "j", At: due, Cause: jobs.CauseSchedule},
		Task:    &jobs.Task{ID: uuid.NewString(), Pool: "p"}, Claim: true,
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

	_, err = s.Enqueue(ctx, jobs.NewTask{Pool: "p"}, jobs.NewTask{Pool: "p"}, jobs.NewTask{Pool: "p"}, jobs.NewTask{Pool: "p"})
	check(err)
	var tasks []jobs.Task
	losing("claim", func() error {
		got, err := s.Claim(ctx, ledger.Claim{
			Session: session, Replica: "r", Pool: "p", Hash: "1", Limit: 9, ID: uuid.NewString(), Now: same,
			Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now, true },
		})
		for _, task := range got.Tasks {
			if task.Job == "" {
				tasks = append(tasks, task)
			}
		}
		if err == nil && len(got.Tasks) != 5 {
			err = errors.New("not all were claimed")
		}
		return err
	})
	want("5", `SELECT COUNT(*) FROM {tasks} WHERE state = 2 AND attempt = 1 AND job = '' OR token = 2`)
	results := make([]ledger.Result, 3)
	for i, v := range []ledger.Verdict{ledger.Ended, ledger.Again, ledger.HandBack} {
		results[i] = ledger.Result{TaskID: tasks[i].ID, Token: tasks[i].Token, Verdict: v, State: jobs.StateFailed}
	}
	losing("finish", func() error {
		done, err := s.Finish(ctx, session, results)
		for _, d := range done {
			if d.Finish != ledger.Recorded {
				err = errors.New(string(d.Finish))
			}
		}
		return err
	})
	want("1", `SELECT COUNT(*) FROM {done} WHERE state = 'failed' AND failures = 1`)
	want("1", `SELECT COUNT(*) FROM {attempts}`)
	losing("cancel, pending", func() error {
		task, err := s.CancelTask(ctx, tasks[2].ID, "me")
		if err == nil && task.State != jobs.StateCancelled {
			err = errors.New(string(task.State))
		}
		return err
	})
	want("1", `SELECT COUNT(*) FROM {done} WHERE state = 'cancelled'`)
	losing("cancel, running", func() error { _, err := s.CancelTask(ctx, tasks[3].ID, "me"); return err })
	losing("retry", func() error { _, err := s.RetryTask(ctx, tasks[0].ID, "me", false); return err })
	want("1", `SELECT COUNT(*) FROM {tasks} WHERE retry_of <> '' AND job = ''`)
	check(s.Leave(ctx, session))
	losing("reap", func() error {
		reaped, err := s.Reap(ctx, 9)
		if err == nil && len(reaped) != 3 {
			err = errors.New("not all were reaped")
		}
		return err
	})
	want("3", `SELECT COUNT(*) FROM {done} WHERE state = 'lost' AND losses = 1`)
}

// While nobody can be asked what became of a COMMIT, nothing is known.
func TestUnsettledCommit(t *testing.T) {
	s, p := behindLossy(t)
	id, err := s.Join(t.Context(), ledger.Member{Replica: "r", LockService: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(t.Context(), id, ledger.Definitions{Pools: []ledger.PoolDef{{Name: "p", Hash: "1", MaxAttempts: 1}}}); err != nil {
		t.Fatal(err)
	}
	all, err := s.Enqueue(t.Context(), jobs.NewTask{Pool: "p"})
	if err != nil {
		t.Fatal(err)
	}
	p.cuts.Store(1000)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err = s.CancelTask(ctx, all[0].Task.ID, "me")
	if !errors.Is(err, jobs.ErrUnavailable) || errors.Is(err, jobs.ErrConflict) {
		t.Errorf("%v, want %v", err, jobs.ErrUnavailable)
	}
	p.cuts.Store(0)
	want := text(t, s, `SELECT COUNT(*) FROM {done} WHERE state = 'cancelled'`)
	if want != "1" {
		t.Errorf("%s cancelled tasks", want)
	}
}
