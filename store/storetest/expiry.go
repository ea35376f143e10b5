package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

var expiryCases = []Case{
	{"Expiry/Claim", expiryClaim},
	{"Expiry/States", expiryStates},
	{"Expiry/Admission", expiryAdmission},
	{"Expiry/Waits", expiryWaits},
	{"Expiry/Bounded", expiryBounded},
	{"Expiry/Started", expiryStarted},
	{"Expiry/Refused", expiryRefused},
	{"Expiry/Changed", expiryChanged},
	{"Expiry/Retried", expiryRetried},
	{"Expiry/Races", expiryRaces},
}

// far is a time at which tasks of these tests expire, unless a judge says that it has come.
var far = due(1_000_000)

func at(now time.Time) ledger.Judge {
	return func(time.Time) (time.Time, error) { return now, nil }
}

// expire ends the tasks that have expired at a time, and returns their ids and when the next one does.
func (s *scene) expire(now time.Time, limit int) (ended []string, next time.Time) {
	s.t.Helper()
	tasks, next, err := s.Store.EndExpired(s.ctx(), at(now), limit)
	must(s.t, err)
	return ids(tasks), next
}

// claimAt takes up to limit tasks of pool work at a time.
func (s *scene) claimAt(now time.Time, limit int) []string {
	s.t.Helper()
	c := s.claiming("work", limit)
	c.Now = at(now)
	got, err := tasksOf(s.Store.Claim(s.ctx(), c))
	must(s.t, err)
	return ids(got.Tasks)
}

// A task is claimed until it expires, and not from that moment on. It holds up none behind it, though it has not been ended yet.
func expiryClaim(t *testing.T, b *Bench) {
	s := newScene(t, b)
	first := s.newTask(jobs.NewTask{ExpiresAt: far, Priority: 2})
	second := s.newTask(jobs.NewTask{ExpiresAt: far, Priority: 1})
	behind := s.newTask(jobs.NewTask{})
	if d := cmp.Diff([]string{first}, s.claimAt(far.Add(-time.Microsecond), 1)); d != "" {
		t.Error("before it expires:", d)
	}
	if d := cmp.Diff([]string{behind}, s.claimAt(far, 1)); d != "" {
		t.Error("when it does:", d)
	}
	s.want("the expired one", s.task(second), "ready attempt 0 token 0 replica -: -")
}

// Tasks expire in whatever state they wait, and leave nothing that others would wait behind.
func expiryStates(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{}, jobs.OrderKey)
	early := far.Add(-time.Microsecond)
	ready := s.newTask(jobs.NewTask{ExpiresAt: early, Priority: -1})
	locks := s.newTask(jobs.NewTask{ExpiresAt: early, Priority: -1})
	behind := s.newTask(jobs.NewTask{Priority: -1})
	keyed := s.keyed("k")
	keyed = append(keyed, s.newTask(jobs.NewTask{Key: "k", ExpiresAt: far}), s.newTask(jobs.NewTask{Key: "k"}))
	s.lockingWith("work", map[string]ledger.Locking{locks: busy("user/a"), behind: busy("user/a")}, func(c *ledger.Claim) {
		admit := c.Admit
		c.Admit = func(now time.Time, one ledger.Candidate) (time.Time, bool) {
			until, _ := admit(now, one)
			return until, one.Task.ID != ready
		}
	})
	s.want("task with locks", s.task(locks)[:2], "3 ")
	s.waitsForKey(keyed[1], "behind task "+keyed[0]+" of the same key")
	yes := true
	must(t, s.Store.PausePool(s.ctx(), "work", "", &yes))

	if ended, next := s.expire(far.Add(-time.Second), 10); len(ended) > 0 || !next.Equal(early) {
		t.Errorf("ended early: %v, the next one at %v", ended, next)
	}
	ended, next := s.expire(far, 10)
	if len(ended) != 3 || !next.IsZero() {
		t.Errorf("ended %v, the next one at %v", ended, next)
	}
	why := func(at time.Time) string {
		return "cancelled attempt 0 token 0 replica -: expired at " + at.Format(time.RFC3339Nano) + ", before an attempt started"
	}
	s.want("ready", s.task(ready), why(early))
	s.want("with locks", s.task(locks), why(early)+"; waits for lock user/a, held by x")
	s.want("with a key", s.task(keyed[1]), why(far)+"; behind task "+keyed[0]+" of the same key")
	s.wantInt(3, "SELECT COUNT(*) FROM {done} WHERE reason_code='"+string(reason.Expired)+"'")
	s.wantInt(1, "SELECT COUNT(*) FROM {lock_waits}")

	no := false
	must(t, s.Store.PausePool(s.ctx(), "work", "", &no))
	s.ends(keyed[0])
	s.starts("the key is free", keyed[2])
}

// A task that has its locks, or whose key is free, does not start once it has expired, also if nobody has ended it yet.
func expiryAdmission(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{MaxRunning: 1}, "")
	locks := s.newTask(jobs.NewTask{ExpiresAt: far})
	s.locking("work", map[string]ledger.Locking{locks: busy("user/a")})
	first, keyed, last := s.newTask(jobs.NewTask{Key: "k"}), s.newTask(jobs.NewTask{Key: "k", ExpiresAt: far}), s.newTask(jobs.NewTask{Key: "k"})
	s.starts("the first one", first)
	s.waitsForKey(keyed, "")
	got := s.lockingWith("work", nil, func(c *ledger.Claim) { c.Waiting, c.Now = []string{locks}, at(far) })
	if len(got.Tasks) > 0 {
		t.Errorf("with its locks: started %v", startedIDs(got.Tasks))
	}
	s.ends(first)
	started := s.claimAt(far, 10) // the expired one may hold up the last one until it is ended
	if slices.Contains(started, keyed) {
		t.Error("the expired one has started")
	}
	s.DB.Exec(t, "UPDATE {tasks} SET expires_at=? WHERE id=?", far.Add(time.Hour).UnixMicro(), locks)
	s.expire(far, 10)
	if d := cmp.Diff([]string{last}, append(started, s.claimAt(far, 10)...)); d != "" {
		t.Error("while the key is free:", d)
	}
	got = s.lockingWith("work", nil, func(c *ledger.Claim) { c.Waiting, c.Now = []string{locks}, at(far.Add(time.Hour-time.Microsecond)) })
	if d := cmp.Diff([]string{locks}, startedIDs(got.Tasks)); d != "" {
		t.Error("in time:", d)
	}
}

// A task that its handler has snoozed beyond the time at which it expires does not wait that long.
func expiryWaits(t *testing.T, b *Bench) {
	s := newScene(t, b)
	task := s.newTask(jobs.NewTask{RunAt: far.Add(-time.Hour), ExpiresAt: far})
	if ended, next := s.expire(far.Add(-2*time.Hour), 10); len(ended) > 0 || !next.IsZero() {
		t.Errorf("ended %v before it was due, the next one at %v", ended, next)
	}
	if ended, next := s.expire(far.Add(-time.Minute), 10); len(ended) > 0 || !next.Equal(far) {
		t.Errorf("ended %v, the next one at %v", ended, next)
	}
	s.want("due, though nobody has asked what is ready", s.task(task)[:6], "ready ")
	got := s.claim("work", 1) // it is not due
	if len(got) > 0 {
		t.Fatalf("claimed %v", ids(got))
	}
	if d := cmp.Diff([]string{task}, s.claimAt(far.Add(-time.Minute), 1)); d != "" {
		t.Fatal(d)
	}
	s.finish(ledger.Result{TaskID: task, Token: 1, Verdict: ledger.Snoozed, RetryIn: time.Hour, Now: far.Add(-time.Minute)})
	s.want("snoozed", s.task(task), "waits attempt 0 token 1 replica -: -")
	other := s.newTask(jobs.NewTask{RunAt: far.Add(-time.Minute)})
	_, err := s.Store.Ready(s.ctx(), at(far.Add(-time.Second)))
	must(t, err)
	s.want("another one that is due", s.task(other)[:6], "ready ")
	s.want("snoozed", s.task(task), "waits attempt 0 token 1 replica -: -")
	late := s.newTask(jobs.NewTask{RunAt: far.Add(-time.Second / 2), ExpiresAt: far})
	if ended, next := s.expire(far, 10); len(ended) != 2 || !next.IsZero() {
		t.Errorf("ended %v, the next one at %v, want %s and %s", ended, next, task, late)
	}
}

// Not more end at once than a call is for, the first ones first, and the next time is in the past while some are left.
func expiryBounded(t *testing.T, b *Bench) {
	s := newScene(t, b)
	var all []string
	for i := range 7 {
		all = append(all, s.newTask(jobs.NewTask{ExpiresAt: far.Add(time.Duration(i) * time.Second)}))
	}
	for _, want := range []struct {
		ended []string
		next  time.Time
	}{{all[:3], far.Add(3 * time.Second)}, {all[3:6], far.Add(6 * time.Second)}, {nil, far.Add(6 * time.Second)}} {
		ended, next := s.expire(far.Add(5*time.Second), 3)
		if d := cmp.Diff(want.ended, ended); d != "" || !next.Equal(want.next) {
			t.Errorf("%s the next one at %v", d, next)
		}
	}
	wrong := errors.New("wrong clock")
	judge := func(time.Time) (time.Time, error) { return time.Time{}, wrong }
	if _, _, err := s.Store.EndExpired(s.ctx(), judge, 1); !errors.Is(err, wrong) {
		t.Errorf("with a wrong clock: %v", err)
	}
	s.expire(far.Add(time.Hour), 10)
	if _, next, err := s.Store.EndExpired(s.ctx(), judge, 1); err != nil || !next.IsZero() {
		t.Errorf("while no task expires: %v, %v", next, err)
	}
}

// A task of which an attempt has started does not expire, whatever comes of it. One that was handed back was not started.
func expiryStarted(t *testing.T, b *Bench) {
	s := newScene(t, b)
	var all []string
	for range 3 {
		all = append(all, s.newTask(jobs.NewTask{ExpiresAt: far}))
	}
	tasks := s.claim("work", 10)
	if ended, next := s.expire(far, 10); len(ended) > 0 || !next.IsZero() {
		t.Errorf("ended %v while they ran, the next one at %v", ended, next)
	}
	failed := result(tasks[0], ledger.Again, jobs.StateFailed)
	failed.RetryIn, failed.Now = time.Second, far
	s.finish(failed, result(tasks[1], ledger.HandBack, ""))
	if ended, next := s.expire(far, 10); len(ended) != 1 || ended[0] != all[1] || !next.IsZero() {
		t.Errorf("ended %v, want the one that was handed back, %s; the next one at %v", ended, all[1], next)
	}
	_, err := s.Store.Ready(s.ctx(), at(far.Add(time.Minute)))
	must(t, err)
	if d := cmp.Diff(all[:1], s.claimAt(far.Add(time.Hour), 10)); d != "" {
		t.Error("the retry:", d)
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {done}")
}

// A task that would have expired is refused, and leaves no idempotency key. One that exists already is not.
func expiryRefused(t *testing.T, b *Bench) {
	s := newScene(t, b)
	past := time.UnixMicro(s.DB.Int(t, "SELECT MAX(seen_at) FROM {sessions}")).Add(-time.Second).UTC()
	for _, c := range []struct {
		path  string
		tasks []jobs.NewTask
	}{
		{"expires_at", []jobs.NewTask{{Pool: "work", ExpiresAt: past, IdempotencyKey: "a"}}},
		{"expires_at", []jobs.NewTask{{Pool: "work", ExpiresAt: far, RunAt: far}}},
		{"[1].expires_at", []jobs.NewTask{{Pool: "work", IdempotencyKey: "a"}, {Pool: "work", ExpiresAt: past, IdempotencyKey: "b"}}},
	} {
		_, err := b.Store.Enqueue(s.ctx(), c.tasks...)
		if wrong, is := errors.AsType[*jobs.FieldError](err); !is || wrong.Path != c.path || !errors.Is(err, jobs.ErrInvalid) {
			t.Errorf("%+v: %v", c.tasks, err)
		}
	}
	s.wantInt(0, "SELECT COUNT(*) FROM {tasks}")
	s.wantInt(0, "SELECT COUNT(*) FROM {idempotency}")

	made := s.newTask(jobs.NewTask{ExpiresAt: far, IdempotencyKey: "a"})
	again, err := b.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: "work", ExpiresAt: past, IdempotencyKey: "a"})
	if err != nil || !again[0].Existed || again[0].ID != made || !again[0].ExpiresAt.Equal(far) {
		t.Errorf("with a key that exists: %+v, %v", again, err)
	}
}

// The time can be changed while the task waits, also to none; it stays behind the time at which the task is due.
func expiryChanged(t *testing.T, b *Bench) {
	s := newScene(t, b)
	task := s.newTask(jobs.NewTask{})
	change := func(to time.Time) wire.TaskChange { return wire.TaskChange{ExpiresAt: &to} }
	if got := s.update(task, change(far)); !got.ExpiresAt.Equal(far) {
		t.Errorf("expires at %v", got.ExpiresAt)
	}
	if _, next := s.expire(micro(1), 10); !next.Equal(far) {
		t.Errorf("the next one expires at %v", next)
	}
	for field, c := range map[string]wire.TaskChange{"run_at": {RunAt: &far}, "expires_at": change(micro(1))} {
		_, err := b.Store.UpdateTask(s.ctx(), task, c)
		if wrong, is := errors.AsType[*jobs.FieldError](err); !is || wrong.Path != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if got := s.update(task, change(time.Time{})); !got.ExpiresAt.IsZero() {
		t.Errorf("expires at %v", got.ExpiresAt)
	}
	if ended, next := s.expire(far, 10); len(ended) > 0 || !next.IsZero() {
		t.Errorf("ended %v, the next one at %v", ended, next)
	}
}

// The copy that a user makes of a task that has expired does not expire.
func expiryRetried(t *testing.T, b *Bench) {
	s := newScene(t, b)
	task := s.newTask(jobs.NewTask{ExpiresAt: far})
	s.expire(far, 10)
	again, err := s.Store.Retry(s.ctx(), task, "", true)
	if err != nil || !again.ExpiresAt.IsZero() {
		t.Errorf("%+v, %v", again, err)
	}
}

// While claims and calls that end expired tasks race at the moment itself, each task becomes running or ends, once.
func expiryRaces(t *testing.T, b *Bench) {
	s := newScene(t, b)
	const tasks = 150
	for range tasks {
		s.newTask(jobs.NewTask{ExpiresAt: far})
	}
	var mu sync.Mutex
	seen := map[string]string{}
	Together(t, 6, func(ctx context.Context, i int) error {
		for n := 0; ; n++ {
			var got []string
			what := "ended"
			if i%2 == 0 {
				what = "started"
				c := s.claiming("work", 3)
				c.Now = at(far.Add(-time.Microsecond)) // a replica whose judge is behind
				tasks, err := tasksOf(b.Store.Claim(ctx, c))
				if err != nil {
					return err
				}
				got = ids(tasks.Tasks)
			} else {
				tasks, _, err := b.Store.EndExpired(ctx, at(far), 3)
				if err != nil {
					return err
				}
				got = ids(tasks)
			}
			mu.Lock()
			for _, id := range got {
				if seen[id] != "" {
					t.Errorf("task %s has %s, and has %s", id, seen[id], what)
				}
				seen[id] = what
			}
			all := len(seen) == tasks
			mu.Unlock()
			if all {
				return nil
			}
			if n > 10_000 {
				return fmt.Errorf("%d of %d tasks", len(seen), tasks)
			}
		}
	})
	ended := 0
	for _, what := range seen {
		if what == "ended" {
			ended++
		}
	}
	s.wantInt(int64(ended), "SELECT COUNT(*) FROM {done}")
	s.wantInt(int64(tasks-ended), "SELECT COUNT(*) FROM {tasks} WHERE state=2")
}
