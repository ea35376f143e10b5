package work

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
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// deciding is a replica that decides due times, and whose recorder runs.
func deciding(t *testing.T, st *replicatest.Picky) *replica {
	t.Helper()
	h := replicatest.Blocked{}
	daily := jobs.Job{Schedule: "0 0 * * *", Handler: h}
	locked, queued, soon, limited, exclusive, hasty, once, often := daily, daily, daily, daily, daily, daily, daily, daily
	locked.Locks = []jobs.Lock{{Key: "k"}}
	queued.Concurrency = jobs.Queue
	once.Schedule, often.Schedule = "@at 1999-12-31T23:59:00Z", "@every 3s" // a bubble begins with the year 2000
	hasty.Expect.FinishWithin = time.Minute
	soon.Schedule = "* * * * * *"
	limited.Pool, exclusive.Pool = "limited", "exclusive"
	set := jobs.Set{
		Pools: map[string]jobs.Pool{"p": {Handler: h}, "limited": {MaxRunning: 1}, "exclusive": {Locks: locked.Locks}},
		Jobs:  map[string]jobs.Job{"daily": daily, "locked": locked, "queued": queued, "soon": soon, "limited": limited, "exclusive": exclusive, "hasty": hasty, "once": once, "often": often},
	}
	s, err := newOn(st, nil, set, Options{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	s.assume(nil)
	s.members.Clock().Observe(boottime.Awake(), time.Now())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.work.recorder.run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	s.work.Deciding(true)
	return s
}

// ends has a task end, which is due now if it does not say when.
func (r *replica) ends(task jobs.Task, v ledger.Verdict) {
	if task.ScheduledAt.IsZero() {
		task.ScheduledAt = time.Now()
	}
	r.work.recorder.add("session", &task, ledger.Result{TaskID: task.ID, Verdict: v, State: jobs.StateSucceeded})
}

func ran(id, job string) jobs.Task {
	return jobs.Task{ID: id, Pool: naming.DefaultPool, Job: job}
}

// wantRecorded compares which results the store has taken, now that nothing more happens.
func wantRecorded(t *testing.T, st *replicatest.Picky, when string, want ...string) {
	t.Helper()
	synctest.Wait()
	_, taken := st.Seen()
	var got []string
	for id := range taken {
		got = append(got, id)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%s %q are recorded, want %q", when, got, want)
	}
}

// While due times are decided, a result that nothing waits for is recorded after that, or after a second, or with one that something
// waits for.
func TestResultsAreRecordedAfterDecisions(t *testing.T) {
	for name, c := range map[string]struct {
		then func(s *replica)
		want []string // recorded then
		all  []string // in the end
	}{
		"while they are decided": {func(*replica) { time.Sleep(laterFor - time.Millisecond) }, nil, []string{"1"}},
		"a second later":         {func(*replica) { time.Sleep(laterFor) }, []string{"1"}, []string{"1"}},
		"when they are decided":  {func(s *replica) { s.work.Deciding(false) }, []string{"1"}, []string{"1"}},
		"with one of a task":     {func(s *replica) { s.ends(jobs.Task{ID: "2", Pool: "p"}, ledger.Ended) }, []string{"1", "2"}, []string{"1", "2"}},
		"and later ones again": {func(s *replica) {
			s.ends(jobs.Task{ID: "2", Pool: "p"}, ledger.Ended)
			synctest.Wait()
			s.ends(ran("3", "daily"), ledger.Ended)
		}, []string{"1", "2"}, []string{"1", "2", "3"}},
		"with another one": {func(s *replica) { s.ends(ran("2", "daily"), ledger.Ended) }, nil, []string{"1", "2"}},
		"when it drains":   {func(s *replica) { s.work.recorder.makeRoom() }, []string{"1"}, []string{"1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := replicatest.NewPicky(nil)
				s := deciding(t, st)
				s.ends(ran("1", "daily"), ledger.Ended)
				wantRecorded(t, st, "at first")
				c.then(s)
				wantRecorded(t, st, "then", c.want...)
				s.work.Deciding(false)
				time.Sleep(time.Second)
				wantRecorded(t, st, "in the end", c.all...)
			})
		})
	}
}

// What something waits for is recorded at once: a retry, a run of a job whose slot, locks or limit others wait for, one by hand, and that of a task.
func TestResultsThatSomethingWaitsFor(t *testing.T) {
	byHand, ordered, limited, exclusive, moved := ran("by hand", "daily"), ran("ordered", "daily"), ran("limited", "limited"), ran("exclusive", "exclusive"), ran("moved", "daily")
	byHand.By, ordered.Seq, limited.Pool, exclusive.Pool, moved.Pool = "ada", 1, "limited", "exclusive", "removed"
	for _, c := range []struct {
		task    jobs.Task
		verdict ledger.Verdict
	}{
		{ran("again", "daily"), ledger.Again},
		{ran("locked", "locked"), ledger.Ended},
		{ran("queued", "queued"), ledger.Ended},
		{ran("soon", "soon"), ledger.Ended},
		{ran("hasty", "hasty"), ledger.Ended},
		{ran("removed", "removed"), ledger.Ended},
		{limited, ledger.Ended},
		{exclusive, ledger.Ended},
		{moved, ledger.Ended},
		{ran("overrun", "daily"), ledger.Ended}, // the next due time came while it ran, and is undecided
		{byHand, ledger.Ended},
		{ordered, ledger.Ended},
		{jobs.Task{ID: "task", Pool: "p"}, ledger.Ended},
	} {
		t.Run(c.task.ID, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := replicatest.NewPicky(nil)
				s := deciding(t, st)
				if c.task.ID == "overrun" {
					c.task.ScheduledAt = time.Now().Add(-25 * time.Hour)
				}
				s.ends(c.task, c.verdict)
				wantRecorded(t, st, "at once", c.task.ID)
			})
		})
	}
}

// Nothing waits for the end of a job that is never due again, or not within three seconds.
func TestResultsThatNothingWaitsFor(t *testing.T) {
	for _, job := range []string{"once", "often", "daily"} {
		t.Run(job, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := replicatest.NewPicky(nil)
				s := deciding(t, st)
				s.ends(ran(job, job), ledger.Ended)
				wantRecorded(t, st, "while due times are decided")
			})
		})
	}
}

// However long due times are decided, not more than half of the backlog waits.
func TestABacklogIsRecordedBesideDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := replicatest.NewPicky(nil)
		s := deciding(t, st)
		for range laterBacklog - 1 {
			s.ends(ran("many", "daily"), ledger.Ended)
		}
		wantRecorded(t, st, "below the limit")
		s.ends(ran("many", "daily"), ledger.Ended)
		wantRecorded(t, st, "at the limit", "many")
	})
}
