package store

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// duel is a database with two stores: the answer to a COMMIT of late gets lost, and fast does something before late
// settles it.
type duel struct {
	t          *testing.T
	late, fast *Store
	commits    *lostCommit // of late
	one, two   string      // sessions
}

func inAnHour(at time.Time) time.Time { return at.Add(time.Hour) }

// eachDuel runs fn on each database. There are the jobs j and k, the pool p, whose lost tasks run again, and the pool q.
func eachDuel(t *testing.T, fn func(d *duel)) {
	for driver, dsn := range map[string]func(t *testing.T) string{
		"sqlite": func(t *testing.T) string { return filepath.Join(t.TempDir(), "a.db") },
		"mysql":  func(t *testing.T) string { return servers.MySQL(t) },
	} {
		t.Run(driver, func(t *testing.T) {
			at := dsn(t)
			d := &duel{t: t, late: migrated(t, driver, at, Options{}), fast: migrated(t, driver, at, Options{})}
			d.commits = &lostCommit{Dialect: d.late.db.Dialect}
			d.late.db.Dialect = d.commits
			d.one, d.two = d.join("one"), d.join("two")
			_, err := d.fast.Sides().Replica.Load(t.Context(), d.two, ledger.Definitions{
				Jobs:  []ledger.JobDef{{Name: "j", Hash: "1", Schedule: "s", Next: inAnHour}, {Name: "k", Hash: "1", Schedule: "s", Next: inAnHour}},
				Pools: []ledger.PoolDef{{Name: "p", Hash: "1", MaxAttempts: 9, Retry: true}, {Name: "q", Hash: "1", MaxAttempts: 1}},
			})
			d.check(err)
			fn(d)
		})
	}
}

func (d *duel) check(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *duel) join(replica string) string {
	d.t.Helper()
	session, err := d.fast.Sides().Replica.Join(d.t.Context(), ledger.Member{Replica: replica, LockService: "x"})
	d.check(err)
	return session
}

// loses loses the answer to the next COMMIT of late.
func (d *duel) loses(undone bool, meanwhile func()) {
	d.commits.lose, d.commits.undone, d.commits.meanwhile = true, undone, meanwhile
}

func (d *duel) lost() {
	d.t.Helper()
	if d.commits.lose {
		d.t.Error("no COMMIT was lost")
	}
}

func (d *duel) enqueue(pool string) string {
	d.t.Helper()
	all, err := d.fast.Enqueue(d.t.Context(), jobs.NewTask{Pool: pool})
	d.check(err)
	return all[0].Task.ID
}

// claim claims up to room tasks of the pool.
func (d *duel) claim(s *Store, session, pool string, room int) []jobs.Task {
	d.t.Helper()
	got, err := s.Sides().Replica.Claim(d.t.Context(), ledger.Claim{
		Admission: ledger.Admission{
			Session: session, Replica: session, Pools: map[string]ledger.Share{pool: {Hash: "1", Room: room}},
			Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now, true },
		},
		Pool: pool,
		ID:   uuid.NewString(),
		Now:  func(now time.Time) (time.Time, error) { return now, nil },
	})
	d.check(err)
	return tasksOf(got.Tasks)
}

func (d *duel) finish(s *Store, session string, task jobs.Task, state jobs.State) {
	d.t.Helper()
	_, err := s.Sides().Replica.Finish(d.t.Context(), session, []ledger.Result{{TaskID: task.ID, Token: task.Token, Verdict: ledger.Ended, State: state, Task: &task}})
	d.check(err)
}

func (d *duel) decide(s *Store, replica string, now time.Time, job string, o ledger.Opening) ledger.Decided {
	d.t.Helper()
	got, err := s.Sides().Replica.Decide(d.t.Context(), ledger.Decide{
		Admission: ledger.Admission{
			Session: d.one, Replica: replica, Pools: map[string]ledger.Share{"q": {Hash: "1", Room: 1000}},
			Admit: func(now time.Time, _ ledger.Candidate) (time.Time, bool) { return now, true },
		},
		Jobs: []string{job},
		Now:  func(time.Time) (time.Time, error) { return now, nil },
		Decide: func(time.Time, []ledger.JobState) []ledger.Decision {
			return []ledger.Decision{{Job: job, Triggers: []ledger.Opening{o}}}
		},
	})
	d.check(err)
	return got
}

// A COMMIT did not happen, and before it is settled another replica does the same: what that owns is not taken
// for its own.
func TestWhatOthersDidIsNotTakenForTheOwn(t *testing.T) {
	eachDuel(t, func(d *duel) {
		d.enqueue("p")
		d.loses(true, func() { d.claim(d.fast, d.two, "p", 9) })
		if got := d.claim(d.late, d.one, "p", 9); len(got) > 0 {
			d.t.Errorf("claimed what another replica has: %+v", got)
		}
		d.lost()

		now := time.Now().UTC().Truncate(time.Second)
		due := now
		run := func() ledger.Opening {
			return ledger.Opening{
				Trigger: jobs.Trigger{Job: "j", At: due, Cause: jobs.CauseSchedule},
				Task:    &jobs.Task{ID: uuid.NewString(), Pool: "q"},
			}
		}
		missed := func() ledger.Opening {
			return ledger.Opening{Trigger: jobs.Trigger{Job: "j", At: due, Cause: jobs.CauseSchedule, Outcome: jobs.Missed}}
		}
		for _, c := range []struct {
			what    string
			opening func() ledger.Opening
			replica string
			at      time.Time
		}{
			{"another task of the same replica", run, "one", now},
			{"at the same moment", missed, "two", now},
			{"by the same replica", missed, "one", now.Add(time.Second)},
		} {
			due = due.Add(time.Minute)
			d.loses(true, func() { d.decide(d.fast, c.replica, c.at, "j", c.opening()) })
			if got := d.decide(d.late, "one", now, "j", c.opening()); len(got.Started) > 0 || len(got.Decisions[0].Triggers) > 0 {
				d.t.Errorf("%s: decided what had been decided: %+v", c.what, got)
			}
			d.lost()
		}

		// What else was decided in the same moment by the same replica is not what was lost.
		for what, meanwhile := range map[string]func(){
			"another job": func() {
				o := missed()
				o.Trigger.Job = "k"
				d.decide(d.fast, "one", now, "k", o)
			},
			"another due time": func() {
				o := missed()
				o.Trigger.At = due.Add(-time.Hour)
				d.decide(d.fast, "one", now, "j", o)
			},
			"a run by hand": func() {
				o := missed()
				o.Trigger.Cause, o.Trigger.Outcome = jobs.CauseManual, jobs.Skipped
				d.decide(d.fast, "one", now, "j", o)
			},
		} {
			due = due.Add(24 * time.Hour)
			d.loses(true, meanwhile)
			d.decide(d.late, "one", now, "j", missed())
			d.lost()
			if n := text(d.t, d.fast, fmt.Sprint(`SELECT COUNT(*) FROM {triggers} WHERE job='j' AND seq=0 AND at=`, due.UnixMicro())); n != "1" {
				d.t.Errorf("beside %s: %s rows for the due time", what, n)
			}
		}

		// A retry has no due time of its own; that of another task is there, and has ended.
		d.enqueue("q")
		ended := d.claim(d.fast, d.two, "q", 9)[0]
		d.finish(d.fast, d.two, ended, jobs.StateFailed)
		retry := ledger.Opening{Task: &jobs.Task{ID: uuid.NewString(), Pool: "q", ScheduledAt: due}}
		d.loses(true, func() {})
		d.decide(d.late, "one", now, "j", retry)
		d.lost()
		if n := text(d.t, d.fast, `SELECT COUNT(*) FROM {tasks} WHERE id='`+retry.Task.ID+`'`); n != "1" {
			d.t.Errorf("%s tasks for the retry", n)
		}
		d.loses(true, func() {})
		all, err := d.late.Enqueue(d.t.Context(), jobs.NewTask{Pool: "q"})
		d.check(err)
		d.lost()
		if n := text(d.t, d.fast, `SELECT COUNT(*) FROM {tasks} WHERE id='`+all[0].Task.ID+`'`); n != "1" {
			d.t.Errorf("%s tasks that were enqueued", n)
		}
	})
}

// A COMMIT happened, and more has happened before it is settled: the answer is that of the COMMIT.
func TestWhatWasDoneIsSaidWhateverCameOfIt(t *testing.T) {
	eachDuel(t, func(d *duel) {
		for name, meanwhile := range map[string]func(){
			"ready again":   func() {},
			"claimed again": func() { d.claim(d.fast, d.two, "p", 9) },
		} {
			dead := d.join("dead")
			d.enqueue("p")
			if n := len(d.claim(d.fast, dead, "p", 9)); n == 0 {
				d.t.Fatal("nothing was claimed")
			}
			d.check(d.fast.Sides().Replica.Leave(d.t.Context(), dead))
			d.enqueue("q")
			d.claim(d.fast, d.two, "q", 9) // another one that runs, under the same token
			d.loses(false, meanwhile)
			reaped, err := d.late.Sides().Replica.Reap(d.t.Context(), 9)
			if err != nil || len(reaped) == 0 {
				d.t.Errorf("%s: reaped %+v, %v", name, reaped, err)
			}
			d.lost()
			d.claim(d.fast, d.two, "p", 9)
		}

		for _, task := range d.claim(d.fast, d.two, "q", 9) {
			d.t.Errorf("%s was not claimed", task.ID)
		}

		// Of two that were claimed the first one has ended since: the other one may run until the time in its row.
		made := []string{d.enqueue("p"), d.enqueue("p")}
		now := time.Now().UTC().Truncate(time.Second)
		until := map[string]time.Time{made[0]: now.Add(time.Hour), made[1]: now.Add(2 * time.Hour)}
		d.loses(false, func() {
			d.finish(d.fast, d.one, jobs.Task{ID: made[0], Token: 1}, jobs.StateSucceeded)
		})
		claimed, err := d.late.Sides().Replica.Claim(d.t.Context(), ledger.Claim{
			Admission: ledger.Admission{
				Session: d.one, Replica: d.one, Pools: map[string]ledger.Share{"p": {Hash: "1", Room: 9}},
				Admit: func(_ time.Time, c ledger.Candidate) (time.Time, bool) { return until[c.Task.ID], true },
			},
			Pool: "p",
			ID:   uuid.NewString(),
			Now:  func(now time.Time) (time.Time, error) { return now, nil },
		})
		d.check(err)
		d.lost()
		if len(claimed.Tasks) != 1 || claimed.Tasks[0].ID != made[1] || !claimed.Tasks[0].Until.Equal(until[made[1]]) {
			d.t.Errorf("claimed %+v, want %s until %v", claimed.Tasks, made[1], until[made[1]])
		}

		d.check(d.late.sure(d.t.Context(), "test", func(t *tx) error {
			return t.keepEvents(time.Now(), []ledger.Event{{Notification: jobs.Notification{Pool: "p", Event: jobs.EventFailed}}, {Notification: jobs.Notification{Pool: "q", Event: jobs.EventFailed}}})
		}))
		d.loses(false, func() {})
		got, err := d.late.Sides().Replica.Notify(d.t.Context(), ledger.Notify{Limit: 9, Route: func(_ time.Time, e ledger.Event) ledger.Route {
			return ledger.Route{Keep: e.Pool == "q"}
		}})
		if err != nil || got.Dropped != 1 || got.Kept != 1 {
			d.t.Errorf("notified %+v, %v", got, err)
		}
		d.lost()

		// A decision that opens no task is found by its rows.
		at := time.Now().UTC().Truncate(time.Second)
		d.loses(false, func() {})
		decided := d.decide(d.late, "one", at, "j", ledger.Opening{
			Trigger: jobs.Trigger{Job: "j", At: at, Cause: jobs.CauseSchedule, Outcome: jobs.Missed},
		})
		d.lost()
		if len(decided.Decisions[0].Triggers) != 1 {
			d.t.Errorf("what was written is left out of the answer: %+v", decided)
		}
	})
}

// tasksOf are tasks that became running.
func tasksOf(started []ledger.Started) []jobs.Task {
	var tasks []jobs.Task
	for _, s := range started {
		tasks = append(tasks, *s.Task)
	}
	return tasks
}
