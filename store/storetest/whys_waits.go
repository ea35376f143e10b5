package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/why"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// A kind at its limit names the tasks of that kind that run; at its rate, when the next one may start.
func whyKindMaxRunning(t *testing.T, b *Bench) {
	s := newScene(t, b)
	rate, err := jobs.ParseRate("1/h")
	must(t, err)
	s.perKind(perKind{"sms": {MaxRunning: 1}, "fax": {Rate: rate, Burst: 1}}, jobs.KeyLimits{}, nil)
	first, second := s.newTask(jobs.NewTask{Kind: "sms"}), s.newTask(jobs.NewTask{Kind: "sms"})
	s.newTask(jobs.NewTask{Kind: "fax"})
	fax := s.newTask(jobs.NewTask{Kind: "fax"})
	s.limitedClaim("work", 10)
	ofJob := s.newTask(jobs.NewTask{Kind: "mail"})
	if got := s.limitedClaim("work", 10); len(got.Tasks) != 1 || got.Tasks[0].ID != ofJob {
		t.Fatalf("claimed %+v", got.Tasks)
	}
	s.DB.Exec(t, "UPDATE {tasks} SET job='a', kind='sms' WHERE id=?", ofJob) // a run of a job, which no kind limits
	if c := s.causes("a kind that is full", second, reason.WaitsForKind); c.Limit != "max_running" || c.Max != 1 || len(c.Tasks) != 1 || c.Tasks[0].ID != first {
		t.Errorf("%+v", c)
	}
	if c := s.causes("a kind at its rate", fax, reason.WaitsForKind); c.Limit != "rate" || time.Until(c.Until) < 55*time.Minute {
		t.Errorf("%+v", c)
	}
	s.causes("another kind", s.newTask(jobs.NewTask{Kind: "mail"}), reason.Ready)
	s.ends(first)
	s.causes("one has ended", second, reason.Ready)
}

// A key at its limit names the tasks with that key that run, whether or not a claim has made the task wait.
func whyKeyMaxRunning(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{MaxRunning: 2}, "")
	ids := s.keyed("k", "k", "k", "x", "k")
	got := s.limitedClaim("work", 10).Tasks
	if len(got) != 3 {
		t.Fatal(ids, got)
	}
	for when, id := range map[string]string{"waits": ids[2], "waits behind it": ids[4], "was not looked at": s.keyed("k")[0]} {
		c := s.causes(when, id, reason.WaitsForKey)
		if c.Limit != "max_running" || c.Key != "k" || c.Max != 2 || c.Count != 2 || len(c.Tasks) != 2 || c.Tasks[0].ID != ids[0] || c.Tasks[1].ID != ids[1] {
			t.Errorf("%s: %+v", when, c)
		}
	}
	s.causes("another key", s.keyed("y")[0], reason.BehindOthers)
	s.ends(ids[0])
	s.causes("one has ended", ids[2], reason.Ready)
}

func whyKeyRate(t *testing.T, b *Bench) {
	s := newScene(t, b)
	rate, err := jobs.ParseRate("1/1h")
	must(t, err)
	s.perKey(jobs.KeyLimits{Rate: rate, Burst: 1}, "")
	ids := s.keyed("k", "k")
	s.causes("before", ids[0], reason.Ready)
	s.limitedClaim("work", 10)
	c := s.causes("after", ids[1], reason.WaitsForKey)
	if until := time.Until(c.Until); c.Limit != "rate" || c.Rate != rate || until < 58*time.Minute || until > 61*time.Minute {
		t.Errorf("%+v", c)
	}
	if y := s.why(ids[1], why.Here{}); !y.Start.At.Equal(c.Until) {
		t.Errorf("%+v", y.Start)
	}
	s.DB.Exec(t, "UPDATE {keys} SET bucket_full_at=1")
	s.causes("an hour later", ids[1], reason.Ready)
}

// With an order, a task has the first one that has not ended, and what that waits for.
func whyKeyOrder(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{}, jobs.OrderKey)
	at := time.Now().Add(time.Hour)
	first := s.newTask(jobs.NewTask{Key: "k", RunAt: at})
	second, third := s.newTask(jobs.NewTask{Key: "k"}), s.newTask(jobs.NewTask{Key: "k", Priority: 9})
	c := s.causes("third", third, reason.WaitsForKey)
	if c.Limit != "order" || c.Count != 2 || len(c.Tasks) != 1 || c.Tasks[0].ID != first || c.Tasks[0].State != jobs.StatePending || c.Tasks[0].RunAt.IsZero() || !strings.Contains(c.Message, "due at") {
		t.Errorf("%+v", c)
	}
	s.causes("first", first, reason.NotDue)
	s.DB.Exec(t, "INSERT INTO {key_waits} (pool, task_key, place, rank_order, run_at, task_id, kind) VALUES ('work', 'k', 1, 0, 0, 'ended', '')")
	if c := s.causes("behind a place of one that has ended", second, reason.WaitsForKey, reason.BehindOthers); c.Tasks[0].ID != first {
		t.Errorf("%+v", c)
	}
	s.DB.Exec(t, "DELETE FROM {key_waits} WHERE task_id IN ('ended', ?)", third)
	if c := s.causes("without a place, as from before the order", third, reason.WaitsForKey); c.Tasks[0].ID != first {
		t.Errorf("%+v", c)
	}
	s.limitedClaim("work", 10)
	if c := s.causes("second", second, reason.WaitsForKey); c.Count != 1 || c.Tasks[0].ID != first {
		t.Errorf("%+v", c)
	}
	_, err := b.Store.Cancel(s.ctx(), first, "ann")
	must(t, err)
	s.causes("now first", second, reason.Ready)
	s.limitedClaim("work", 10)
	if c := s.causes("behind what runs", third, reason.WaitsForKey); c.Tasks[0].ID != second || c.Tasks[0].State != jobs.StateRunning || c.Tasks[0].Replica != "one" {
		t.Errorf("%+v", c)
	}
	s.ends(second)
	s.causes("the last", third, reason.Ready)
}

// Where keys share a pool, a task whose turn has not come says so.
func whyKeyTurn(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.shared(jobs.KeyLimits{}, "", nil)
	s.many("a", 10)
	s.limitedClaim("work", 1)
	id := s.DB.Text(t, "SELECT MAX(id) FROM {tasks} WHERE state=4")
	c := s.causes("its turn has not come", id, reason.WaitsForKey)
	if c.Limit != "fair" || c.Key != "a" || c.Count == 0 {
		t.Errorf("%+v", c)
	}
	for range 10 {
		s.runs(1, 10)
	}
	s.causes("it came", id, reason.Succeeded)
}

// A task that waits for locks has each with its place, and the replica that waits for it; the holders are those that the lock service names.
func whyLocks(t *testing.T, b *Bench) {
	s := newScene(t, b)
	first, second := s.newTask(jobs.NewTask{}), s.newTask(jobs.NewTask{})
	s.locking("work", map[string]ledger.Locking{first: busy("user/a"), second: busy("user/a", "user/b")})
	_, err := b.Store.QueueWaits(s.ctx(), s.session, []string{first})
	must(t, err)
	since := time.Now().Add(-time.Minute)
	here := why.Here{Replica: "one", Holders: map[string][]wire.Lock{"user/a": {{Key: "user/a", Mode: "exclusive", Owner: "web-1/42", Since: since}}}}
	c := s.causesAt("first", first, here, reason.WaitsForLock)
	if len(c.Locks) != 1 || c.Locks[0].Key != "a" || c.Locks[0].Before != 0 || c.Locks[0].Waits != "one" || c.Locks[0].Holders[0].Owner != "web-1/42" || !strings.Contains(c.Message, "lock a (held exclusively by web-1/42 since") {
		t.Errorf("%+v", c)
	}
	c = s.causesAt("second", second, here, reason.WaitsForLock)
	if len(c.Locks) != 2 || c.Locks[0].Before != 1 || c.Locks[0].First != first || c.Locks[1].Before != 0 || c.Locks[0].Waits != "" {
		t.Errorf("%+v", c)
	}
	if c := s.causes("without the lock service", first, reason.WaitsForLock); !strings.Contains(c.Message, "held by x") {
		t.Errorf("%+v", c)
	}
	here.LockError = "connection refused"
	s.causesAt("it is down", first, here, reason.LockServiceDown, reason.WaitsForLock)
	must(t, s.Store.ExplainWaits(s.ctx(), s.session, map[string]string{first: ledger.LocksAway}))
	s.causes("a replica has found it down", first, reason.LockServiceDown, reason.WaitsForLock)
	s.causesAt("nothing starts", first, why.Here{LockWaits: "down"}, reason.LockServiceDown, reason.WaitsForLock)
	held := s.lockingWith("work", nil, func(c *ledger.Claim) { c.Waiting = []string{first} })
	if len(held.Tasks) != 1 {
		t.Fatalf("%+v", held)
	}
	s.causes("its locks are held", first, reason.Running)
	s.causes("it is first", second, reason.WaitsForLock)
}

// The estimate goes by what has ended of late, in that pool, and by what comes before the task.
func whyStart(t *testing.T, b *Bench) {
	s := newScene(t, b)
	start := func(id string) wire.Start {
		t.Helper()
		y := s.why(id, why.Here{})
		if y.Start == nil {
			t.Fatalf("%+v", y)
		}
		return *y.Start
	}
	s.limit("work", 20)
	s.enqueue("work", 60)
	id := s.newTask(jobs.NewTask{})
	_, err := b.Store.Cancel(s.ctx(), s.newTask(jobs.NewTask{}), "ann") // it had not started
	must(t, err)
	if got := start(id); !got.At.IsZero() || !strings.Contains(got.Unknown, "no pace") || got.Ahead != 60 {
		t.Errorf("nothing has ended: %+v", got)
	}
	s.enqueue("again", 5)
	for range 2 {
		for _, task := range append(s.limitedClaim("work", 20).Tasks, s.claim("again", 5)...) {
			s.finish(result(task, ledger.Ended, jobs.StateSucceeded))
		}
	}
	s.DB.Exec(t, "UPDATE {done} SET finished_at=finished_at-60000000 WHERE pool='work'")
	s.DB.Exec(t, "UPDATE {done} SET finished_at=1 WHERE pool='work' AND id=(SELECT * FROM (SELECT MIN(id) FROM {done} WHERE pool='work') AS m)")
	got := start(id)
	if got.Ends != 39 || got.Ahead != 20 || got.PerSecond < 0.3 || got.PerSecond > 0.34 || got.NotBefore || got.Basis == "" {
		t.Errorf("%+v", got)
	}
	if in := time.Until(got.At); in < 55*time.Second || in > 75*time.Second { // 21 tasks at 39 in two minutes
		t.Errorf("in %v: %+v", in, got)
	}
	must(t, b.Store.PausePool(s.ctx(), "work", "bob", new(true)))
	if got := start(id); !got.At.IsZero() || !strings.Contains(got.Unknown, "paused") {
		t.Errorf("paused: %+v", got)
	}
	must(t, b.Store.PausePool(s.ctx(), "work", "bob", nil))

	s.enqueue("again", 1000) // more ends than are read: what came before them does not count
	var more []ledger.Result
	for _, task := range s.claim("again", 1000) {
		more = append(more, result(task, ledger.Ended, jobs.StateSucceeded))
	}
	s.finish(more...)
	if got := start(id); got.Ends != 0 || time.Since(got.Since) > time.Minute || !strings.Contains(got.Unknown, "no pace") {
		t.Errorf("behind the ends of another pool: %+v", got)
	}
	s.DB.Exec(t, "DELETE FROM {done} WHERE pool='again'")
	s.update(id, wire.TaskChange{ExpiresAt: new(time.Now().Add(20 * time.Second))})
	if got := start(id); !got.At.IsZero() || !strings.Contains(got.Unknown, "expires first") {
		t.Errorf("expires: %+v", got)
	}
}
