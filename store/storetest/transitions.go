package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// life is a task, and its owner's data about it.
type life struct {
	owner, other *scene
	id           string
	token        int64
	until        time.Time // its attempts may run until then
}

// state is where the task is, and which attempt is its last: "running 1", "lost 1", "failed 2 late".
func (l *life) state() string {
	for _, from := range []string{"{tasks}", "{done}"} {
		state := l.owner.DB.Text(l.owner.t, "SELECT state FROM "+from+" WHERE id=?", l.id)
		if state == "" {
			continue
		}
		if name, open := map[string]string{"0": "ready", "1": "waits", "2": "running"}[state]; open {
			state = name
		}
		state += fmt.Sprintf(" %d", l.owner.DB.Int(l.owner.t, "SELECT attempt FROM "+from+" WHERE id=?", l.id))
		if from == "{done}" && l.owner.DB.Int(l.owner.t, "SELECT late FROM {done} WHERE id=?", l.id) == 1 {
			state += " late"
		}
		return state
	}
	return "none"
}

func (l *life) claim(s *scene, pool string) {
	c := s.claiming(pool, 1)
	c.Admit = func(time.Time, ledger.Candidate) (time.Time, bool) { return l.until, true }
	got, err := tasksOf(s.Store.Claim(s.ctx(), c))
	must(s.t, err)
	if len(got.Tasks) == 1 {
		l.token = got.Tasks[0].Token
	}
}

func (l *life) result(v ledger.Verdict, state jobs.State) {
	_, err := l.owner.Store.Finish(l.owner.ctx(), l.owner.session, []ledger.Result{{TaskID: l.id, Token: l.token, Verdict: v, State: state}})
	must(l.owner.t, err)
}

// die reaps the tasks of the owner, whose session is dead from then on.
func (l *life) die() {
	l.owner.die()
	l.other.reap()
}

func (l *life) cancel() { _, _ = l.owner.Store.Cancel(l.owner.ctx(), l.id, "alice") } // a conflict changes nothing

// operations are all that write the state of a task that is there.
var operations = []struct {
	name string
	do   func(l *life, pool string)
}{
	{"promote", func(l *life, _ string) {
		_, _, err := l.other.Store.Ready(l.other.ctx(), asIs)
		must(l.other.t, err)
	}},
	{"claim", func(l *life, pool string) { token := l.token; l.claim(l.other, pool); l.token = token }},
	{"succeeded", func(l *life, _ string) { l.result(ledger.Ended, jobs.StateSucceeded) }},
	{"failed", func(l *life, _ string) { l.result(ledger.Ended, jobs.StateFailed) }},
	{"cancelled", func(l *life, _ string) { l.result(ledger.Ended, jobs.StateCancelled) }},
	{"again", func(l *life, _ string) { l.result(ledger.Again, jobs.StateFailed) }},
	{"hand back", func(l *life, _ string) { l.result(ledger.HandBack, "") }},
	{"died", func(l *life, _ string) { l.result(ledger.Died, jobs.StateLost) }},
	{"reap", func(l *life, _ string) { l.die() }},
	{"cancel", func(l *life, _ string) { l.cancel() }},
	{"retry", func(l *life, _ string) { _, _ = l.other.Store.Retry(l.other.ctx(), l.id, "", true) }}, // makes another task, if any
}

// transitions walks from each state by each operation. What is not named leaves the task as it is.
func transitions(t *testing.T, b *Bench) {
	s := newScene(t, b)
	running := func(l *life, pool string) { l.claim(l.owner, pool) }
	after := func(ways ...func(l *life, pool string)) func(l *life, pool string) {
		return func(l *life, pool string) {
			running(l, pool)
			for _, way := range ways {
				way(l, pool)
			}
		}
	}
	ended := func(state jobs.State) func(l *life, pool string) {
		return func(l *life, _ string) { l.result(ledger.Ended, state) }
	}
	long := func(l *life, pool string) {
		l.until = time.Now().Add(time.Hour)
		running(l, pool)
	}
	asked := func(l *life, _ string) { l.cancel() }
	stale := func(l *life, _ string) { l.token-- }
	died := func(l *life, _ string) { l.die() }
	foreign := func(l *life, _ string) { l.owner = s.second("another of " + l.id) }
	const late = "succeeded: succeeded 1 late, failed: failed 1 late, cancelled: cancelled 1 late, again: failed 1 late"
	for _, c := range []struct {
		from, pool string
		reach      func(l *life, pool string)
		want       string // by operation
	}{
		{"waits 0", "work", func(l *life, _ string) { s.DB.Exec(t, "UPDATE {tasks} SET state=1 WHERE id=?", l.id) }, "promote: ready 0, cancel: cancelled 0"},
		{"ready 0", "work", func(*life, string) {}, "claim: running 1, cancel: cancelled 0"},
		{"running 1", "work", running, "succeeded: succeeded 1, failed: failed 1, cancelled: cancelled 1, again: waits 1, hand back: ready 0, died: lost 1, reap: lost 1"},
		{"running 1", "again", running, "succeeded: succeeded 1, failed: failed 1, cancelled: cancelled 1, again: waits 1, hand back: ready 0, died: ready 1, reap: ready 1"},
		{"running 1", "again", long, "succeeded: succeeded 1, failed: failed 1, cancelled: cancelled 1, again: waits 1, hand back: ready 0, died: ready 1, reap: waits 1"},
		{"running 1", "again", after(asked), "succeeded: succeeded 1, failed: failed 1, cancelled: cancelled 1, again: cancelled 1, hand back: cancelled 1, died: lost 1, reap: lost 1"},
		{"running 1", "work", after(stale), "reap: lost 1"},
		{"running 1", "work", after(foreign), ""},
		{"succeeded 1", "work", after(ended(jobs.StateSucceeded)), ""},
		{"failed 1", "work", after(ended(jobs.StateFailed)), ""},
		{"cancelled 1", "work", after(ended(jobs.StateCancelled)), ""},
		{"lost 1", "work", after(died), late},
		{"lost 1", "work", after(died, stale), ""},
		{"lost 1", "work", after(func(l *life, _ string) { l.result(ledger.Died, jobs.StateLost) }), late},
		{"failed 1 late", "work", after(died, ended(jobs.StateFailed)), ""},
		{"succeeded 1 late", "work", after(died, ended(jobs.StateSucceeded)), ""},
	} {
		want := map[string]string{}
		for _, part := range strings.Split(c.want, ", ") {
			operation, to, _ := strings.Cut(part, ": ")
			want[operation] = to
		}
		for _, op := range operations {
			l := &life{owner: s.second("owner of " + newID()), other: s}
			l.id = s.enqueue(c.pool, 1)[0]
			c.reach(l, c.pool)
			if got := l.state(); got != c.from {
				t.Fatalf("it is %s, and was to be %s", got, c.from)
			}
			op.do(l, c.pool)
			to, moves := want[op.name]
			if !moves {
				to = c.from
			}
			if got := l.state(); got != to {
				t.Errorf("%s in pool %s, %s: it is %s, want %s", c.from, c.pool, op.name, got, to)
			}
			s.DB.Exec(t, "DELETE FROM {tasks}")
		}
	}
}
