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

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// replaced is a set with one job, and a pool of that many workers.
func replaced(schedule string, workers int, h jobs.Handler) jobs.Set {
	return jobs.Set{
		Jobs:  map[string]jobs.Job{"j": {Schedule: schedule, Handler: h}},
		Pools: map[string]jobs.Pool{"p": {Workers: workers, Handler: h}},
	}
}

// replicasRun runs replicas in a bubble until the test ends.
func replicasRun(t *testing.T, all ...*Scheduler) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	for _, s := range all {
		ended.Go(func() {
			if err := s.Run(ctx); err != nil {
				t.Errorf("%s: %v", s.ID(), err)
			}
		})
	}
	time.Sleep(3 * time.Second)
	synctest.Wait()
	return func() { cancel(); ended.Wait() }
}

func replicaWith(t *testing.T, db *memstore.Database, id string, set jobs.Set) *Scheduler {
	t.Helper()
	s, err := newOn(&memstore.Store{Database: db}, nil, set, Options{ID: id, DrainTimeout: time.Second, StopGrace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// row is one of the ledger.
type row struct {
	at, decided              time.Time
	outcome, result, because string
}

// ledgerOf are the rows of a job, in order.
func ledgerOf(t *testing.T, db *memstore.Database, job string) (all []row) {
	t.Helper()
	columns := memstore.Tables()["triggers"]
	of := func(values []any, column string) string { return fmt.Sprint(values[slices.Index(columns, column)]) }
	moment := func(values []any, column string) time.Time {
		return time.UnixMicro(values[slices.Index(columns, column)].(int64))
	}
	rows, _ := db.Dump("triggers")
	for _, values := range rows {
		if of(values, "job") == job {
			all = append(all, row{moment(values, "at"), moment(values, "decided_at"), of(values, "outcome"), of(values, "result"), of(values, "reason_code")})
		}
	}
	slices.SortFunc(all, func(a, b row) int { return a.at.Compare(b.at) })
	return all
}

// A replica goes by the new set at once: its jobs are due by the new schedules, its pools have the new workers, and what it did not have
// before is there. Nothing fires for times that have passed.
func TestReplace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New()
		st := &memstore.Store{Database: db}
		h := &replicatest.Counting{}
		s := replicaWith(t, db, "a", replaced("0 0 1 1 *", 1, h))
		defer replicasRun(t, s)()
		set := replaced("*/5 * * * * *", 2, h)
		set.Jobs["new"] = jobs.Job{Schedule: "* * * * * *", Handler: h}
		began := time.Now()
		out, err := s.Replace(t.Context(), set, ReplaceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := wire.Reloaded{
			Replica: "a", Config: 2, ConfigHash: s.plan.Load().Definitions().Hash, Governs: true,
			Jobs: wire.Changed{Added: []string{"new"}, Changed: []string{"j"}}, Pools: wire.Changed{Changed: []string{"p"}},
		}
		if diff := cmp.Diff(want, out); diff != "" {
			t.Error(diff)
		}
		if got := s.Set().Pools["p"].Workers; got != 2 {
			t.Errorf("%d workers", got)
		}
		time.Sleep(30 * time.Second)
		for _, job := range []string{"j", "new"} {
			rows := ledgerOf(t, db, job)
			if n := map[string]int{"j": 6, "new": 30}[job]; len(rows) < n-1 || len(rows) > n+1 {
				t.Errorf("%d rows of %s in 30 s", len(rows), job)
			}
			for _, g := range rows {
				if g.at.Before(began) || g.decided.Sub(g.at) > time.Second {
					t.Errorf("%s: due at %v, decided at %v, replaced at %v", job, g.at, g.decided, began)
				}
			}
		}
		delete(set.Jobs, "j")
		if out, err = s.Replace(t.Context(), set, ReplaceOptions{}); err != nil || !slices.Equal(out.Jobs.Removed, []string{"j"}) || out.Config != 3 {
			t.Fatalf("%+v, %v", out, err)
		}
		set.Pools["q"] = jobs.Pool{Handler: h}
		if out, err = s.Replace(t.Context(), set, ReplaceOptions{}); err != nil || !slices.Equal(out.Pools.Added, []string{"q"}) || !s.Runs("q", "") {
			t.Errorf("a new pool: %+v, %v, runs %v", out, err, s.Runs("q", ""))
		}
		delete(set.Pools, "q")
		if out, err = s.Replace(t.Context(), set, ReplaceOptions{}); err != nil || out.Config != 3 || s.Runs("q", "") {
			t.Errorf("a removed pool: %+v, %v, runs %v", out, err, s.Runs("q", ""))
		}
		before := len(ledgerOf(t, db, "j"))
		time.Sleep(20 * time.Second)
		if after := len(ledgerOf(t, db, "j")); after != before {
			t.Errorf("a removed job: %d rows, and %d later", before, after)
		}
		if _, _, err := s.RunJob(t.Context(), "j", "", ""); !errors.Is(err, jobs.ErrNotFound) {
			t.Errorf("a run of a removed job: %v", err)
		}
		if peers, err := st.Peers(t.Context()); err != nil || peers[0].Config != 3 || peers[0].ConfigHash != out.ConfigHash {
			t.Errorf("%+v, %v", peers, err)
		}
	})
}

// What is wrong changes nothing, and neither does a store that does not answer.
func TestReplaceThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New()
		st := &deaf{Store: &memstore.Store{Database: db}}
		s, err := newOn(st, nil, replaced("* * * * * *", 1, replicatest.Nothing{}), Options{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		stop := replicasRun(t, s)
		before := s.plan.Load()
		good := replaced("* * * * *", 2, replicatest.Nothing{})
		bad := replaced("* * * * *", 2, replicatest.Nothing{})
		bad.Jobs["k"] = jobs.Job{Schedule: "61 * * * *", Handler: replicatest.Nothing{}}
		locked := replaced("* * * * *", 2, replicatest.Nothing{})
		j := locked.Jobs["j"]
		j.Locks = []jobs.Lock{{Key: "db"}}
		locked.Jobs["j"] = j
		wrong := (*jobs.FieldError)(nil)
		if _, err := s.Replace(t.Context(), bad, ReplaceOptions{}); !errors.As(err, &wrong) {
			t.Errorf("a wrong schedule: %v", err)
		}
		if _, err := s.Replace(t.Context(), locked, ReplaceOptions{}); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "lock service") {
			t.Errorf("locks without a lock service: %v", err)
		}
		st.set(true)
		if _, err := s.Replace(t.Context(), good, ReplaceOptions{}); !errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("a store that is away: %v", err)
		}
		st.set(false)
		if s.plan.Load() != before || s.members.Config().Number != 1 {
			t.Errorf("configuration %+v", s.members.Config())
		}
		n := len(ledgerOf(t, db, "j"))
		time.Sleep(10 * time.Second)
		if more := len(ledgerOf(t, db, "j")) - n; more < 9 {
			t.Errorf("%d rows in 10 s", more)
		}
		stop()
		if _, err := s.Replace(t.Context(), good, ReplaceOptions{}); !errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("after the drain: %v", err)
		}
	})
}

// deaf is a store that takes no configurations while it is set.
type deaf struct {
	*memstore.Store
	mu      sync.Mutex
	refuses bool
}

func (r *deaf) set(is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuses = is
}

func (r *deaf) away() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuses {
		return fmt.Errorf("%w: cut off by the test", jobs.ErrUnavailable)
	}
	return nil
}

func (r *deaf) Enter(ctx context.Context, session string, d ledger.Definitions) (int64, error) {
	if err := r.away(); err != nil {
		return 0, err
	}
	return r.Store.Enter(ctx, session, d)
}

// failing waits, and fails.
type failing struct{ replicatest.Blocked }

func (f failing) Run(ctx context.Context, t jobs.Task, out io.Writer) error {
	_ = f.Blocked.Run(ctx, t, out)
	return errors.New("no paper")
}

// An attempt ends by the definition that it began with; its retry goes by the new one. A task of a removed job is not retried.
func TestWhatRunsEndsAsItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New()
		old, next := replicatest.NewBlocked(10), &replicatest.Counting{}
		failing := failing{old}
		set := replaced("0 0 1 1 *", 4, failing)
		for _, name := range []string{"kept", "gone"} {
			set.Jobs[name] = jobs.Job{Handler: failing, Retries: jobs.Retries{Limit: 5, Backoff: time.Second}}
		}
		s := replicaWith(t, db, "a", set)
		defer replicasRun(t, s)()
		for _, name := range []string{"kept", "gone"} {
			if _, _, err := s.RunJob(t.Context(), name, "", ""); err != nil {
				t.Fatal(err)
			}
			<-old.Began
		}
		set = replaced("0 0 1 1 *", 4, failing)
		set.Jobs["kept"] = jobs.Job{Handler: next}
		if _, err := s.Replace(t.Context(), set, ReplaceOptions{}); err != nil {
			t.Fatal(err)
		}
		close(old.End)
		time.Sleep(5 * time.Second)
		if n := next.Count(); n != 1 {
			t.Errorf("the retry has run %d times by the new definition", n)
		}
		time.Sleep(3 * time.Minute)
		rows := ledgerOf(t, db, "gone")
		if len(rows) != 1 || rows[0].outcome != string(jobs.Ran) || rows[0].result != string(jobs.StateCancelled) || rows[0].because != string(reason.JobRemoved) {
			t.Errorf("the removed job: %+v", rows)
		}
	})
}
