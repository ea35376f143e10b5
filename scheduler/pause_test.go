package scheduler

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// While everything is paused nothing starts, and what runs goes on. What was due meanwhile is decided after that by the catch-up of each job, as
// after an outage; the replica stays ready, and says so.
func TestAPauseOfEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &memstore.Store{Database: memstore.New()}
		long, short := newGiven(), newGiven()
		s := runs(t, st, jobs.Set{
			Pools: map[string]jobs.Pool{"work": {Handler: short}},
			Jobs: map[string]jobs.Job{
				"long":   {Handler: long},
				"latest": {Schedule: "* * * * * *", Handler: replicatest.Nothing{}, Concurrency: jobs.Allow},
				"none":   {Schedule: "* * * * * *", Handler: replicatest.Nothing{}, Concurrency: jobs.Allow, CatchUp: jobs.CatchUp{Policy: jobs.CatchUpNone}},
			},
		}, Options{ID: "a"})
		time.Sleep(5 * time.Second)
		if _, _, err := s.RunJob(t.Context(), "long", "ann", ""); err != nil {
			t.Fatal(err)
		}
		before := long.now()
		if before.ID == "" {
			t.Fatal("nothing runs")
		}
		paused := time.Now()
		if _, err := st.PauseAll(t.Context(), ledger.Pause{By: "ann", Reason: "an upgrade"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		detail, ready := "", true
		for _, c := range s.Health() {
			if ready = ready && c.Ready; c.Name == "paused" {
				detail = c.Detail
			}
		}
		if !ready || !strings.HasSuffix(detail, ": an upgrade") {
			t.Errorf("ready %v, %q", ready, detail)
		}
		if _, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "work"}); err != nil {
			t.Fatal(err)
		}
		long.finish(nil)
		_, task, err := s.RunJob(t.Context(), "long", "ann", "")
		if err != nil || task.State != jobs.StatePending {
			t.Errorf("by hand: %v, %+v", err, task)
		}
		time.Sleep(58 * time.Second)
		if got := short.now(); got.ID != "" {
			t.Errorf("a task started: %+v", got)
		}
		if got := long.now(); got.ID != "" {
			t.Errorf("a run by hand started: %+v", got)
		}
		for at, row := range triggersOf(st) {
			if at > paused.Add(time.Second/2).UnixMicro() && row.Cause != string(jobs.CauseManual) {
				t.Errorf("decided was %+v", row)
			}
		}
		if _, err := st.ResumeAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.Wake()
		time.Sleep(2 * time.Second)
		if got := short.now(); got.ID == "" {
			t.Error("the task has not started")
		}
		if got := long.now(); got.ID != task.ID {
			t.Errorf("the run by hand has not started: %+v", got)
		}
		missed := map[string]int{}
		st.Database.Look(func(rows memstore.Rows) {
			for _, row := range rows.Triggers {
				if row.Outcome == string(jobs.Missed) {
					missed[row.Job+" "+string(row.ReasonCode)] += row.Count
				}
			}
		})
		if len(missed) != 2 || missed["latest catch_up_latest"] < 45 || missed["none catch_up_none"] < 45 {
			t.Errorf("missed were %v", missed)
		}
		for _, c := range s.Health() {
			if c.Name == "paused" {
				t.Errorf("after that it says %q", c.Detail)
			}
		}
		close(long.end)
		close(short.end)
	})
}

// A pause ends by itself.
func TestAPauseOfEverythingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &memstore.Store{Database: memstore.New()}
		h := newGiven()
		runs(t, st, jobs.Set{Pools: map[string]jobs.Pool{"work": {Handler: h}}}, Options{ID: "a"})
		time.Sleep(5 * time.Second)
		if _, err := st.PauseAll(t.Context(), ledger.Pause{Until: time.Now().Add(30 * time.Second)}); err != nil {
			t.Fatal(err)
		}
		if _, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "work"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(29 * time.Second)
		if got := h.now(); got.ID != "" {
			t.Errorf("it started: %+v", got)
		}
		time.Sleep(2500 * time.Millisecond)
		if got := h.now(); got.ID == "" {
			t.Error("it has not started")
		}
		close(h.end)
	})
}

// While everything is paused no replica takes, or queues for, the locks of tasks that wait: they are left to who can use them.
func TestAPauseOfEverythingLeavesLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newLocked(t), newKeyed(20*time.Millisecond)
		held := s.hold("a")
		s.start(2, byKey(h))
		ids := s.enqueue(of("a")...)
		time.Sleep(5 * time.Second)
		if _, err := s.st().PauseAll(t.Context(), ledger.Pause{By: "ann"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		s.release(held...)
		for i := range 1000 {
			got, err := s.outside.TryAcquire(t.Context(), locks.Request{Key: "a"})
			if err == nil {
				err = got[0].Err
			}
			if err != nil {
				t.Fatalf("after %d tries: %v", i, err)
			}
			s.release(got[0].Lease)
			time.Sleep(7 * time.Millisecond)
		}
		if _, err := s.st().ResumeAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.ended(5*time.Second, ids...)
		s.stop()
	})
}
