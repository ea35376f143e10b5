package scheduler

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
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// crowded is a store where many jobs are overdue, the foreign ones longest.
type crowded struct {
	*picky
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
	st := &crowded{picky: newPicky(nil)}
	set := jobs.Set{Jobs: map[string]jobs.Job{}}
	foreign := []string{}
	for i := range 2 * decideBatch {
		name := fmt.Sprintf("foreign-%d", i)
		foreign = append(foreign, name)
		set.Jobs[name] = jobs.Job{Handler: blocked{}}
		st.rows = append(st.rows, ledger.Upcoming{Job: name, NextAt: at})
	}
	set.Jobs["mine"] = jobs.Job{Handler: blocked{}}
	st.rows = append(st.rows, ledger.Upcoming{Job: "mine", NextAt: at.Add(time.Second)})
	s, err := newOn(st, nil, set, Options{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	s.assume(&membership.Session{ID: "session", Trust: boottime.Now().Add(time.Minute)})
	s.work.clock.Observe(boottime.Now(), at.Add(time.Minute))
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
		set.Jobs[name] = jobs.Job{Handler: blocked{}}
		want = append(want, "another replica's newer configuration governs this job, and has it otherwise; it is left to that replica job="+name)
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

	feeder := newFeeder(nil, &plan.Pool{})
	theirs := []jobs.Task{{Job: "job"}}
	_, before := feeder.scope()
	feeder.unskip()
	if again := feeder.skip(before, theirs); !again {
		t.Error("nobody asks again after an answer from before")
	}
	scope, now := feeder.scope()
	if len(scope.SkipJobs) > 0 {
		t.Errorf("an answer from before keeps %v from being claimed", scope.SkipJobs)
	}
	feeder.back(before, true)
	if wake, work := feeder.eager(); !wake || !work {
		t.Error("an answer from before keeps the pool from being looked at")
	}
	feeder.skip(now, theirs)
	if scope, _ := feeder.scope(); !slices.Equal(scope.SkipJobs, []string{"job"}) {
		t.Errorf("skipped: %v", scope.SkipJobs)
	}
}
