package storetest

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// ownedTask is a task, and its owner's data about it.
type ownedTask struct {
	owner, other *scene
	nth          int // of the tasks of a test
	id           string
	token        int64
	until        time.Time // its attempts may run until then
	made         string    // the task that an operation has made of it; "": none
}

// state is where a task is, and which attempt is its last: "running 1", "lost 1", "failed 2 late".
func (s *scene) state(id string) string {
	for _, from := range []string{"{tasks}", "{done}"} {
		state := s.DB.Text(s.t, "SELECT state FROM "+from+" WHERE id=?", id)
		if state == "" {
			continue
		}
		if name, open := map[string]string{"0": "ready", "1": "waits", "2": "running"}[state]; open {
			state = name
		}
		state += fmt.Sprintf(" %d", s.DB.Int(s.t, "SELECT attempt FROM "+from+" WHERE id=?", id))
		if from == "{done}" && s.DB.Int(s.t, "SELECT late FROM {done} WHERE id=?", id) == 1 {
			state += " late"
		}
		return state
	}
	return "none"
}

func (l *ownedTask) claim(s *scene, pool string) {
	c := s.claiming(pool, 1)
	c.Admit = func(time.Time, ledger.Candidate) (time.Time, bool) { return l.until, true }
	got, err := tasksOf(s.Store.Claim(s.ctx(), c))
	must(s.t, err)
	if len(got.Tasks) == 1 {
		l.token = got.Tasks[0].Token
	}
}

func (l *ownedTask) result(v ledger.Verdict, state jobs.State) {
	_, err := l.owner.Store.Finish(l.owner.ctx(), l.owner.session, []ledger.Result{{TaskID: l.id, Token: l.token, Verdict: v, State: state}})
	must(l.owner.t, err)
}

// die reaps the tasks of the owner, whose session is dead from then on.
func (l *ownedTask) die() {
	l.owner.die()
	l.other.reap()
}

func (l *ownedTask) cancel() { _, _ = l.owner.Store.Cancel(l.owner.ctx(), l.id, "alice") } // a conflict changes nothing

// retire sweeps while no configuration has job a. Nothing is old.
func (l *ownedTask) retire() {
	l.other.DB.Exec(l.other.t, "UPDATE {jobs} SET hash='' WHERE name='a'")
	l.other.sweep(jobs.Retention{}, 100)
	l.other.DB.Exec(l.other.t, "UPDATE {jobs} SET hash=? WHERE name='a'", hash)
}

// retry may make another task. A conflict changes nothing.
func (l *ownedTask) retry() {
	task, err := l.other.Store.Retry(l.other.ctx(), l.id, "", true)
	if err == nil {
		l.made = task.ID
	}
}

// decide opens a task of job a, which is due at runAt and may become running if it is admitted; its attempts may run until l.until.
func (l *ownedTask) decide(runAt time.Time, admitted bool) {
	d := run("a", due(l.nth), false)
	d.Triggers[0].Task.RunAt = runAt
	if l.id = d.Triggers[0].Task.ID; admitted {
		admit(l.id, l.until)
	}
	got, err := l.owner.decide(d)
	must(l.owner.t, err)
	if len(got.Started) == 1 {
		l.token = got.Started[0].Token
	}
}

// operations are all that write the state of a task that is there. What makes a task is in births, but for retry, which makes one
// of another.
var operations = []struct {
	name string
	do   func(l *ownedTask, pool string)
}{
	{"promote", func(l *ownedTask, _ string) {
		_, err := l.other.Store.Ready(l.other.ctx(), asIs)
		must(l.other.t, err)
	}},
	{"claim", func(l *ownedTask, pool string) { token := l.token; l.claim(l.other, pool); l.token = token }},
	{"succeeded", func(l *ownedTask, _ string) { l.result(ledger.Ended, jobs.StateSucceeded) }},
	{"failed", func(l *ownedTask, _ string) { l.result(ledger.Ended, jobs.StateFailed) }},
	{"cancelled", func(l *ownedTask, _ string) { l.result(ledger.Ended, jobs.StateCancelled) }},
	{"again", func(l *ownedTask, _ string) { l.result(ledger.Again, jobs.StateFailed) }},
	{"hand back", func(l *ownedTask, _ string) { l.result(ledger.HandBack, "") }},
	{"died", func(l *ownedTask, _ string) { l.result(ledger.Died, jobs.StateLost) }},
	{"reap", func(l *ownedTask, _ string) { l.die() }},
	{"cancel", func(l *ownedTask, _ string) { l.cancel() }},
	{"retire", func(l *ownedTask, _ string) { l.retire() }},
	{"retry", func(l *ownedTask, _ string) { l.retry() }},
}

// jobsPool is the pool of the tasks of jobs; tasks in the other pools have no job.
const jobsPool = "default"

// transitions walks from each state by each operation. What is not named leaves the task as it is, and makes no other one.
func transitions(t *testing.T, b *Bench) {
	s := newScene(t, b)
	running := func(l *ownedTask, pool string) {
		if pool == jobsPool {
			l.decide(time.Time{}, true)
		} else {
			l.claim(l.owner, pool)
		}
	}
	after := func(ways ...func(l *ownedTask, pool string)) func(l *ownedTask, pool string) {
		return func(l *ownedTask, pool string) {
			running(l, pool)
			for _, way := range ways {
				way(l, pool)
			}
		}
	}
	ended := func(state jobs.State) func(l *ownedTask, pool string) {
		return func(l *ownedTask, _ string) { l.result(ledger.Ended, state) }
	}
	long := func(l *ownedTask, pool string) {
		l.until = time.Now().Add(time.Hour)
		running(l, pool)
	}
	ready := func(l *ownedTask, pool string) {
		if pool == jobsPool {
			l.decide(time.Time{}, false)
		}
	}
	waits := func(l *ownedTask, pool string) {
		ready(l, pool)
		s.DB.Exec(t, "UPDATE {tasks} SET state=1 WHERE id=?", l.id)
	}
	later := func(l *ownedTask, pool string) {
		waits(l, pool)
		s.DB.Exec(t, "UPDATE {tasks} SET run_at=? WHERE id=?", due(1_000_000).UnixMicro(), l.id)
	}
	asked := func(l *ownedTask, _ string) { l.cancel() }
	again := func(l *ownedTask, _ string) { l.result(ledger.Again, jobs.StateFailed) }
	stale := func(l *ownedTask, _ string) { l.token-- }
	died := func(l *ownedTask, _ string) { l.die() }
	foreign := func(l *ownedTask, _ string) { l.owner = s.second("another of " + l.id) }
	const (
		late   = "succeeded: succeeded 1 late, failed: failed 1 late, cancelled: cancelled 1 late, again: failed 1 late"
		result = "succeeded: succeeded 1, failed: failed 1, cancelled: cancelled 1, again: waits 1, hand back: ready 0"
	)
	nth := 0
	for _, c := range []struct {
		from, pool string
		reach      func(l *ownedTask, pool string)
		want       string // by operation; with + and the task that it made
	}{
		{"waits 0", "work", waits, "promote: ready 0, cancel: cancelled 0"},
		{"waits 0", "work", later, "cancel: cancelled 0"},
		{"waits 0", jobsPool, waits, "promote: ready 0, cancel: cancelled 0, retire: cancelled 0"},
		{"waits 1", "work", after(again), "promote: ready 1, cancel: cancelled 1"},
		{"waits 1", jobsPool, after(again), "promote: ready 1, cancel: cancelled 1, retire: cancelled 1"},
		{"ready 0", "work", ready, "claim: running 1, cancel: cancelled 0"},
		{"ready 0", jobsPool, ready, "claim: running 1, cancel: cancelled 0, retire: cancelled 0"},
		{"ready 1", "again", after(died), "claim: running 2, cancel: cancelled 1"},
		{"running 1", "work", running, result + ", died: lost 1, reap: lost 1"},
		{"running 1", jobsPool, running, result + ", died: lost 1, reap: lost 1"},
		{"running 1", "again", running, result + ", died: ready 1, reap: ready 1"},
		{"running 1", "again", long, result + ", died: ready 1, reap: waits 1"},
		{"running 1", "again", after(asked), "succeeded: succeeded 1, failed: failed 1, cancelled: cancelled 1, again: cancelled 1, hand back: cancelled 1, died: lost 1, reap: lost 1"},
		{"running 1", "work", after(stale), "reap: lost 1"},
		{"running 1", "work", after(foreign), ""},
		{"succeeded 1", "work", after(ended(jobs.StateSucceeded)), "retry: succeeded 1 + ready 0"},
		{"succeeded 1", jobsPool, after(ended(jobs.StateSucceeded)), ""},
		{"failed 1", "work", after(ended(jobs.StateFailed)), "retry: failed 1 + ready 0"},
		{"cancelled 1", "work", after(ended(jobs.StateCancelled)), "retry: cancelled 1 + ready 0"},
		{"cancelled 0", "work", asked, "retry: cancelled 0 + ready 0"},
		{"lost 1", "work", after(died), late + ", retry: lost 1 + ready 0"},
		{"lost 1", jobsPool, after(died), late},
		{"lost 1", "work", after(died, stale), "retry: lost 1 + ready 0"},
		{"lost 1", "work", after(func(l *ownedTask, _ string) { l.result(ledger.Died, jobs.StateLost) }), late + ", retry: lost 1 + ready 0"},
		{"failed 1 late", "work", after(died, ended(jobs.StateFailed)), "retry: failed 1 late + ready 0"},
		{"succeeded 1 late", "work", after(died, ended(jobs.StateSucceeded)), "retry: succeeded 1 late + ready 0"},
	} {
		want := map[string]string{}
		for _, part := range strings.Split(c.want, ", ") {
			operation, to, _ := strings.Cut(part, ": ")
			want[operation] = to
		}
		for _, op := range operations {
			nth++
			l := &ownedTask{owner: s.second("owner of " + newID()), other: s, nth: nth}
			if c.pool != jobsPool {
				l.id = s.enqueue(c.pool, 1)[0]
			}
			c.reach(l, c.pool)
			if got := s.state(l.id); got != c.from {
				t.Fatalf("it is %s, and was to be %s", got, c.from)
			}
			op.do(l, c.pool)
			got := s.state(l.id)
			if l.made != "" {
				got += " + " + s.state(l.made)
			}
			if to := cmp.Or(want[op.name], c.from); got != to {
				t.Errorf("%s in pool %s, %s: it is %s, want %s", c.from, c.pool, op.name, got, to)
			}
			s.wantInt(0, "SELECT COUNT(*) FROM {tasks} WHERE id NOT IN (?, ?)", l.id, l.made)
			s.DB.Exec(t, "DELETE FROM {tasks}")
		}
	}
}

// births are the states in which tasks begin; one that Retry makes is in transitions.
func births(t *testing.T, b *Bench) {
	s := newScene(t, b)
	enqueue := func(l *ownedTask, runAt time.Time) {
		made, err := s.Store.Enqueue(s.ctx(), jobs.NewTask{Pool: "work", RunAt: runAt})
		must(t, err)
		l.id = made[0].ID
	}
	var now time.Time // none is given
	for i, c := range []struct {
		by, want string
		birth    func(l *ownedTask)
	}{
		{"Enqueue", "ready 0", func(l *ownedTask) { enqueue(l, now) }},
		{"Enqueue for a time that has passed", "ready 0", func(l *ownedTask) { enqueue(l, micro(1)) }},
		{"Enqueue for later", "waits 0", func(l *ownedTask) { enqueue(l, due(1_000_000)) }},
		{"Decide", "ready 0", func(l *ownedTask) { l.decide(now, false) }},
		{"Decide for later", "waits 0", func(l *ownedTask) { l.decide(due(1_000_000), false) }},
		{"Decide with room", "running 1", func(l *ownedTask) { l.decide(now, true) }},
		{"Decide with room for later", "waits 0", func(l *ownedTask) { l.decide(due(1_000_000), true) }},
	} {
		l := &ownedTask{owner: s, other: s, nth: i + 1}
		c.birth(l)
		s.want("task by "+c.by, s.state(l.id), c.want)
		s.wantInt(int64(i)+1, "SELECT COUNT(*) FROM {tasks}")
	}
	s.wantInt(0, "SELECT COUNT(*) FROM {done}")
}
