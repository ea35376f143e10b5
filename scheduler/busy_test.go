package scheduler

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

func contendedBy(t *testing.T, st *replicatest.Contended, h jobs.Handler, workers int, names ...string) *Scheduler {
	t.Helper()
	set := jobs.Set{Jobs: map[string]jobs.Job{}, Pools: map[string]jobs.Pool{naming.DefaultPool: {Workers: workers}}}
	for _, name := range names {
		set.Jobs[name] = jobs.Job{Schedule: "* * * * * *", Handler: h, Payload: name}
	}
	s, err := newOn(st, nil, set, Options{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// runFor runs a replica for some time.
func runFor(t *testing.T, s *Scheduler, d time.Duration) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), d)
	defer stop()
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// Busy jobs are decided right after those that are free, and not left to the loops that look for overdue ones.
func TestWhatIsBusyIsDecidedNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := replicatest.NewContended()
		h := &noting{at: map[string][]time.Time{}}
		names := []string{"a", "b", "c"}
		runFor(t, contendedBy(t, st, h, 10, names...), 10*time.Second+900*time.Millisecond)
		for _, name := range names {
			began := h.begun(name)
			if len(began) < 9 {
				t.Errorf("%s ran %d times in ten seconds", name, len(began))
			}
			for _, at := range began {
				if late := at.Sub(at.Truncate(time.Second)); late > 70*time.Millisecond {
					t.Errorf("%s started %v late", name, late)
				}
			}
		}
		if st.Late > 0 {
			t.Errorf("%d decisions were about what was overdue", st.Late)
		}
	})
}

// A worker is for any job that is free, and not kept for one that is busy.
func TestNoWorkerWaitsForWhatIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := replicatest.NewContended()
		runFor(t, contendedBy(t, st, &noting{at: map[string][]time.Time{}}, 1, "a", "b", "c"), 3*time.Second)
		if st.Started != 1 {
			t.Errorf("the first decision about several jobs had %d born running, with one worker idle", st.Started)
		}
	})
}
