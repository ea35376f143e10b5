package work

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// ownRowsOf is a store that lists the rows it is told to, and notes the tasks that are handed back.
type ownRowsOf struct {
	*memstore.Store
	rows []ledger.Own
	err  error    // of Running
	away error    // of Finish
	back []string // "id/token"

	during func() // while the rows are read
}

func (l *ownRowsOf) Running(context.Context, string) (ledger.Running, error) {
	if l.during != nil {
		l.during()
	}
	return ledger.Running{Own: l.rows}, l.err
}

func (l *ownRowsOf) Finish(_ context.Context, _ string, results []ledger.Result) ([]ledger.Finished, error) {
	for _, r := range results {
		if r.Verdict == ledger.HandBack {
			l.back = append(l.back, fmt.Sprintf("%s/%d", r.TaskID, r.Token))
		}
	}
	return make([]ledger.Finished, len(results)), l.away
}

// lists is a replica with a session of an hour, none of whose loops run, on a store that lists rows of these tasks.
func lists(t *testing.T, ids ...string) (*replica, *ownRowsOf) {
	t.Helper()
	st := &ownRowsOf{Store: &memstore.Store{Database: memstore.New()}}
	for _, id := range ids {
		st.rows = append(st.rows, ledger.Own{TaskID: id, Token: 7})
	}
	s := replicaOn(t, st, replicatest.Blocked{})
	s.assume(&membership.Session{ID: "session", Trust: boottime.Now().Add(time.Hour)})
	s.members.SetLoaded()
	return s, st
}

// known adds a task to the register in one of the states, until forget is called.
var known = map[string]func(s *replica, task jobs.Task) (forget func()){
	"it runs": func(s *replica, task jobs.Task) func() {
		a := attemptOf(task)
		s.work.register.run(a)
		return func() { s.work.register.forget(a) }
	},
	"it is about to run": func(s *replica, task jobs.Task) func() {
		s.work.register.start(claimed{task: &task})
		return func() { s.work.register.forget(&attempt{task: &task}) }
	},
	"its result waits for the store": func(s *replica, task jobs.Task) func() {
		s.work.recorder.add("session", &task, ledger.Result{TaskID: task.ID, Token: task.Token})
		return func() { s.work.register.recorded(s.work.recorder.take()[0].result.Task) }
	},
	"it waits for a worker": func(s *replica, task jobs.Task) func() {
		s.work.register.queue(claimed{task: &task, session: "session", since: time.Now()})
		return func() { s.work.register.forget(&attempt{task: s.work.register.unqueue(task.Pool, 0)[0].task}) }
	},
}

// attemptOf is an attempt of a task that can be told to stop.
func attemptOf(task jobs.Task) *attempt {
	a := &attempt{task: &task, session: "session", work: plan.Execution{Timeout: time.Hour}}
	a.begin(context.Background())
	return a
}

// A row that the register has is never handed back, however long it is listed. A row that it does not have is handed
// back after a third of the session ttl, counted from when it was first missing.
func TestARowIsHandedBackOnlyWhileItIsNotKnown(t *testing.T) {
	for how, know := range known {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, st := lists(t, "1", "2")
				third := s.work.opt.SessionTTL / 3
				unknown := orphans{}
				look := func(after time.Duration, want ...string) {
					t.Helper()
					time.Sleep(after)
					s.work.ownRows(t.Context(), unknown)
					if !slices.Equal(st.back, want) {
						t.Fatalf("%v were handed back, want %v", st.back, want)
					}
					st.back = nil
				}
				forget := know(s, jobs.Task{ID: "1", Token: 7, Pool: "p"})
				look(0)
				look(third - time.Nanosecond)
				look(time.Nanosecond, "2/7")
				look(third, "2/7") // as it is still listed
				forget()
				st.rows = st.rows[:1]
				look(time.Second)
				look(third - time.Nanosecond)
				know(s, jobs.Task{ID: "1", Token: 7, Pool: "p"})
				look(time.Nanosecond)
			})
			synctest.Test(t, func(t *testing.T) {
				s, st := lists(t, "1")
				third := s.work.opt.SessionTTL / 3
				unknown := orphans{}
				s.work.ownRows(t.Context(), unknown)
				forget := know(s, jobs.Task{ID: "1", Token: 7, Pool: "p"})
				time.Sleep(third)
				s.work.ownRows(t.Context(), unknown)
				forget()
				s.work.ownRows(t.Context(), unknown)
				if len(st.back) > 0 {
					t.Errorf("%v was handed back as soon as it was forgotten", st.back)
				}
				time.Sleep(third)
				s.work.ownRows(t.Context(), unknown)
				if len(st.back) != 1 {
					t.Errorf("%v was handed back", st.back)
				}
			})
		})
	}
}

// The time starts again where a row was not listed in between, or has another token; and it lasts while a
// transaction is under way that began before.
func TestHowLongARowIsNotKnown(t *testing.T) {
	for what, c := range map[string]struct {
		meanwhile func(s *replica, st *ownRowsOf, look func())
		back      bool
	}{
		"nothing happens": {func(*replica, *ownRowsOf, func()) {}, true},
		"it is not listed in between": {func(_ *replica, st *ownRowsOf, look func()) {
			rows := st.rows
			st.rows = nil
			look()
			st.rows = rows
		}, false},
		"it is listed with another token": {func(_ *replica, st *ownRowsOf, _ func()) { st.rows[0].Token++ }, false},
		"the store did not answer": {func(_ *replica, st *ownRowsOf, look func()) {
			st.err = jobs.ErrUnavailable
			look()
			st.err = nil
		}, true},
		"a transaction began after it was seen": {func(s *replica, _ *ownRowsOf, _ func()) {
			time.Sleep(time.Nanosecond)
			s.work.register.claim()
		}, true},
		"one began before, and goes on": {func(s *replica, _ *ownRowsOf, _ func()) { s.work.register.claim() }, false},
		"one began before, and has ended": {func(s *replica, _ *ownRowsOf, _ func()) {
			s.work.register.claim()()
		}, true},
		"two began before, and one goes on": {func(s *replica, _ *ownRowsOf, _ func()) {
			first := s.work.register.claim()
			s.work.register.claim()
			first()
		}, false},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, st := lists(t, "1")
				unknown := orphans{}
				look := func() { s.work.ownRows(t.Context(), unknown) }
				look()
				c.meanwhile(s, st, look)
				time.Sleep(s.work.opt.SessionTTL / 3)
				st.back = nil
				look()
				if got := len(st.back) > 0; got != c.back {
					t.Errorf("handed back: %v, want %v", got, c.back)
				}
			})
		})
	}
}

// A transaction that begins while the rows are read may be the one that claimed a row: its end is waited for.
func TestARowWaitsForATransactionThatBeganWithTheRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := lists(t, "1")
		unknown := orphans{}
		var settled func()
		st.during = func() {
			time.Sleep(time.Second)
			settled = s.work.register.claim()
			time.Sleep(time.Second)
		}
		s.work.ownRows(t.Context(), unknown)
		st.during = nil
		time.Sleep(s.work.opt.SessionTTL)
		s.work.ownRows(t.Context(), unknown)
		if len(st.back) > 0 {
			t.Errorf("%v was handed back while the transaction was under way", st.back)
		}
		settled()
		s.work.ownRows(t.Context(), unknown)
		if len(st.back) != 1 {
			t.Errorf("%v was handed back after its end", st.back)
		}
	})
}

// A row that is to be cancelled stops the attempt of its token, and no other.
func TestACancelledRowStopsItsAttempt(t *testing.T) {
	for _, c := range []struct {
		cancel string
		token  int64
		want   stopped
	}{{"by me", 7, stopCancelled}, {"", 7, notStopped}, {"by me", 8, notStopped}} {
		s, st := lists(t, "1")
		st.rows[0].Cancel, st.rows[0].Token = c.cancel, c.token
		a := attemptOf(jobs.Task{ID: "1", Token: 7, Pool: "p"})
		s.work.register.run(a)
		s.work.ownRows(t.Context(), orphans{})
		if why, reason := a.stoppedBy(); why != c.want || why != notStopped && reason != c.cancel {
			t.Errorf("%+v: stopped %v for %q", c, why, reason)
		}
	}
}

// A store that does not list rows, or does not take back tasks, is away.
func TestAStoreThatDoesNotListRowsIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := lists(t, "1")
		unknown := orphans{}
		s.work.ownRows(t.Context(), unknown)
		if !s.storeAnswers() {
			t.Fatal("away, though it answered")
		}
		st.away = fmt.Errorf("%w: cut off by the test", jobs.ErrUnavailable)
		time.Sleep(s.work.opt.SessionTTL / 3)
		s.work.ownRows(t.Context(), unknown)
		if s.storeAnswers() {
			t.Error("ready, though nothing was taken back")
		}
		s.members.StoreFailed(nil)
		st.err = st.away
		s.work.ownRows(t.Context(), unknown)
		if s.storeAnswers() {
			t.Error("ready, though nothing was listed")
		}
	})
}

// A replica that leaves hands back the rows that it does not know, at once, and leaves alone those that run or wait to be
// recorded.
func TestAReplicaThatLeavesReleasesUnknownRows(t *testing.T) {
	s, st := lists(t, "runs", "about to", "result", "neither")
	for id, how := range map[string]string{"runs": "it runs", "about to": "it is about to run", "result": "its result waits for the store"} {
		known[how](s, jobs.Task{ID: id, Token: 7, Pool: "p"})
	}
	s.work.Leave(t.Context())
	if !slices.Equal(st.back, []string{"neither/7"}) {
		t.Errorf("handed back %v", st.back)
	}
	st.err, st.back = jobs.ErrUnavailable, nil
	s.work.Leave(t.Context())
	if len(st.back) > 0 {
		t.Errorf("handed back %v of a store that is away", st.back)
	}
}
