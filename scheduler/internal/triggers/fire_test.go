package triggers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// timed is a store that notes its calls about decisions and overdue jobs.
type timed struct {
	ledger.Store
	rows func(n int) []ledger.Upcoming // overdue jobs, at the n-th look
	does func(d ledger.Decide) (ledger.Decided, error)

	mu     sync.Mutex
	began  time.Time
	calls  []call
	looks  []time.Duration
	before []time.Time // the last moment that each look asked for
	limits []int
}

// call is one decision.
type call struct {
	At      time.Duration
	Jobs    []string
	Overdue bool
}

func (s *timed) Overdue(_ context.Context, t time.Time, limit int) ([]ledger.Upcoming, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks, s.limits = append(s.looks, time.Since(s.began)), append(s.limits, limit)
	s.before = append(s.before, t)
	if s.rows == nil {
		return nil, nil
	}
	rows := s.rows(len(s.looks) - 1)
	return rows[:min(limit, len(rows))], nil
}

func (s *timed) Decide(_ context.Context, d ledger.Decide) (ledger.Decided, error) {
	s.mu.Lock()
	s.calls = append(s.calls, call{time.Since(s.began), slices.Clone(d.Jobs), d.Overdue})
	s.mu.Unlock()
	if s.does == nil {
		return ledger.Decided{}, nil
	}
	return s.does(d)
}

func (s *timed) decisions() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func (s *timed) looked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.looks)
}

// writes is the answer to a decision that writes a row for each of the first n jobs.
func writes(d ledger.Decide, n int) ledger.Decided {
	var done ledger.Decided
	for _, name := range d.Jobs[:min(n, len(d.Jobs))] {
		done.Decisions = append(done.Decisions, ledger.Decision{Job: name, Triggers: []ledger.Opening{{Trigger: jobs.Trigger{Job: name, Outcome: jobs.Skipped}}}})
	}
	return done
}

// firing is a replica of these jobs with all stripes and a session of an hour, none of whose loops run.
func firing(t *testing.T, names ...string) (*replica, *timed) {
	t.Helper()
	st := &timed{Store: &memstore.Store{Database: memstore.New()}, began: time.Now()}
	set := jobs.Set{Jobs: map[string]jobs.Job{}}
	for _, name := range names {
		set.Jobs[name] = jobs.Job{Schedule: "* * * * *", Handler: replicatest.Blocked{}}
	}
	s, err := newOn(st, nil, set, Options{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Hour)})
	s.members.Clock().Observe(boottime.Awake(), time.Now())
	s.triggers.stripes.take("a", []string{"a"}, false)
	s.members.SetLoaded()
	return s, st
}

// fires runs fire until the test ends, or the answer is called.
func fires(t *testing.T, s *replica) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.triggers.fire(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return stop
}

// A due time is decided when it comes, whenever it became known, and once; nothing is decided without one. The replica
// looks for overdue jobs each 500 ms, all the time.
func TestADueTimeIsDecidedWhenItComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := firing(t, "a", "b", "c")
		const apart = 30 * time.Minute // the database's clock and this machine's
		s.triggers.clock = membership.NewClock(2 * time.Second)
		s.triggers.clock.Observe(boottime.Awake(), time.Now().Add(apart))
		in := func(d time.Duration) time.Time { return st.began.Add(apart + d) }
		s.triggers.upcoming.set("a", in(1700*time.Millisecond), false)
		s.triggers.upcoming.set("b", in(3200*time.Millisecond), false)
		stop := fires(t, s)
		time.Sleep(2250 * time.Millisecond)
		s.triggers.upcoming.set("c", in(2300*time.Millisecond), false) // a moment after the look for overdue jobs
		wake.Send(s.triggers.wakeFire)
		time.Sleep(7750*time.Millisecond + time.Nanosecond)
		stop()
		want := []call{
			{1700 * time.Millisecond, []string{"a"}, false},
			{2300 * time.Millisecond, []string{"c"}, false},
			{3200 * time.Millisecond, []string{"b"}, false},
		}
		if diff := cmp.Diff(want, st.decisions()); diff != "" {
			t.Errorf("decided (-want +got):\n%s", diff)
		}
		if n := len(st.looks); n != 21 || st.looks[20] != 10*time.Second {
			t.Errorf("looked for what is overdue %d times in ten seconds, at %v", n, st.looks)
		}
		for n, at := range st.looks {
			if got := st.before[n]; !got.Equal(in(at - overdueAfter)) {
				t.Errorf("%v after the start it looked for what was due by %v after it", at, got.Sub(in(0)))
			}
		}
	})
}

// A replica that may not start anything decides nothing, its own due times included, and decides them as soon as it
// may again.
func TestWhoMayNotStartAnythingDecidesNothing(t *testing.T) {
	trust := func(s *replica, d time.Duration) {
		s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(d)})
	}
	const lastGrace = 2 * time.Second // how long before the end of its session what runs is told to stop
	for what, c := range map[string]struct{ may, mayNot func(s *replica) }{
		"its session is over": {func(s *replica) { trust(s, time.Hour) }, func(s *replica) { trust(s, 0) }},
		"its session ends before what begins could": {
			func(s *replica) { trust(s, lastGrace+time.Second) },
			func(s *replica) { trust(s, lastGrace) },
		},
		"it waits for the lock service": {
			func(s *replica) { s.locks.Failed(nil) },
			func(s *replica) { s.locks.Failed(replicatest.ErrRefused) },
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, st := firing(t, "a", "b")
				s.locks.Locks, s.locks.Required = replicatest.LockerOf(t, memlock.New()), true
				s.triggers.lockStripes(t.Context())
				s.triggers.upcoming.set("a", st.began.Add(time.Second), false)
				st.rows = func(int) []ledger.Upcoming { return []ledger.Upcoming{{Job: "b", NextAt: st.began.Add(-time.Hour)}} }
				c.mayNot(s)
				stop := fires(t, s)
				time.Sleep(3200 * time.Millisecond)
				if calls := st.decisions(); len(calls) > 0 || st.looked() > 0 {
					t.Errorf("decided meanwhile: %+v; looked %d times", calls, st.looked())
				}
				c.may(s)
				time.Sleep(overdueEvery)
				stop()
				calls := st.decisions()
				own := slices.ContainsFunc(calls, func(c call) bool { return !c.Overdue && slices.Equal(c.Jobs, []string{"a"}) })
				late := slices.ContainsFunc(calls, func(c call) bool { return c.Overdue && slices.Equal(c.Jobs, []string{"b"}) })
				if !own || !late {
					t.Errorf("decided within half a second: %+v", calls)
				}
			})
		})
	}
}

// A replica that stops decides nothing more, whatever has become due.
func TestWhatBecomesDueAsAReplicaStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := firing(t, "a", "b")
		st.rows = func(n int) []ledger.Upcoming {
			if n == 0 {
				return nil
			}
			return []ledger.Upcoming{{Job: "b", NextAt: st.began.Add(-time.Hour)}}
		}
		stop := fires(t, s)
		time.Sleep(overdueEvery - time.Nanosecond)
		s.triggers.upcoming.set("a", st.began, false)
		stop()
		if calls := st.decisions(); len(calls) > 0 {
			t.Errorf("decided: %+v", calls)
		}
	})
}

// Due times of the own stripes are taken. Those of other stripes are left to their owners, and read again in case a stripe
// becomes an own one.
func TestOnlyOwnStripesAreDueHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{"a", "b", "c", "d", "e", "f"}
		s, st := firing(t, names...)
		s.triggers.stripes.take("a", []string{"a", "b"}, false)
		var mine []string
		var all, others []int
		for _, name := range names {
			s.triggers.upcoming.set(name, st.began, false)
			stripe := s.plan.Jobs[name].Stripe
			all = append(all, stripe)
			if slices.Contains(s.triggers.Owned(), stripe) {
				mine = append(mine, name)
			} else {
				others = append(others, stripe)
			}
		}
		s.triggers.stripes.unread(all) // they have been read
		due := s.triggers.dueHere()
		if slices.Sort(due); !slices.Equal(due, mine) || len(mine) == 0 || len(others) == 0 {
			t.Errorf("due here are %v, want %v", due, mine)
		}
		if again := s.triggers.stripes.unread(all); !slices.Equal(again, others) {
			t.Errorf("the stripes %v are read again, want %v", again, others)
		}
		if at, left := s.triggers.upcoming.next(); left {
			t.Errorf("a job is still to be looked at, at %v", at)
		}
	})
}

// A due time is overdue after 250 ms: then the owner of its stripe and the next in rank decide it, and 250 ms later all
// others. Jobs that this replica does not know, or that a newer configuration governs, are left alone.
func TestWhichReplicasDecideAnOverdueJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := []string{"a", "b", "c", "d"}
		names, ranks := []string{}, map[int]string{}
		for n := range 200 {
			name := fmt.Sprint("j", n)
			names = append(names, name)
			ranks[rank("a", ledger.Stripe(name), live)] = name
		}
		for r, patience := range map[int]time.Duration{0: 0, 1: overdueAfter, 2: 2 * overdueAfter, 3: 2 * overdueAfter} {
			for late, decided := range map[time.Duration]bool{max(patience, overdueAfter): true, patience - time.Nanosecond: false} {
				if late < overdueAfter {
					continue // the store does not list it
				}
				s, st := firing(t, names...)
				s.triggers.stripes.take("a", live, false)
				name := ranks[r]
				st.rows = func(int) []ledger.Upcoming {
					return []ledger.Upcoming{{Job: "unknown", NextAt: st.began.Add(-time.Hour)}, {Job: name, NextAt: st.began.Add(-late)}}
				}
				s.triggers.overdue(t.Context())
				var want []call
				if decided {
					want = []call{{0, []string{name}, true}}
				}
				if diff := cmp.Diff(want, st.decisions()); diff != "" {
					t.Errorf("rank %d, %v late (-want +got):\n%s", r, late, diff)
				}
			}
		}
		s, st := firing(t, "a")
		st.rows = func(int) []ledger.Upcoming {
			return slices.Repeat([]ledger.Upcoming{{Job: "unknown", NextAt: st.began.Add(-time.Hour)}}, decideBatch)
		}
		if again := s.triggers.overdue(t.Context()); again || len(st.decisions()) > 0 {
			t.Errorf("unknown jobs were decided: %v, and looked for again: %t", st.decisions(), again)
		}
		st.rows = func(int) []ledger.Upcoming { return []ledger.Upcoming{{Job: "a", NextAt: st.began.Add(-time.Hour)}} }
		s.triggers.foreign.set([]string{"a"})
		if again := s.triggers.overdue(t.Context()); again || len(st.decisions()) > 0 {
			t.Errorf("a newer configuration's job was decided: %v, and looked for again: %t", st.decisions(), again)
		}
	})
}

// Overdue jobs are decided in small random batches while other replicas decide some, too, else in large ones, until
// nothing is left.
func TestHowMuchHelpThereIs(t *testing.T) {
	for what, c := range map[string]struct {
		overdue int
		written int // of each batch, at most; -1: all
		busy    int // of each batch
		sizes   []int
		again   bool
	}{
		"nothing else helps":            {450, -1, 0, []int{100, 350}, false},
		"others help, too":              {250, 60, 0, []int{100, 100, 50}, false},
		"others have done it":           {250, 0, 0, []int{100}, false},
		"others are at it":              {250, 0, 5, []int{100}, false},
		"some is held by others":        {150, 60, 5, []int{100, 50}, true},
		"there is more than is listed":  {900, -1, 0, []int{100, 400}, true},
		"as much as is listed, and one": {decideBatch, 1, 0, []int{100, 100, 100, 100, 100}, true},
		"one less than is listed":       {decideBatch - 1, -1, 0, []int{100, 399}, false},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var names []string
				for n := range c.overdue {
					names = append(names, fmt.Sprintf("j%04d", n))
				}
				s, st := firing(t, names...)
				st.rows = func(int) (rows []ledger.Upcoming) {
					for _, name := range names {
						rows = append(rows, ledger.Upcoming{Job: name, NextAt: st.began.Add(-time.Hour)})
					}
					return rows
				}
				st.does = func(d ledger.Decide) (ledger.Decided, error) {
					n := c.written
					if n < 0 {
						n = len(d.Jobs)
					}
					done := writes(d, n)
					done.Busy = d.Jobs[:c.busy]
					return done, nil
				}
				again := s.triggers.overdue(t.Context())
				var sizes []int
				all := map[string]bool{}
				for n, call := range st.decisions() {
					sizes = append(sizes, len(call.Jobs))
					for _, name := range call.Jobs {
						all[name] = true
					}
					if n == 0 && slices.IsSorted(call.Jobs) {
						t.Error("each replica would begin with the same jobs")
					}
				}
				total := 0
				for _, n := range sizes {
					total += n
				}
				if !slices.Equal(sizes, c.sizes) || again != c.again || total != len(all) {
					t.Errorf("batches of %v, %d different jobs, again: %t; want %v, %t", sizes, len(all), again, c.sizes, c.again)
				}
			})
		})
	}
}

// While there may be more overdue jobs, a replica goes on at once, and does not wait half a second for the next look.
func TestHelpGoesOnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := firing(t, "a")
		st.rows = func(int) []ledger.Upcoming { return []ledger.Upcoming{{Job: "a", NextAt: st.began.Add(-time.Hour)}} }
		st.does = func(d ledger.Decide) (ledger.Decided, error) {
			done := writes(d, 1)
			if len(st.calls) < 4 {
				done.Busy = []string{"a"}
			}
			return done, nil
		}
		stop := fires(t, s)
		time.Sleep(overdueEvery / 2)
		stop()
		if n := len(st.looks); n != 4 {
			t.Errorf("it looked %d times at once, and should until nothing is busy", n)
		}
	})
}

// A store that does not list overdue jobs is away, and nothing is decided.
func TestAStoreThatDoesNotSayWhatIsOverdue(t *testing.T) {
	s, st := firing(t, "a")
	s.triggers.store = noOverdue{st}
	if again := s.triggers.overdue(t.Context()); again || len(st.decisions()) > 0 || s.storeAnswers() {
		t.Errorf("looks again: %t, decided %v, ready: %t", again, st.decisions(), s.storeAnswers())
	}
}

type noOverdue struct{ ledger.Store }

func (noOverdue) Overdue(context.Context, time.Time, int) ([]ledger.Upcoming, error) {
	return nil, fmt.Errorf("%w: cut off by the test", jobs.ErrUnavailable)
}
