package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// pauseCases are about the pause of everything.
var pauseCases = []Case{
	{"Pause/Holds", pauseHolds},
	{"Pause/Ends", pauseEnds},
	{"Pause/Replaced", pauseReplaced},
}

// mayWork reports what may start: due times are decided, tasks are claimed, and Ready knows of them.
func (s *scene) mayWork(n int) (decides, claims, ready bool) {
	s.t.Helper()
	got, err := s.Store.Decide(s.ctx(), s.deciding(func(states []ledger.JobState) []ledger.Decision {
		if len(states) == 0 {
			return nil
		}
		return []ledger.Decision{run("a", due(n), false)}
	}))
	must(s.t, err)
	decides = len(got.Decisions) == 1
	is, err := s.Store.Ready(s.ctx(), asIs)
	must(s.t, err)
	claimed, err := s.Store.Claim(s.ctx(), s.claiming("work", 1))
	must(s.t, err)
	if claims = len(claimed.Tasks) == 1; claims == claimed.Paused || got.Paused.Is() == decides || s.Store.SeenPause() != got.Paused {
		s.t.Errorf("claimed %d, paused %v; decided %d, paused %+v; seen %+v", len(claimed.Tasks), claimed.Paused, len(got.Decisions), got.Paused, s.Store.SeenPause())
	}
	return decides, claims, len(is.Pools) > 0
}

// While everything is paused nothing is decided that a schedule asks for, and no task becomes running; what runs goes on, and what users
// add waits.
func pauseHolds(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 3)
	running := s.claim("work", 1)
	if decides, claims, ready := s.mayWork(1); !decides || !claims || !ready {
		t.Errorf("before: decides %v, claims %v, ready %v", decides, claims, ready)
	}
	set, err := s.Store.PauseAll(s.ctx(), ledger.Pause{By: "ann", Reason: "an upgrade \"of\" it"})
	if err != nil || set.By != "ann" || set.Since.IsZero() || time.Since(set.Since).Abs() > time.Minute {
		t.Fatalf("%+v, %v", set, err)
	}
	if decides, claims, ready := s.mayWork(2); decides || claims || ready {
		t.Errorf("paused: decides %v, claims %v, ready %v", decides, claims, ready)
	}
	if p := s.Store.SeenPause(); p.By != "ann" || p.Reason != "an upgrade \"of\" it" || !p.Since.Equal(set.Since) {
		t.Errorf("seen is %+v", p)
	}
	s.wantInt(0, "SELECT COUNT(*) FROM {triggers} WHERE at=?", due(2).UnixMicro())

	byHand := s.deciding(func(states []ledger.JobState) []ledger.Decision {
		if len(states) == 0 {
			t.Error("a decision by hand gets no states")
		}
		return []ledger.Decision{run("b", due(3), true)}
	})
	byHand.ByHand = true
	got, err := s.Store.Decide(s.ctx(), byHand)
	if err != nil || len(got.Started) > 0 || len(got.Opened) != 1 {
		t.Errorf("by hand %d started and %d are pending, %v", len(got.Started), len(got.Opened), err)
	}
	s.enqueue("work", 1)
	s.finish(ledger.Result{TaskID: running[0].ID, Token: running[0].Token, Verdict: ledger.Ended, State: jobs.StateSucceeded})

	for _, paused := range []bool{true, false} {
		if was, err := s.Store.ResumeAll(s.ctx()); err != nil || was != paused {
			t.Errorf("resumed what was paused: %v, %v; want %v", was, err, paused)
		}
	}
	if decides, claims, ready := s.mayWork(4); !decides || !claims || !ready {
		t.Errorf("resumed: decides %v, claims %v, ready %v", decides, claims, ready)
	}
	if claimed := s.claim("default", 1); len(claimed) != 1 {
		t.Errorf("what was opened by hand is not claimed: %v", claimed)
	}
}

// A pause with an end is over by the database's time, though its row is there.
func pauseEnds(t *testing.T, b *Bench) {
	s := newScene(t, b)
	s.enqueue("work", 2)
	if _, err := s.Store.PauseAll(s.ctx(), ledger.Pause{Until: time.Now().Add(-time.Minute)}); err == nil {
		t.Error("an end that has passed was taken")
	} else if wrong, is := errors.AsType[*jobs.FieldError](err); !is || wrong.Path != "until" {
		t.Errorf("an end that has passed: %v", err)
	}
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	set, err := s.Store.PauseAll(s.ctx(), ledger.Pause{Until: until})
	if err != nil || !set.Until.Equal(until) {
		t.Fatalf("%+v, %v", set, err)
	}
	if decides, claims, ready := s.mayWork(1); decides || claims || ready {
		t.Errorf("before its end: decides %v, claims %v, ready %v", decides, claims, ready)
	}
	set.Until = time.Now().Add(-time.Second).UTC()
	s.DB.Exec(t, "UPDATE {pause} SET said=? WHERE id=0", set.Text())
	if decides, claims, ready := s.mayWork(2); !decides || !claims || !ready {
		t.Errorf("after its end: decides %v, claims %v, ready %v", decides, claims, ready)
	}
	if was, err := s.Store.ResumeAll(s.ctx()); err != nil || was {
		t.Errorf("what has ended by itself was resumed: %v, %v", was, err)
	}
}

// Another pause takes the place of one, and since when everything is paused stays.
func pauseReplaced(t *testing.T, b *Bench) {
	s := newScene(t, b)
	first, err := s.Store.PauseAll(s.ctx(), ledger.Pause{By: "ann", Reason: "one", Until: time.Now().Add(time.Hour)})
	must(t, err)
	second, err := s.Store.PauseAll(s.ctx(), ledger.Pause{By: "bob"})
	if err != nil || second.By != "bob" || second.Reason != "" || !second.Until.IsZero() || !second.Since.Equal(first.Since) {
		t.Errorf("%+v after %+v, %v", second, first, err)
	}
	s.wantInt(1, "SELECT COUNT(*) FROM {pause}")
	st, is := sqlOf(b.Store)
	if !is {
		return
	}
	if p, err := st.Sides().API.Paused(s.ctx()); err != nil || p != second {
		t.Errorf("shown is %+v, %v; want %+v", p, err, second)
	}
	over, err := st.Sides().API.Overview(s.ctx(), 1)
	if err != nil || over.Paused == nil || over.Paused.By != "bob" {
		t.Errorf("the overview has %+v, %v", over.Paused, err)
	}
	s.enqueue("work", 1)
	tasks, _, err := st.Tasks(s.ctx(), wire.TaskFilter{Pool: "work"})
	must(t, err)
	if f, err := st.Sides().API.Why(s.ctx(), tasks[0].ID); err != nil || f.Pausing.By != "bob" {
		t.Errorf("why has %+v, %v", f.Pausing, err)
	}
	if was, err := s.Store.ResumeAll(s.ctx()); err != nil || !was {
		t.Errorf("resumed what was paused: %v, %v", was, err)
	}
	if p, err := st.Sides().API.Paused(s.ctx()); err != nil || p.Is() {
		t.Errorf("shown is %+v, %v", p, err)
	}
}
