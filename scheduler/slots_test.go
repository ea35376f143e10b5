package scheduler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// spans are the runs of a job, in seconds since a moment: "00 takes 25" and "30 stopped after 10".
type spans struct {
	takes time.Duration
	mu    sync.Mutex
	since time.Time
	lines []string
	most  int // at once
	now   int
}

func (s *spans) Run(ctx context.Context, task jobs.Task, _ io.Writer) error {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	began := time.Now()
	how := "takes"
	timer := time.NewTimer(s.takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		how = "is stopped after"
		time.Sleep(2 * time.Second) // it tidies up
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	s.lines = append(s.lines, fmt.Sprintf("%03.0f: of %03.0f %s %.0f", began.Sub(s.since).Seconds(), task.ScheduledAt.Sub(s.since).Seconds(), how, time.Since(began).Seconds()))
	return context.Cause(ctx)
}

// told are the runs in the order of their starts.
func (s *spans) told() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.lines)
	return slices.Clone(s.lines)
}

func (s *spans) atOnce() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// outcomes are the rows of the ledger of a job as one line each, by due time.
func outcomes(t *testing.T, st *memstore.Store, job string, since time.Time) (lines []string) {
	t.Helper()
	st.Database.Look(func(rows memstore.Rows) {
		for _, g := range rows.Triggers {
			if g.Job == job {
				at := time.UnixMicro(g.At)
				lines = append(lines, strings.TrimSpace(fmt.Sprintf("%03.0f %s %s %s", at.Sub(since).Seconds(), g.Outcome, g.Result, g.ReasonCode)))
			}
		}
	})
	slices.Sort(lines)
	return lines
}

// Due times of a job with a queue run one after the other in due order, as soon as a slot is free, on whichever of two replicas; those beyond the limit are skipped. A run
// by hand waits as they do.
func TestDueTimesQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &memstore.Store{Database: memstore.New()}
		h := &spans{takes: 24 * time.Second, since: time.Now()}
		set := jobs.Set{Jobs: map[string]jobs.Job{"j": {
			Schedule: "*/10 * * * * *", Concurrency: jobs.Queue, QueueLimit: 2, Handler: h, StartsAt: h.since.Add(5 * time.Second), EndsAt: h.since.Add(65 * time.Second),
		}}}
		s := runs(t, st, set, Options{ID: "a"})
		runs(t, st, set, Options{ID: "b"})
		time.Sleep(15 * time.Second)
		_, byHand, err := s.RunJob(t.Context(), "j", "me", "")
		if err != nil || byHand.State != jobs.StatePending || byHand.ReasonCode != reason.WaitsForSlot || !strings.Contains(byHand.Reason, "has been running on replica ") {
			t.Fatalf("by hand: %+v, %v", byHand, err)
		}
		time.Sleep(10 * time.Second) // one of 20 waits as well
		if _, _, err := s.RunJob(t.Context(), "j", "me", ""); !errors.Is(err, jobs.ErrConflict) || !strings.Contains(err.Error(), "2 runs of the job wait for a slot, as many as queue_limit allows") {
			t.Fatalf("by hand, when the queue is full: %v", err)
		}
		time.Sleep(5 * time.Minute)
		want := []string{"010: of 010 takes 24", "034: of 015 takes 24", "058: of 020 takes 24", "082: of 040 takes 24", "106: of 060 takes 24"}
		if d := cmp.Diff(want, h.told()); d != "" || h.atOnce() != 1 {
			t.Errorf("%d at once: %s", h.atOnce(), d)
		}
		rows := []string{"010 ran succeeded", "015 ran succeeded", "020 ran succeeded", "025 skipped  queue_full", "030 skipped  queue_full", "040 ran succeeded", "050 skipped  queue_full", "060 ran succeeded"}
		if d := cmp.Diff(rows, outcomes(t, st, "j", h.since)); d != "" {
			t.Error(d)
		}
	})
}

// The oldest run is cancelled for a due time, which starts when that has ended; the newest of several waits.
func TestDueTimesReplace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &memstore.Store{Database: memstore.New()}
		h := &spans{takes: 24 * time.Second, since: time.Now()}
		set := jobs.Set{Jobs: map[string]jobs.Job{"j": {
			Schedule: "*/10 * * * * *", Concurrency: jobs.Replace, Handler: h, StartsAt: h.since.Add(5 * time.Second), EndsAt: h.since.Add(35 * time.Second),
		}}}
		s := runs(t, st, set, Options{ID: "a"})
		runs(t, st, set, Options{ID: "b"})
		time.Sleep(32 * time.Second) // that of 30 waits for the end of that of 20
		_, byHand, err := s.RunJob(t.Context(), "j", "me", "")
		if err != nil || byHand.ReasonCode != reason.WaitsForSlot {
			t.Fatalf("by hand: %+v, %v", byHand, err)
		}
		time.Sleep(5 * time.Minute)
		rows := []string{"010 ran cancelled replaced", "020 ran cancelled replaced", "030 skipped cancelled replaced", "032 ran succeeded"}
		if d := cmp.Diff(rows, outcomes(t, st, "j", h.since)); d != "" {
			t.Error(d)
		}
		told := h.told()
		if len(told) != 3 || h.atOnce() != 1 || !strings.HasPrefix(told[0], "010: of 010 is stopped after 12") && !strings.HasPrefix(told[0], "010: of 010 is stopped after 13") || !strings.HasSuffix(told[2], "of 032 takes 24") {
			t.Errorf("%d at once: %q", h.atOnce(), told)
		}
		task, _, err := st.Task(t.Context(), byHand.ID)
		if err != nil || task.State != jobs.StateSucceeded || task.Reason != "" {
			t.Errorf("%+v, %v", task, err)
		}
	})
}

// A job has as many runs at once as it has slots.
func TestAJobHasSlots(t *testing.T) {
	for policy, want := range map[jobs.Concurrency][]string{
		jobs.Forbid:  {"010 ran succeeded", "020 ran succeeded", "030 skipped  slot_taken", "040 ran succeeded"},
		jobs.Queue:   {"010 ran succeeded", "020 ran succeeded", "030 ran succeeded", "040 ran succeeded"},
		jobs.Replace: {"010 ran cancelled replaced", "020 ran cancelled replaced", "030 ran succeeded", "040 ran succeeded"},
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &memstore.Store{Database: memstore.New()}
				h := &spans{takes: 25 * time.Second, since: time.Now()}
				set := jobs.Set{Jobs: map[string]jobs.Job{"j": {
					Schedule: "*/10 * * * * *", Concurrency: policy, MaxRunning: 2, Handler: h, StartsAt: h.since.Add(5 * time.Second), EndsAt: h.since.Add(45 * time.Second),
				}}}
				runs(t, st, set, Options{ID: "a"})
				runs(t, st, set, Options{ID: "b"})
				time.Sleep(5 * time.Minute)
				if d := cmp.Diff(want, outcomes(t, st, "j", h.since)); d != "" || h.atOnce() != 2 {
					t.Errorf("%d at once: %s; %q", h.atOnce(), d, h.told())
				}
			})
		})
	}
}
