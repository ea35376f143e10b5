package triggers

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// rowsOf are the rows of jobs as the definitions of a replica have them, decided up to a moment.
func rowsOf(s *replica, upTo time.Time, names ...string) (states []ledger.JobState) {
	for _, name := range names {
		states = append(states, ledger.JobState{Name: name, Hash: s.plan.Jobs[name].Hash, Cursor: upTo})
	}
	return states
}

// When a job is looked at next: at its next due time, decided now or not; soon if that has passed already; never
// if there is none, or if a newer configuration governs it; and in a second if the store could not decide.
func TestWhenAJobIsLookedAtNext(t *testing.T) {
	minute := jobs.Job{Schedule: "* * * * *", Handler: replicatest.Blocked{}}
	const never = -1
	for what, c := range map[string]struct {
		job    jobs.Job
		hash   string        // "": that of the job
		behind time.Duration // the cursor
		err    error
		next   time.Duration // from now
		rows   int
	}{
		"it is due":                    {job: minute, behind: time.Minute, next: 50 * time.Second, rows: 1},
		"it was decided already":       {job: minute, next: 50 * time.Second},
		"it was decided further ahead": {job: minute, behind: -2 * time.Minute, next: 170 * time.Second}, // the clock went back
		"it has more due times behind": {job: jobs.Job{Schedule: "* * * * * *", Handler: replicatest.Blocked{}, Concurrency: jobs.Allow, CatchUp: jobs.CatchUp{Grace: time.Hour}}, behind: time.Hour, next: lookLeast, rows: freshLimit},
		"it has no due time":           {job: jobs.Job{Handler: replicatest.Blocked{}}, next: never},
		"it is defined otherwise":      {job: minute, hash: "other", behind: time.Minute, next: never},
		"the store is away":            {job: minute, behind: time.Minute, err: fmt.Errorf("%w: cut off by the test", jobs.ErrUnavailable), next: time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &timed{Store: &memstore.Store{Database: memstore.New()}, began: time.Now()}
				s, err := newOn(st, nil, jobs.Set{Jobs: map[string]jobs.Job{"j": c.job}}, Options{ID: "a"})
				if err != nil {
					t.Fatal(err)
				}
				now := time.Date(2026, 1, 1, 12, 0, 10, 0, time.UTC)
				s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Hour)})
				s.members.Clock().Observe(boottime.Awake(), now)
				s.members.SetLoaded()
				st.does = func(d ledger.Decide) (ledger.Decided, error) {
					states := rowsOf(s, now.Add(-c.behind), "j")
					if c.hash != "" {
						states[0].Hash = c.hash
					}
					return ledger.Decided{Now: now, Decisions: d.Decide(now, states)}, c.err
				}
				rows, rest := s.triggers.decideFree(t.Context(), []string{"j"}, false)
				if rows != c.rows || len(rest) > 0 {
					t.Errorf("%d rows were written, want %d; %v is left", rows, c.rows, rest)
				}
				if at, known := s.triggers.upcoming.next(); known != (c.next != never) || known && at.Sub(now) != c.next {
					t.Errorf("the job is looked at: %t, in %v; want %v", known, at.Sub(now), c.next)
				}
				if got := s.triggers.foreign.has("j"); got != (c.hash != "") {
					t.Errorf("it is left to a newer configuration: %t", got)
				}
				if ready := s.storeAnswers(); ready != (c.err == nil) {
					t.Errorf("ready: %t", ready)
				}
				if room := freeWorkers(s, "j", 100); c.err != nil && room != s.plan.Pools[naming.DefaultPool].Workers {
					t.Errorf("%d workers are free after a decision that failed", room)
				}
			})
		})
	}
}

// freeWorkers is how many workers are free for runs of a job, up to most.
func freeWorkers(s *replica, job string, most int) int {
	may, start := s.work.Reserve(s.plan, slices.Repeat([]string{job}, most))
	start(context.Background(), ledger.Decided{})
	return may.Pools[s.plan.Jobs[job].Pool].Room
}

// A job without a further due time is not looked at any more, whatever was known of it before.
func TestAJobWithoutDueTimesIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := firing(t, "a", "b")
		st.does = func(d ledger.Decide) (ledger.Decided, error) {
			states := rowsOf(s, time.Now(), "a", "b")
			s.plan.Jobs["a"].Times = nil
			return ledger.Decided{Decisions: d.Decide(time.Now(), states)}, nil
		}
		s.triggers.upcoming.set("a", st.began, false)
		s.triggers.upcoming.set("b", st.began, false)
		s.triggers.decide(t.Context(), []string{"a", "b"})
		left := s.triggers.upcoming.take(st.began.Add(time.Hour), 10, func(string) bool { return true })
		if !slices.Equal(left, []string{"b"}) {
			t.Errorf("looked at again are %v", left)
		}
	})
}

// A job of which nothing has started yet is looked at again when that starts, and not before.
func TestAJobIsLookedAtWhenItStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := firing(t, "a")
		j := s.plan.Jobs["a"]
		j.Jitter = 9 * time.Hour
		s.triggers.plan.In("prod")
		st.does = func(d ledger.Decide) (ledger.Decided, error) {
			return ledger.Decided{Decisions: d.Decide(time.Now(), rowsOf(s, time.Now(), "a"))}, nil
		}
		s.triggers.decide(t.Context(), []string{"a"})
		due := j.Next(time.Now())
		start := j.Starts("prod").Of(due)
		if at, ok := s.triggers.upcoming.next(); !ok || !at.Equal(start) || start.Equal(due) {
			t.Errorf("due at %v, starts at %v, is looked at at %v", due, start, at)
		}
	})
}

// A transaction that the store repeats leaves nothing of its first try: the rows may have changed by then.
func TestOnlyTheLastTryOfADecisionCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := firing(t, "a", "b", "c")
		for _, j := range s.plan.Jobs {
			j.Concurrency, j.CatchUp.Policy, j.CatchUp.Limit = jobs.Allow, jobs.CatchUpAll, decideRows
			j.CatchUp.Window = 1000 * time.Hour
		}
		var decided []string
		st.does = func(d ledger.Decide) (ledger.Decided, error) {
			now := time.Now()
			d.Decide(now, rowsOf(s, now.Add(-100*time.Hour), "a", "b")) // as many as are opened at once; the next try has other rows
			decisions := d.Decide(now, rowsOf(s, now.Add(-time.Minute), "b", "c"))
			for _, dec := range decisions {
				decided = append(decided, dec.Job)
			}
			return ledger.Decided{Decisions: decisions, Busy: []string{"a"}}, nil
		}
		_, rest := s.triggers.decideFree(t.Context(), []string{"a", "b", "c"}, false)
		next := s.triggers.upcoming.take(time.Now().Add(time.Hour), 10, func(string) bool { return true })
		slices.Sort(next)
		if !slices.Equal(rest, []string{"a"}) || !slices.Equal(decided, []string{"b", "c"}) || !slices.Equal(next, []string{"b", "c"}) {
			t.Errorf("left are %v, decided %v, looked at next %v", rest, decided, next)
		}
	})
}

// A transaction that has opened as many due times as it may leaves the other jobs to the next one.
func TestWhatATransactionLeavesToTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{"a", "b", "c", "d", "e", "f", "g"}
		s, st := firing(t, names...)
		for _, j := range s.plan.Jobs {
			j.Concurrency, j.CatchUp.Grace = jobs.Allow, 1000*time.Hour
		}
		st.does = func(d ledger.Decide) (ledger.Decided, error) {
			return ledger.Decided{Decisions: d.Decide(time.Now(), rowsOf(s, time.Now().Add(-100*time.Hour), names...))}, nil
		}
		rows, rest := s.triggers.decideFree(t.Context(), names, false)
		if full := decideRows / freshLimit; rows != decideRows || !slices.Equal(rest, names[full:]) {
			t.Errorf("%d rows were written, and %v left, want %d and %v", rows, rest, decideRows, names[full:])
		}
	})
}

// Where the store is the lock service, a decision locks the stripes of its jobs, but a decision about overdue jobs does
// not. With a lock service no row is locked for it. Both name the pools that they know, so
// that nothing becomes running in a pool that a newer configuration has otherwise.
func TestWhatADecisionAsksFor(t *testing.T) {
	for _, c := range []struct{ own, overdue, guard bool }{{true, false, true}, {true, true, false}, {false, false, false}, {false, true, false}} {
		synctest.Test(t, func(t *testing.T) {
			s, st := firing(t, "a", "b")
			if !c.own {
				s.locks.Locks = replicatest.LockerOf(t, memlock.New())
			}
			var got ledger.Decide
			st.does = func(d ledger.Decide) (ledger.Decided, error) { got = d; return ledger.Decided{}, nil }
			s.triggers.decideFree(t.Context(), []string{"a", "b"}, c.overdue)
			if got.Guard != c.guard || got.Overdue != c.overdue || got.Session != "session" || got.Replica != "a" || !slices.Equal(got.Jobs, []string{"a", "b"}) {
				t.Errorf("%+v: %+v", c, got)
			}
			if diff := cmp.Diff(map[string]ledger.Share{naming.DefaultPool: {Hash: s.plan.Pools[naming.DefaultPool].Hash, Room: 2}}, got.Pools); diff != "" {
				t.Error(diff)
			}
			if now, err := got.Now(time.Now().Add(time.Hour)); err == nil {
				t.Errorf("it would decide by %v", now)
			}
		})
	}
}

// What was decided is handed over: what became running starts here, and metrics are told of each trigger.
func TestWhatIsDecidedIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := replicatest.NewBlocked(10)
		st := &timed{Store: &memstore.Store{Database: memstore.New()}, began: time.Now()}
		told := &decisions{}
		s, err := newOn(st, nil, jobs.Set{
			Jobs:  map[string]jobs.Job{"a": {Handler: h, Pool: "p"}, "b": {Handler: h, Pool: "p"}, "c": {Handler: h, Pool: "q"}, "d": {Handler: h, Pool: "p"}},
			Pools: map[string]jobs.Pool{"p": {Workers: 4}, "q": {Workers: 4}},
		}, Options{ID: "a", Observer: told})
		if err != nil {
			t.Fatal(err)
		}
		s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Hour)})
		s.members.Clock().Observe(boottime.Awake(), time.Now())
		st.does = func(ledger.Decide) (ledger.Decided, error) {
			run, waits := jobs.Task{ID: "1", Job: "a", Pool: "p", Token: 7}, jobs.Task{ID: "2", Job: "c", Pool: "q"}
			return ledger.Decided{
				Started: []ledger.Started{{Task: &run, Until: time.Now().Add(2 * time.Hour)}}, Opened: []jobs.Task{waits},
				Decisions: []ledger.Decision{
					{Job: "a", Triggers: []ledger.Opening{{Trigger: jobs.Trigger{Job: "a"}, Task: &run}}},
					{Job: "b", Triggers: []ledger.Opening{{Trigger: jobs.Trigger{Job: "b", Outcome: jobs.Skipped}}}},
					{Job: "c", Triggers: []ledger.Opening{{Trigger: jobs.Trigger{Job: "c"}, Task: &waits}, {Task: &jobs.Task{ID: "3"}}}},
				},
			}, nil
		}
		rows, _ := s.triggers.decideFree(t.Context(), []string{"a", "b", "c", "d"}, false)
		<-h.Began
		synctest.Wait()
		if p, q := freeWorkers(s, "a", 100), freeWorkers(s, "c", 100); rows != 4 || p != 3 || q != 4 {
			t.Errorf("%d rows; while one attempt runs in p, %d workers are free there, and %d in q", rows, p, q)
		}
		if !slices.Equal(told.jobs, []string{"a", "b", "c"}) {
			t.Errorf("metrics were told of the triggers of %v", told.jobs)
		}
		close(h.End)
		synctest.Wait()
		if p := freeWorkers(s, "a", 100); p != 4 {
			t.Errorf("afterwards %d workers are free", p)
		}
	})
}

// A trigger that started nothing is logged with its outcome, and one that is to run is not; that a newer configuration
// governs a job is logged once.
func TestWhatIsLoggedOfDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := firing(t, "a", "b")
		log := &replicatest.Lines{}
		s.triggers.log = slog.New(log)
		at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		st.does = func(d ledger.Decide) (ledger.Decided, error) {
			states := rowsOf(s, time.Now(), "a", "b")
			states[0].Hash = "of another configuration"
			d.Decide(time.Now(), states)
			return ledger.Decided{Decisions: []ledger.Decision{{Job: "b", Triggers: []ledger.Opening{
				{Trigger: jobs.Trigger{Job: "b", At: at}}, {Task: &jobs.Task{ID: "1"}},
				{Trigger: jobs.Trigger{Job: "b", At: at, Outcome: jobs.Missed, Count: 3, Reason: "it was late"}},
			}}}}, nil
		}
		missed := "trigger job=b at=" + at.String() + " outcome=missed count=3 reason=it was late"
		left := "the job differs from another replica's newer configuration, and is left to that replica; give it the newer file job=a"
		for n, want := range [][]string{{left, missed}, {missed}} {
			s.triggers.decideFree(t.Context(), []string{"a", "b"}, false)
			if diff := cmp.Diff(want, slices.Sorted(slices.Values(log.Take()))); diff != "" {
				t.Errorf("decision %d: logged (-want +got):\n%s", n, diff)
			}
		}
	})
}

// cutShort is a store that decides while the replica begins to drain.
type cutShort struct {
	ledger.Store
	drain func()
	task  jobs.Task
}

func (c cutShort) Decide(ctx context.Context, _ ledger.Decide) (ledger.Decided, error) {
	c.drain()
	return ledger.Decided{Started: []ledger.Started{{Task: &c.task}}}, ctx.Err()
}

// A decision that is under way as a drain begins is completed, and what it started runs.
func TestADrainCutsNoDecisionShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := firing(t, "a")
		ctx, drain := context.WithCancel(t.Context())
		s.triggers.store = cutShort{st, drain, jobs.Task{ID: "1", Job: "a", Pool: naming.DefaultPool}}
		h := replicatest.NewBlocked(1)
		s.plan.Jobs["a"].Executes = h
		s.triggers.decide(ctx, []string{"a"})
		synctest.Wait()
		if len(h.Began) != 1 || !s.storeAnswers() {
			t.Errorf("%d tasks run; the store is there: %t", len(h.Began), s.storeAnswers())
		}
		close(h.End)
		synctest.Wait()
	})
}

// decisions are the metrics of those.
type decisions struct {
	unmeasured
	jobs []string
}

func (d *decisions) Decided(t jobs.Trigger) { d.jobs = append(d.jobs, t.Job) }

// repeating is a store whose transaction meets a deadlock: it calls Decide twice. Meanwhile something happens.
type repeating struct {
	ledger.Store
	states    []ledger.JobState
	meanwhile func()
	pools     []map[string]ledger.Share
	answers   [][]ledger.Decision
	admitted  []bool
}

func (r *repeating) Decide(_ context.Context, d ledger.Decide) (ledger.Decided, error) {
	for n := range 2 {
		if n > 0 {
			r.meanwhile()
		}
		r.pools = append(r.pools, maps.Clone(d.Pools))
		answer := d.Decide(replicatest.Time("12:00:05"), r.states)
		r.answers = append(r.answers, answer)
		_, ok := d.Admit(replicatest.Time("12:00:05"), ledger.Candidate{Task: *answer[0].Triggers[0].Task, JobHash: r.states[0].Hash})
		r.admitted = append(r.admitted, ok)
	}
	return ledger.Decided{}, nil
}

// A transaction that is repeated writes the same: what a pool's feeder learns meanwhile counts from the next transaction on.
func TestARepeatedTransactionDecidesTheSame(t *testing.T) {
	for how, decide := range map[string]func(*replica){
		"due":     func(s *replica) { s.triggers.decideFree(t.Context(), []string{"j"}, false) },
		"by hand": func(s *replica) { _, _, _ = s.RunJob(t.Context(), "j", "ann", "") },
	} {
		set := jobs.Set{
			Jobs:  map[string]jobs.Job{"j": {Schedule: "* * * * * *", Pool: "p"}},
			Pools: map[string]jobs.Pool{"p": {Handler: replicatest.Nothing{}}},
		}
		st := &repeating{Store: replicatest.NewPicky(nil)}
		s, err := newOn(st, nil, set, Options{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		s.assume(&membership.Session{ID: "session", Trust: boottime.Now().Add(time.Minute)})
		s.members.SetLoaded()
		s.members.Clock().Observe(boottime.Now(), replicatest.Time("12:00:05"))
		p := s.plan.Pools["p"]
		st.states = []ledger.JobState{{Name: "j", Hash: s.plan.Jobs["j"].Hash, Cursor: replicatest.Time("12:00:04")}}
		newer := ledger.OtherPool{Name: "p", Hash: "newer", Kinds: map[string]string{"": "of another handler"}}
		st.meanwhile = func() { s.work.GoBy([]ledger.OtherPool{newer}) }
		decide(s)
		decide(s)
		var told []string
		for n, answer := range st.answers {
			if len(answer) != 1 || len(answer[0].Triggers) != 1 {
				t.Fatalf("%s: %+v", how, answer)
			}
			told = append(told, st.pools[n]["p"].Hash)
		}
		if diff := cmp.Diff([]bool{true, true, false, false}, st.admitted); diff != "" {
			t.Errorf("%s: may run (-want +got):\n%s", how, diff)
		}
		if diff := cmp.Diff([]string{p.Hash, p.Hash, "newer", "newer"}, told); diff != "" {
			t.Errorf("%s: the store was told of (-want +got):\n%s", how, diff)
		}
	}
}

// While a replica drains, or waits for the lock service, it does not decide again the jobs that were busy, and keeps them
// for later.
func TestADrainingReplicaLeavesBusyJobs(t *testing.T) {
	for what, c := range map[string]struct {
		stop  func(s *replica, cancel func())
		calls int
	}{
		"it goes on": {func(*replica, func()) {}, 2},
		"it drains":  {func(_ *replica, cancel func()) { cancel() }, 1},
		"it waits for the lock service": {func(s *replica, _ func()) {
			s.locks.Locks = replicatest.Mute{}
			s.locks.Required = true
			s.locks.Failed(replicatest.ErrRefused)
		}, 1},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, st := firing(t, "a", "b")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var once sync.Once
				st.does = func(d ledger.Decide) (ledger.Decided, error) {
					var busy []string
					once.Do(func() { busy = []string{"b"}; c.stop(s, cancel) })
					return ledger.Decided{Busy: busy}, nil
				}
				s.triggers.decide(ctx, []string{"a", "b"})
				if n := len(st.decisions()); n != c.calls {
					t.Errorf("%d decisions, want %d", n, c.calls)
				}
				at, known := s.triggers.upcoming.next()
				if known != (c.calls == 1) || known && at.Sub(s.members.Clock().Now()) != afterFailure {
					t.Errorf("what is left is looked at again: %t, in %v", known, at.Sub(s.members.Clock().Now()))
				}
			})
		})
	}
}

// The due times of known jobs are read, and those that are due already are decided at once.
func TestDueTimesThatAreReadAreDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st := firing(t, "a", "b")
		at := st.began.Add(overdueEvery / 2)
		s.triggers.store = listed{st, []ledger.Upcoming{{Job: "a", NextAt: at}, {Job: "unknown", NextAt: at}}}
		stop := fires(t, s)
		time.Sleep(overdueEvery / 2)
		s.triggers.look(t.Context(), []int{1})
		time.Sleep(time.Millisecond)
		stop()
		if diff := cmp.Diff([]call{{overdueEvery / 2, []string{"a"}, false}}, st.decisions()); diff != "" {
			t.Errorf("decided (-want +got):\n%s", diff)
		}
	})
}

// listed is a store with these due times.
type listed struct {
	ledger.Store
	rows []ledger.Upcoming
}

func (l listed) Upcoming(context.Context, []int) ([]ledger.Upcoming, error) { return l.rows, nil }
