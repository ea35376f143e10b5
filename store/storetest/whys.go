package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/why"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

var whyCases = []Case{
	{"Why/Unknown", whyUnknown},
	{"Why/Paused", whyPaused},
	{"Why/MaxRunning", whyMaxRunning},
	{"Why/Rate", whyRate},
	{"Why/Due", whyDue},
	{"Why/Replicas", whyReplicas},
	{"Why/Workers", whyWorkers},
	{"Why/ByWorkers", whyByWorkers},
	{"Why/Behind", whyBehind},
	{"Why/Counts", whyCounts},
	{"Why/Running", whyRunning},
	{"Why/Ended", whyEnded},
	{"Why/Several", whySeveral},
	{"Why/OneMoment", whyOneMoment},
	{"Why/KindMaxRunning", whyKindMaxRunning},
	{"Why/KeyMaxRunning", whyKeyMaxRunning},
	{"Why/KeyRate", whyKeyRate},
	{"Why/KeyOrder", whyKeyOrder},
	{"Why/KeyTurn", whyKeyTurn},
	{"Why/Locks", whyLocks},
	{"Why/Start", whyStart},
}

// why explains a task as a replica does that knows so much.
func (s *scene) why(id string, here why.Here) wire.Why {
	s.t.Helper()
	facts, err := s.SQL().Sides().API.Why(s.ctx(), id)
	must(s.t, err)
	if now := time.Now(); facts.At.Sub(now).Abs() > time.Minute {
		s.t.Errorf("read at %v, and it is %v", facts.At, now)
	}
	return why.Explain(facts, here)
}

// causes wants a task to have these codes for causes, and returns the first cause.
func (s *scene) causes(when, id string, want ...reason.Code) wire.Cause {
	s.t.Helper()
	return s.causesAt(when, id, why.Here{Replica: s.replica}, want...)
}

func (s *scene) causesAt(when, id string, here why.Here, want ...reason.Code) wire.Cause {
	s.t.Helper()
	y := s.why(id, here)
	var got []reason.Code
	var said []string
	for _, c := range y.Causes {
		got, said = append(got, c.Code), append(said, c.Message)
		if c.Message == "" {
			s.t.Errorf("%s: %s has no sentence", when, c.Code)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Errorf("%s: %v, want %v: %q", when, got, want, said)
	}
	if len(y.Causes) == 0 {
		s.t.FailNow()
	}
	return y.Causes[0]
}

func whyUnknown(t *testing.T, b *Bench) {
	s := newScene(t, b)
	for _, id := range []string{"none", "", newID()} {
		if _, err := b.SQL().Sides().API.Why(s.ctx(), id); !errors.Is(err, jobs.ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// A pause has its caller, and its time as far as the audit has it.
func whyPaused(t *testing.T, b *Bench) {
	s := newScene(t, b)
	id := s.newTask(jobs.NewTask{})
	s.causes("before", id, reason.Ready)
	must(t, b.Store.PausePool(s.ctx(), "work", "bob", new(true)))
	if c := s.causes("paused", id, reason.PoolPaused); c.By != "bob" || !c.Override || !c.Since.IsZero() || !strings.Contains(c.Message, "by bob") {
		t.Errorf("%+v", c)
	}
	audit := b.SQL().Sides().Audit
	for _, e := range []wire.AuditEntry{
		{Action: "POST /pools/{name}/pause", Object: "work", Status: 200}, {Action: "POST /pools/{name}/pause", Object: "again", Status: 200},
		{Action: "POST /pools/{name}/pause", Object: "work", Status: 403},
	} {
		must(t, audit.AddAudit(s.ctx(), e))
	}
	entries, _, err := audit.AuditEntries(s.ctx(), wire.Page{})
	must(t, err)
	if c := s.causes("audited", id, reason.PoolPaused); !c.Since.Equal(entries[2].At) {
		t.Errorf("since %v, want %v", c.Since, entries[2].At)
	}
	must(t, b.Store.PausePool(s.ctx(), "work", "bob", new(false)))
	s.causes("resumed", id, reason.Ready)
	must(t, b.Store.PausePool(s.ctx(), "work", "bob", nil))
	s.causes("as configured", id, reason.Ready)
}

// A full pool names the tasks that run, 20 at most, and counts all.
func whyMaxRunning(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.DB.Exec(t, "UPDATE {sessions} SET workers=100")
	s.limit("work", 22)
	s.enqueue("work", 22)
	id := s.newTask(jobs.NewTask{})
	got := s.limitedClaim("work", 30).Tasks
	s.enqueue("again", 2)
	s.claim("again", 2)
	c := s.causes("full", id, reason.MaxRunning)
	if c.Max != 22 || c.Count != 22 || c.More || len(c.Tasks) != 20 || c.Override {
		t.Errorf("%+v", c)
	}
	if first := c.Tasks[0]; first.ID != got[0].ID || first.Replica != "one" || !first.StartedAt.Equal(got[0].StartedAt) || first.State != jobs.StateRunning {
		t.Errorf("%+v, want %+v", first, got[0])
	}
	s.finish(result(got[3], ledger.Ended, jobs.StateSucceeded))
	s.causes("one has ended", id, reason.Ready)
	must(t, b.Store.LimitPool(s.ctx(), "work", "eve", &wire.PoolLimits{MaxRunning: new(21)}))
	if c := s.causes("an override", id, reason.MaxRunning); c.Max != 21 || c.Count != 21 || !c.Override || c.By != "eve" {
		t.Errorf("%+v", c)
	}
	must(t, b.Store.LimitPool(s.ctx(), "work", "eve", &wire.PoolLimits{MaxRunning: new(0)}))
	s.causes("no limit", id, reason.Ready)
}

// The rate of the pool says when it lets one more start.
func whyRate(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.rate("work", "2/1h", 1)
	id := s.newTask(jobs.NewTask{})
	s.causes("a full bucket", id, reason.Ready)
	s.limitedClaim("work", 1)
	id = s.newTask(jobs.NewTask{})
	c := s.causes("empty", id, reason.Rate)
	if until := time.Until(c.Until); until < 28*time.Minute || until > 31*time.Minute || c.Rate.String() != "2/h" {
		t.Errorf("%+v", c)
	}
	if y := s.why(id, why.Here{}); y.Start == nil || !y.Start.At.Equal(c.Until) {
		t.Errorf("%+v, want %v", y.Start, c.Until)
	}
	s.pass("work", time.Hour)
	s.causes("later", id, reason.Ready)
}

// A task whose time has not come says when that is, and what put it off.
func whyDue(t *testing.T, b *Bench) {
	s := newScene(t, b)
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	id := s.newTask(jobs.NewTask{RunAt: at, ExpiresAt: at.Add(time.Minute)})
	if c := s.causes("later", id, reason.NotDue); !c.Until.Equal(at) {
		t.Errorf("%+v", c)
	}
	if y := s.why(id, why.Here{}); !y.ExpiresAt.Equal(at.Add(time.Minute)) || !y.Start.At.Equal(at) {
		t.Errorf("%+v, starts %+v", y, y.Start)
	}
	s.update(id, wire.TaskChange{RunAt: new(time.Now().Add(-time.Second))})
	s.causes("due", id, reason.Ready)

	code, task := 7, s.claim("work", 1)[0]
	s.finish(ledger.Result{TaskID: id, Token: task.Token, Verdict: ledger.Again, State: jobs.StateFailed, RetryIn: time.Hour, Reason: "exit code 7", Code: reason.ExitCode, Error: "no\nmore", ExitCode: &code, Task: &task})
	c := s.causes("failed", id, reason.Backoff)
	if c.Attempt != 1 || c.MaxAttempts != 3 || c.ExitCode == nil || *c.ExitCode != 7 || c.Error != "no\nmore" || c.Replica != "one" || c.Until.IsZero() || c.Since.IsZero() {
		t.Errorf("%+v", c)
	}
	if !strings.Contains(c.Message, "attempt 1 of 3 failed") || !strings.Contains(c.Message, "exit code 7") {
		t.Error(c.Message)
	}
	s.DB.Exec(t, "UPDATE {tasks} SET run_at=1, state=0 WHERE id=?", id)
	s.causes("the next attempt", id, reason.Ready)
	task = s.claim("work", 1)[0]
	code = 8
	s.finish(ledger.Result{TaskID: id, Token: task.Token, Verdict: ledger.Again, State: jobs.StateFailed, RetryIn: time.Hour, Reason: "exit code 8", Code: reason.ExitCode, ExitCode: &code, Task: &task})
	if c := s.causes("failed again", id, reason.Backoff); c.Attempt != 2 || *c.ExitCode != 8 {
		t.Errorf("%+v", c)
	}
	s.DB.Exec(t, "UPDATE {tasks} SET run_at=1, state=0 WHERE id=?", id)

	task = s.claim("work", 1)[0]
	s.finish(ledger.Result{TaskID: id, Token: task.Token, Verdict: ledger.Snoozed, State: jobs.StatePending, RetryIn: time.Hour, Reason: "no file", Code: reason.Snoozed, Task: &task})
	if c := s.causes("snoozed", id, reason.Snoozed); !strings.Contains(c.Message, "no file") || c.Until.IsZero() {
		t.Errorf("%+v", c)
	}
	s.DB.Exec(t, "UPDATE {tasks} SET run_at=1, state=0 WHERE id=?", id)
	task = s.claim("work", 1)[0]
	s.finish(ledger.Result{TaskID: id, Token: task.Token, Verdict: ledger.HandBack, State: jobs.StatePending, Reason: "no descriptors", Code: reason.NoRoom, Task: &task})
	if c := s.causes("handed back", id, reason.NoRoom); !strings.Contains(c.Message, "no descriptors") {
		t.Errorf("%+v", c)
	}
}

// Which replicas live, and what they have, decides whether a task can run at all.
func whyReplicas(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.load(withKinds("fax"))
	_, err := b.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: "work", Kind: "mail", Force: true})
	must(t, err)
	id := s.DB.Text(t, "SELECT id FROM {tasks}")
	c := s.causes("no handler", id, reason.NoHandler)
	if len(c.Replicas) != 1 || c.Replicas[0].ID != "one" || fmt.Sprint(c.Replicas[0].Kinds) != "[fax]" || !strings.Contains(c.Message, `one has kind "fax"`) {
		t.Errorf("%+v", c)
	}
	second := s.second("two")
	second.load(withKinds("fax", "mail"))
	s.causes("a replica that has it", id, reason.Ready)
	must(t, second.Store.SetDraining(s.ctx(), second.session))
	if c := s.causes("it drains", id, reason.OtherDefinition); len(c.Replicas) != 2 || c.Replicas[1].State != "draining" {
		t.Errorf("%+v", c)
	}
	second.die()
	s.load(withKinds("fax"))
	s.causes("it is gone", id, reason.NoHandler)

	_, err = s.decide(run("a", due(1), false))
	must(t, err)
	job := s.DB.Text(t, "SELECT id FROM {tasks} WHERE job='a'")
	here := why.Here{RunsOn: map[string]string{"zone": "b"}}
	if c := s.causesAt("no labels", job, here, reason.NoReplica); c.RunsOn["zone"] != "b" || len(c.Replicas) != 1 || !strings.Contains(c.Message, "zone=b") {
		t.Errorf("%+v", c)
	}
	s.DB.Exec(t, `UPDATE {sessions} SET labels='{"zone":"b"}'`)
	s.causesAt("the labels", job, here, reason.Ready)

	must(t, s.Store.SetDraining(s.ctx(), s.session))
	s.causesAt("all drain", job, here, reason.NoLiveReplica)
	s.die()
	s.causes("none is live", id, reason.NoLiveReplica)
	last := s.second("three")
	d := withKinds("mail")
	d.Pools = d.Pools[:2]
	last.load(d)
	s.causes("the pool is gone", id, reason.NoPool)
	last.load(withKinds("mail"))
	s.causes("it is back", id, reason.Ready)
}

// Workers are busy if those of all replicas are that can run the task.
func whyWorkers(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 3)
	id := s.newTask(jobs.NewTask{})
	got := s.claim("work", 3)
	c := s.causesAt("busy", id, why.Here{Workers: 3}, reason.WorkersBusy)
	if len(c.Replicas) != 1 || c.Replicas[0].PoolRunning != 3 || c.Replicas[0].PoolWorkers != 3 || c.Replicas[0].Workers != 10 {
		t.Errorf("%+v", c)
	}
	s.causesAt("more workers", id, why.Here{Workers: 4}, reason.Ready)
	s.enqueue("again", 7)
	more := s.claim("again", 7)
	if c := s.causesAt("all workers of the replica", id, why.Here{Workers: 4}, reason.WorkersBusy); c.Replicas[0].Running != 10 || c.Replicas[0].PoolRunning != 3 {
		t.Errorf("%+v", c)
	}
	second := s.second("two")
	second.load(definitions())
	s.causesAt("another replica", id, why.Here{Workers: 3}, reason.Ready)
	must(t, second.Store.SetDraining(s.ctx(), second.session))
	s.causesAt("which drains", id, why.Here{Workers: 3}, reason.WorkersBusy)
	s.finish(result(got[0], ledger.Ended, jobs.StateSucceeded), result(more[0], ledger.Ended, jobs.StateSucceeded))
	s.causesAt("a free worker", id, why.Here{Workers: 3}, reason.Ready)
}

// What comes before a task is what claims take before it.
func whyBehind(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.keyed("", "")
	id := s.newTask(jobs.NewTask{})
	s.keyed("", "")
	s.newTask(jobs.NewTask{Priority: 1})
	s.newTask(jobs.NewTask{Priority: -1})
	s.newTask(jobs.NewTask{Priority: 2, RunAt: time.Now().Add(time.Hour)}) // not ready
	s.enqueue("again", 3)
	if c := s.causes("behind", id, reason.BehindOthers); c.Count != 3 || c.More {
		t.Errorf("%+v", c)
	}
	for n := 3; n > 0; n-- {
		if got := s.claim("work", 1); got[0].ID == id {
			t.Fatalf("%d come before it, and it was claimed", n)
		}
	}
	s.causes("first", id, reason.Ready)
	if got := s.claim("work", 1); got[0].ID != id {
		t.Errorf("claimed %s", got[0].ID)
	}
}

// Counts end at 10,000, and say whether there are more.
func whyCounts(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", ledger.WhyMost)
	id := s.newTask(jobs.NewTask{})
	if c := s.causes("exactly", id, reason.BehindOthers); c.Count != 10_000 || c.More || !strings.HasPrefix(c.Message, "10,000 ready tasks") {
		t.Errorf("%+v", c)
	}
	s.enqueue("work", 1)
	if c := s.causes("one more", id, reason.BehindOthers); c.Count != 10_000 || !c.More || !strings.HasPrefix(c.Message, "more than 10,000 ready tasks") {
		t.Errorf("%+v", c)
	}
}

// All that holds up a task is there, in the order in which it has to be removed.
func whySeveral(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.perKey(jobs.KeyLimits{MaxRunning: 1}, "")
	s.limit("work", 1)
	s.keyed("k")
	s.limitedClaim("work", 1)
	s.keyed("x")
	id := s.keyed("k")[0]
	here := why.Here{Workers: 1}
	must(t, b.Store.PausePool(s.ctx(), "work", "bob", new(true)))
	s.causesAt("all", id, here, reason.PoolPaused, reason.WaitsForKey, reason.MaxRunning, reason.WorkersBusy, reason.BehindOthers)
	must(t, b.Store.PausePool(s.ctx(), "work", "bob", nil))
	s.causesAt("resumed", id, here, reason.WaitsForKey, reason.MaxRunning, reason.WorkersBusy, reason.BehindOthers)
	must(t, b.Store.LimitPool(s.ctx(), "work", "bob", &wire.PoolLimits{MaxRunning: new(9)}))
	s.causesAt("more may run", id, why.Here{Workers: 9}, reason.WaitsForKey, reason.BehindOthers)
}

// All statements see one moment: a task that moves meanwhile is found, in one state or the other.
func whyOneMoment(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.limit("work", 1)
	stop, done := make(chan struct{}), make(chan error, 1)
	waits := s.newTask(jobs.NewTask{Priority: -1})
	s.enqueue("work", 200)
	go func() {
		defer close(stop)
		for range 200 {
			c := s.claiming("work", 1)
			share(&c, func(s *ledger.Share) { s.Limited = true })
			got, err := tasksOf(s.Store.Claim(s.ctx(), c))
			if err != nil || len(got.Tasks) != 1 {
				done <- fmt.Errorf("claimed %d, %w", len(got.Tasks), err)
				return
			}
			if _, err := s.Store.Finish(s.ctx(), s.session, []ledger.Result{result(got.Tasks[0], ledger.Ended, jobs.StateSucceeded)}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for {
		select {
		case <-stop:
			must(t, <-done)
			return
		default:
		}
		f, err := b.SQL().Sides().API.Why(s.ctx(), waits)
		must(t, err)
		if f.Running.N != len(f.Running.Tasks) || f.Running.N > 1 || f.Running.N+f.Ahead.N+f.Pace.Ends != 200 {
			t.Fatalf("%d run, of which %d are listed, %d are ready and %d have ended, of 200", f.Running.N, len(f.Running.Tasks), f.Ahead.N, f.Pace.Ends)
		}
	}
}
