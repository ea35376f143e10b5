package scheduler

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// contended is a store where another transaction always holds the rows of all jobs but the last, and each call takes its time.
type contended struct {
	ledger.Store
	overdue int // decisions about overdue jobs
	started int // by the first decision about several jobs; -1: there was none
	then    func()
}

func (c *contended) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	if d.Overdue {
		c.overdue++
	}
	time.Sleep(20 * time.Millisecond)
	last := len(d.Jobs) - 1
	busy := d.Jobs[:last]
	d.Jobs = d.Jobs[last:]
	got, err := c.Store.Decide(ctx, d)
	got.Busy = busy
	if len(busy) > 0 && c.started < 0 {
		c.started = len(got.Started)
	}
	if c.then != nil {
		c.then()
	}
	return got, err
}

func contendedBy(t *testing.T, st *contended, h jobs.Handler, workers int, names ...string) *Scheduler {
	t.Helper()
	st.Store, st.started = &memstore.Store{Database: memstore.New()}, -1
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
		st := &contended{}
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
		if st.overdue > 0 {
			t.Errorf("%d decisions were about what was overdue", st.overdue)
		}
	})
}

// A worker is for any job that is free, and not kept for one that is busy.
func TestNoWorkerWaitsForWhatIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &contended{}
		runFor(t, contendedBy(t, st, &noting{at: map[string][]time.Time{}}, 1, "a", "b", "c"), 3*time.Second)
		if st.started != 1 {
			t.Errorf("the first decision about several jobs had %d born running, with one worker idle", st.started)
		}
	})
}

// A replica that may not start anything any more decides nothing more, and does not forget the jobs that are left.
func TestWhoIsNotTrustedDecidesNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &contended{}
		s := contendedBy(t, st, blocked{}, 1, "a", "b", "c")
		trust := func(d time.Duration) { s.assume(&membership.Session{ID: "session", Trust: boottime.Now().Add(d)}) }
		trust(time.Hour)
		decisions := 0
		st.Store = deaf{st.Store}
		st.then = func() { decisions++; trust(-time.Second) }
		s.triggers.decide(t.Context(), []string{"a", "b", "c"})
		if decisions != 1 {
			t.Errorf("%d decisions", decisions)
		}
		left := s.triggers.upcoming.take(s.work.clock.Now().Add(2*afterFailure), 10, func(string) bool { return true })
		if slices.Sort(left); !slices.Equal(left, []string{"a", "b"}) {
			t.Errorf("it looks again at %q", left)
		}
	})
}

// deaf is a store that decides nothing.
type deaf struct{ ledger.Store }

func (deaf) Decide(context.Context, ledger.Decide) (ledger.Decided, error) {
	return ledger.Decided{}, nil
}

// turns is a store whose claims take as long as they are told, and say whether they lock the row of their pool.
type turns struct {
	ledger.Store
	take  []time.Duration
	guard []bool
}

func (s *turns) Claim(_ context.Context, c ledger.Claim) (ledger.Claimed, error) {
	time.Sleep(s.take[len(s.guard)])
	s.guard = append(s.guard, c.Guard || c.Pools["p"].Limited)
	return ledger.Claimed{}, nil
}

// Where the store is the lock service, claims take turns. A claim after one that took longer than a replica waits for
// a lock takes none, unless the pool is limited over all replicas.
func TestClaimsTakeTurnsWhileTurnsAreShort(t *testing.T) {
	for limit, want := range map[int][]bool{0: {true, true, false, true}, 1: {true, true, true, true}} {
		synctest.Test(t, func(t *testing.T) {
			st := &turns{Store: &memstore.Store{Database: memstore.New()}, take: []time.Duration{0, busyLimit, 0, 0}}
			s := replicaOn(t, st, blocked{})
			s.assume(&membership.Session{ID: "session", Trust: boottime.Now().Add(time.Hour)})
			f := s.work.feeders["p"]
			f.governs.MaxRunning = limit
			for range want {
				f.claim(t.Context())
			}
			if !slices.Equal(st.guard, want) {
				t.Errorf("limit %d: in turn %v, not %v", limit, st.guard, want)
			}
		})
	}
}
