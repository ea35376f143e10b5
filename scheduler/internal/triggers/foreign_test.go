package triggers

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// crowded is a store where many jobs are overdue, the foreign ones longest.
type crowded struct {
	*replicatest.Picky
	rows    []ledger.Upcoming
	decided []string
}

func (c *crowded) Overdue(_ context.Context, _ time.Time, limit int) ([]ledger.Upcoming, error) {
	return c.rows[:min(limit, len(c.rows))], nil
}

func (c *crowded) Decide(_ context.Context, d ledger.Decide) (ledger.Decided, error) {
	c.decided = append(c.decided, d.Jobs...)
	return ledger.Decided{}, nil
}

// However many jobs another replica governs and does not decide: the overdue jobs behind them are decided.
func TestForeignJobsDoNotHideOthers(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	st := &crowded{Picky: replicatest.NewPicky(nil)}
	set := jobs.Set{Jobs: map[string]jobs.Job{}}
	foreign := []string{}
	for i := range 2 * decideBatch {
		name := fmt.Sprintf("foreign-%d", i)
		foreign = append(foreign, name)
		set.Jobs[name] = jobs.Job{Handler: replicatest.Blocked{}}
		st.rows = append(st.rows, ledger.Upcoming{Job: name, NextAt: at})
	}
	set.Jobs["mine"] = jobs.Job{Handler: replicatest.Blocked{}}
	st.rows = append(st.rows, ledger.Upcoming{Job: "mine", NextAt: at.Add(time.Second)})
	s, err := newOn(st, nil, set, Options{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	s.assume(&membership.Session{ID: "session", Trust: boottime.Now().Add(time.Minute)})
	s.members.Clock().Observe(boottime.Now(), at.Add(time.Minute))
	s.triggers.foreign.set(foreign)
	s.triggers.overdue(t.Context())
	if !slices.Equal(st.decided, []string{"mine"}) {
		t.Errorf("decided: %v", st.decided)
	}
}

// renewed is a store whose jobs are all governed by a newer configuration.
type renewed struct{ *memstore.Store }

func (renewed) Decide(_ context.Context, d ledger.Decide) (ledger.Decided, error) {
	var states []ledger.JobState
	for _, name := range d.Jobs {
		states = append(states, ledger.JobState{Name: name, Hash: "newer"})
	}
	return ledger.Decided{Decisions: d.Decide(time.Now(), states)}, nil
}

// Of several jobs that one decision finds to be another replica's each one is left to it, and logged once.
func TestEveryForeignJobIsLeftAlone(t *testing.T) {
	names, set := []string{"a", "b", "c"}, jobs.Set{Jobs: map[string]jobs.Job{}}
	var want []string
	for _, name := range names {
		set.Jobs[name] = jobs.Job{Handler: replicatest.Blocked{}}
		want = append(want, "the job differs from another replica's newer configuration, and is left to that replica; give it the newer file job="+name)
	}
	s, err := newOn(renewed{&memstore.Store{Database: memstore.New()}}, nil, set, Options{ID: "r"})
	if err != nil {
		t.Fatal(err)
	}
	log := &replicatest.Warnings{}
	s.triggers.log = slog.New(log)
	s.assume(&membership.Session{ID: "session", Trust: boottime.Now().Add(time.Minute)})
	for range 2 {
		s.triggers.decide(t.Context(), names)
	}
	if diff := cmp.Diff(want, log.Take()); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
	for _, name := range names {
		if !s.triggers.foreign.has(name) {
			t.Errorf("%s is not noted", name)
		}
	}
}

// An answer to a question from before the governing configuration was read changes nothing after it.
func TestForeignIsForgottenInOrder(t *testing.T) {
	var f foreign
	asked := f.asked()
	f.set(nil)
	if f.add(asked, "job"); f.has("job") {
		t.Error("an answer from before counts")
	}
	if f.add(f.asked(), "job"); !f.has("job") {
		t.Error("an answer from after does not count")
	}
	if !f.add(f.asked(), "another") || f.add(f.asked(), "another") || !f.has("job") || !f.has("another") || f.count() != 2 {
		t.Error("one more is news once, and stands beside the first")
	}
	var first foreign // before any configuration was read
	if !first.add(first.asked(), "job") || !first.has("job") {
		t.Error("the very first is no news")
	}
}
