package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// A wait with a limit ends by the time of the database, and with it a trigger is skipped.
func waitsLimit(t *testing.T, b *Bench) {
	s := newScene(t, b)
	_, err := s.decide(run("a", due(1), false))
	must(t, err)
	job := s.DB.Text(t, "SELECT id FROM {tasks}")
	made := s.enqueue("work", 3)
	hour := func(l ledger.Locking) ledger.Locking { l.Wait = time.Hour; return l }
	s.locking("default", map[string]ledger.Locking{job: hour(busy("user/a"))})
	got := s.locking("work", map[string]ledger.Locking{made[0]: hour(busy("user/a", "user/b")), made[1]: busy("user/c"), made[2]: hour(wants("user/a", "user/c"))})
	first, ends, err := s.Store.FirstWaits(s.ctx(), s.session, nil, 100)
	if now := got.Now.Add(time.Hour); err != nil || len(first) != 2 || ends.Before(now.Add(-time.Minute)) || ends.After(now) {
		t.Fatalf("%d waits, the first ends at %v, %v", len(first), ends, err)
	}
	end := func(at time.Duration, limit int) []jobs.Task {
		t.Helper()
		ended, err := s.Store.EndWaits(s.ctx(), func(now time.Time) (time.Time, error) { return now.Add(at), nil }, limit)
		must(t, err)
		return ended
	}
	if ended := end(0, 10); len(ended) > 0 {
		t.Errorf("ended early: %v", ids(ended))
	}
	wrong := errors.New("wrong clock")
	if _, err := s.Store.EndWaits(s.ctx(), func(time.Time) (time.Time, error) { return time.Time{}, wrong }, 1); !errors.Is(err, wrong) {
		t.Errorf("with a wrong clock: %v", err)
	}
	if one := end(time.Hour, 1); len(one) != 1 {
		t.Errorf("ended %v", ids(one))
	}
	end(time.Hour, 10)
	s.want("behind another one", s.task(made[2]), "cancelled attempt 0 token 0 replica -: "+
		"lock_wait is over; it waits for lock a, c, behind tasks that wait for it; the first of them waits for lock user/a user/b, held by x")
	s.want("of a job", s.task(job), "cancelled attempt 0 token 0 replica -: lock_wait is over; it waits for lock user/a, held by x")
	s.want("its trigger", s.trigger("a", due(1), 0), "skipped cancelled: lock_wait is over; it waits for lock user/a, held by x")
	s.want("of a pool", s.task(made[0]), "cancelled attempt 0 token 0 replica -: lock_wait is over; it waits for lock user/a user/b, held by x")
	s.want("without a limit", s.task(made[1])[:2], "3 ")
	s.want("code", s.DB.Text(t, "SELECT reason_code FROM {triggers}"), string(reason.LockWait))
	s.wantInt(1, "SELECT COUNT(*) FROM {lock_waits}")
}

// A decided task with locks is pending, and has its job's slot.
func waitsDecided(t *testing.T, b *Bench) {
	s := newScene(t, b)
	request := s.deciding(func([]ledger.JobState) []ledger.Decision { return []ledger.Decision{run("a", due(1), true)} })
	request.Locks = func(ledger.Candidate) ledger.Locking { return wants("user/a") }
	got, err := s.Store.Decide(s.ctx(), request)
	must(t, err)
	if len(got.Started) > 0 || len(got.Opened) != 1 {
		t.Fatalf("started %v, opened %v", got.Started, got.Opened)
	}
	id := got.Opened[0].ID
	s.want("row", s.task(id), "ready attempt 0 token 0 replica -: -")
	s.locking("default", map[string]ledger.Locking{id: busy("user/a")})
	var open []jobs.Task
	_, err = s.Store.Decide(s.ctx(), s.deciding(func(states []ledger.JobState) []ledger.Decision {
		open = states[0].Open
		return nil
	}))
	must(t, err)
	if len(open) != 1 || open[0].ID != id || open[0].State != jobs.StatePending {
		t.Errorf("the slot is held by %+v", open)
	}
}

// What waits is cancelled by a user, and with its job, and leaves nothing behind.
func waitsCancelled(t *testing.T, b *Bench) {
	s := newScene(t, b)
	_, err := s.decide(run("a", due(1), false))
	must(t, err)
	job := s.DB.Text(t, "SELECT id FROM {tasks}")
	id := s.enqueue("work", 1)[0]
	s.locking("default", map[string]ledger.Locking{job: busy("user/a")})
	s.locking("work", map[string]ledger.Locking{id: busy("user/a")})
	if task, err := s.Store.Cancel(s.ctx(), id, "me"); err != nil || task.State != jobs.StateCancelled {
		t.Errorf("cancelled %+v, %v", task, err)
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {lock_waits}")
	d := definitions()
	d.Jobs = d.Jobs[1:]
	_, err = s.Store.Load(s.ctx(), s.session, d)
	must(t, err)
	_, err = s.Store.Sweep(s.ctx(), asIs, jobs.Retention{Triggers: time.Hour, Succeeded: time.Hour, Failed: time.Hour, Output: time.Hour}, 100)
	must(t, err)
	s.want("of a removed job", s.task(job), "cancelled attempt 0 token 0 replica -: "+ledger.ReasonRetired)
	s.wantInt(0, "SELECT COUNT(*) FROM {lock_waits}")
}

// A task whose keys cannot be made ends as failed, whatever retries it has.
func waitsWrongKey(t *testing.T, b *Bench) {
	s := newScene(t, b)
	made := s.enqueue("work", 2)
	got := s.locking("work", map[string]ledger.Locking{made[0]: {State: ledger.LocksWrong, Reason: "the payload has no tenant"}})
	if d := cmp.Diff(made[:1], ids(got.Failed)); d != "" || len(got.Tasks) != 1 {
		t.Error(d, got.Tasks)
	}
	s.want("row", s.task(made[0]), "failed attempt 0 token 0 replica -: the payload has no tenant")
	s.want("code", s.DB.Text(t, "SELECT reason_code FROM {done} WHERE id=?", made[0]), string(reason.LockKey))
}

// What a claim took is not lost when another candidate, whose keys cannot be made, cannot be ended: that one is left to the next claim.
func waitsWrongKeyStays(t *testing.T, b *Bench) {
	s := newScene(t, b)
	made := s.enqueue("work", 3)
	wrong := map[string]ledger.Locking{made[0]: {State: ledger.LocksWrong, Reason: "the payload has no tenant"}}
	b.DB.Exec(t, "ALTER TABLE {done} RENAME TO {elsewhere}")
	got := s.locking("work", wrong)
	c := s.claiming("work", 10)
	c.Locks = func(c ledger.Candidate) ledger.Locking { return wrong[c.Task.ID] }
	_, err := b.Store.Claim(s.ctx(), c)
	b.DB.Exec(t, "ALTER TABLE {elsewhere} RENAME TO {done}")
	if d := cmp.Diff(made[1:], ids(started(got.Tasks))); d != "" || len(got.Failed) > 0 {
		t.Error(d, ids(got.Failed))
	}
	if err == nil {
		t.Error("a claim that took nothing, and could not end the task, says nothing")
	}
	s.want("row", s.task(made[0]), "ready attempt 0 token 0 replica -: -")
	if d := cmp.Diff(made[:1], ids(s.locking("work", wrong).Failed)); d != "" {
		t.Error(d)
	}
}
