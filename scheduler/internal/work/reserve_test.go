package work

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// A task that becomes running starts at once, on a worker that was reserved for it, and may run until the row says so.
// Workers that were not needed are free again, and pools with a new pending task are woken.
func TestWhatIsBornRunningStartsHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := replicatest.NewBlocked(10)
		s, err := newOn(replicatest.NewPicky(nil), nil, jobs.Set{
			Jobs:  map[string]jobs.Job{"a": {Handler: h, Pool: "p"}, "b": {Handler: h, Pool: "p"}, "c": {Handler: h, Pool: "q"}, "d": {Handler: h, Pool: "p"}},
			Pools: map[string]jobs.Pool{"p": {Workers: 4}, "q": {Workers: 4}, "r": {Workers: 4}},
		}, Options{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Hour)})
		s.members.Clock().Observe(boottime.Awake(), time.Now())
		until := time.Now().Add(2 * time.Hour)
		_, start := s.work.Reserve(s.plan, []string{"a", "b", "c", "d"})
		if p, q := s.work.slots.room("p"), s.work.slots.room("q"); p != 1 || q != 3 {
			t.Errorf("while workers are reserved %d are free in p, and %d in q", p, q)
		}
		start(t.Context(), ledger.Decided{
			Started: []ledger.Started{{Task: &jobs.Task{ID: "1", Job: "a", Pool: "p", Token: 7}, Until: until}},
			Opened:  []jobs.Task{{ID: "2", Job: "c", Pool: "q"}},
		})
		<-h.Began
		synctest.Wait()
		if a := s.work.register.attemptAt("1"); a == nil || !a.until().Equal(until) || a.session != "session" || a.task.Token != 7 {
			t.Fatalf("running is %+v", a)
		}
		if p, q := s.work.slots.room("p"), s.work.slots.room("q"); p != 3 || q != 4 {
			t.Errorf("while one attempt runs in p, %d workers are free there, and %d in q", p, q)
		}
		if p, q, r := len(s.work.feeder("p").wake), len(s.work.feeder("q").wake), len(s.work.feeder("r").wake); p != 0 || q != 1 || r != 0 {
			t.Errorf("told that something waits: p %d, q %d, r %d", p, q, r)
		}
		close(h.End)
		synctest.Wait()
		if p := s.work.slots.room("p"); p != 4 {
			t.Errorf("afterwards %d workers are free", p)
		}
	})
}

// A worker is reserved for each job that this replica can run, while there are free ones.
func TestWorkersAreTakenForWhatCanRun(t *testing.T) {
	set := jobs.Set{Jobs: map[string]jobs.Job{}, Pools: map[string]jobs.Pool{
		"small": {Workers: 2}, "large": {Workers: 10}, "limited": {Workers: 10, MaxRunning: 5},
	}}
	for _, pool := range []string{"small", "large", "limited"} {
		for n := range 3 {
			set.Jobs[fmt.Sprint(pool, n)] = jobs.Job{Handler: replicatest.Blocked{}, Pool: pool}
		}
	}
	set.Jobs["elsewhere"] = jobs.Job{Handler: replicatest.Blocked{}, Pool: "large", RunsOn: map[string]string{"zone": "b"}}
	s, err := newOn(replicatest.NewPicky(nil), nil, set, Options{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	s.assume(&membership.Session{ID: "session", Trust: boottime.Now()})
	may, start := s.work.Reserve(s.plan, []string{"elsewhere", "large0", "large1", "limited0", "small0", "small1", "small2"})
	rooms := func() []int {
		return []int{s.work.slots.room("small"), s.work.slots.room("large"), s.work.slots.room("limited")}
	}
	if got := rooms(); !slices.Equal(got, []int{0, 8, 9}) {
		t.Errorf("free are %v", got)
	}
	want := map[string]ledger.Share{
		"large": {Hash: s.plan.Pools["large"].Hash, Room: 2}, "small": {Hash: s.plan.Pools["small"].Hash, Room: 2},
		"limited": {Hash: s.plan.Pools["limited"].Hash, Limited: true, Room: 1},
	}
	if diff := cmp.Diff(want, may.Pools); diff != "" {
		t.Errorf("the store is told of (-want +got):\n%s", diff)
	}
	start(t.Context(), ledger.Decided{})
	if got := rooms(); !slices.Equal(got, []int{2, 10, 10}) {
		t.Errorf("free are %v after all were given back", got)
	}
}
