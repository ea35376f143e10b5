package scheduler

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// polled is a store that counts its calls for work.
type polled struct {
	*memstore.Store
	readies, claims, looks atomic.Int64
}

func (p *polled) Ready(ctx context.Context, now ledger.Judge) (ledger.Ready, error) {
	p.readies.Add(1)
	return p.Store.Ready(ctx, now)
}

func (p *polled) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	p.claims.Add(1)
	return p.Store.Claim(ctx, c)
}

func (p *polled) Look(ctx context.Context, pool string, l ledger.Look) (ledger.Seen, error) {
	p.looks.Add(1)
	return p.Store.Look(ctx, pool, l)
}

// asked is how many calls for work came in a minute.
func (p *polled) asked() (readies, claims int64) {
	p.readies.Store(0)
	p.claims.Store(0)
	time.Sleep(time.Minute)
	return p.readies.Load(), p.claims.Load()
}

// quick is a handler that returns at once and counts.
type quick struct{ n *atomic.Int64 }

func (q quick) Run(context.Context, jobs.Task, io.Writer) error { q.n.Add(1); return nil }

// Identity is the same for all of them.
func (quick) Identity() string { return "quick" }

// running starts a replica that ends with the test's bubble.
func runs(t *testing.T, st ledger.Store, set jobs.Set, o Options) *Scheduler {
	t.Helper()
	s, err := newOn(st, nil, set, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// Tasks that a replica cannot run cost it no more than its poll, do not delay the tasks behind them, and run
// as soon as a replica joins that can run them.
func TestTasksThatCannotRunHereCostNothing(t *testing.T) {
	ran, later := new(atomic.Int64), new(atomic.Int64)
	pool := func(kinds ...string) jobs.Pool {
		p := jobs.Pool{Kinds: map[string]jobs.Handler{"known": quick{ran}}}
		for _, kind := range kinds {
			p.Kinds[kind] = quick{later}
		}
		return p
	}
	const many = 1500
	var newKinds []string
	for n := range many {
		newKinds = append(newKinds, fmt.Sprint("new-", n))
	}
	tasks := func(pool string, kinds ...string) (all []jobs.NewTask) {
		for _, kind := range kinds {
			all = append(all, jobs.NewTask{Pool: pool, Kind: kind, Priority: 100, Force: true})
		}
		return all
	}
	for name, c := range map[string]struct {
		before []jobs.NewTask // of the first replica's, of a second one, which goes and leaves them
		knows  jobs.Set       // of a replica that can run them
	}{
		"a kind":                            {tasks("p", "new-0"), jobs.Set{Pools: map[string]jobs.Pool{"p": pool("new-0")}}},
		"more kinds than a statement names": {tasks("p", newKinds...), jobs.Set{Pools: map[string]jobs.Pool{"p": pool(newKinds...)}}},
		"no kind":                           {tasks("p", ""), jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: quick{later}, Kinds: pool().Kinds}}}},
		"a pool":                            {tasks("other", ""), jobs.Set{Pools: map[string]jobs.Pool{"p": pool(), "other": {Handler: quick{later}}}}},
		"a pool without a handler":          {tasks("default", ""), jobs.Set{Pools: map[string]jobs.Pool{"p": pool(), "default": {Handler: quick{later}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran.Store(0)
				later.Store(0)
				db := memstore.New()
				st := &polled{Store: &memstore.Store{Database: db}}
				set := jobs.Set{Pools: map[string]jobs.Pool{"p": pool()}}
				runs(t, st, set, Options{ID: "a", Workers: 4})
				time.Sleep(10 * time.Second)
				idle, _ := st.asked()
				if err := st.AddPools(t.Context(), map[string]jobs.Pool{"other": {}}); err != nil {
					t.Fatal(err)
				}
				if _, err := st.Enqueue(t.Context(), c.before...); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				if readies, claims := st.asked(); claims > 1 || readies > idle*12/10 {
					t.Errorf("a minute beside it: %d claims, and %d times it asked for work, where %d is idle", claims, readies, idle)
				}
				behind := make([]jobs.NewTask, 100)
				for i := range behind {
					behind[i] = jobs.NewTask{Pool: "p", Kind: "known"}
				}
				if _, err := st.Enqueue(t.Context(), behind...); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				if n := ran.Load(); n != 100 {
					t.Errorf("%d of 100 tasks behind it were run", n)
				}
				runs(t, &memstore.Store{Database: db}, c.knows, Options{ID: "b"})
				time.Sleep(5 * time.Second)
				if n := later.Load(); n != int64(len(c.before)) {
					t.Errorf("%d of %d were run by the replica that knows them", n, len(c.before))
				}
			})
		})
	}
}

// Tasks of jobs that this replica has otherwise, or whose labels it lacks, are no work for it, however many.
func TestJobsOfOthersCostNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ran := new(atomic.Int64)
		set := func(n int) jobs.Set {
			set := jobs.Set{Jobs: map[string]jobs.Job{}, Pools: map[string]jobs.Pool{"default": {Handler: quick{ran}}}}
			for i := range n {
				set.Jobs[fmt.Sprint("job-", i)] = jobs.Job{Handler: quick{ran}, RunsOn: map[string]string{"zone": "b"}}
			}
			return set
		}
		db := memstore.New()
		st := &polled{Store: &memstore.Store{Database: db}}
		const many = 1200 // more than a claim leaves out
		s := runs(t, st, set(many), Options{ID: "a", Labels: map[string]string{"zone": "a"}})
		time.Sleep(10 * time.Second)
		idle, _ := st.asked()
		for i := range many {
			if _, _, err := s.RunJob(t.Context(), fmt.Sprint("job-", i), "test", ""); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		// There are more of them than a statement names: it looks now and then whether those in front have gone.
		if readies, claims := st.asked(); claims > 8 || readies > idle*12/10 {
			t.Errorf("a minute beside them: %d claims, and %d times it asked for work, where %d is idle", claims, readies, idle)
		}
		runs(t, &memstore.Store{Database: db}, set(many), Options{ID: "b", Labels: map[string]string{"zone": "b"}})
		time.Sleep(20 * time.Second)
		if n := ran.Load(); n != many {
			t.Errorf("%d of %d were run by the replica with the labels", n, many)
		}
	})
}

// A pool that differs in a newer configuration is left to its replicas, and taken back when they have left.
func TestAPoolOfANewerConfigurationCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := new(atomic.Int64)
		db := memstore.New()
		st := &polled{Store: &memstore.Store{Database: db}}
		runs(t, st, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: quick{ran}}}}, Options{ID: "a"})
		time.Sleep(10 * time.Second)
		idle, _ := st.asked()
		newer, err := newOn(&memstore.Store{Database: db}, nil, jobs.Set{Pools: map[string]jobs.Pool{"p": {Workers: 3, Kinds: map[string]jobs.Handler{"k": quick{ran}}}}}, Options{ID: "b"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- newer.Run(ctx) }()
		time.Sleep(10 * time.Second)
		if _, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "p", Force: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if readies, claims := st.asked(); claims > 8 || readies > idle*12/10 {
			t.Errorf("a minute beside it: %d claims, and %d times it asked for work, where %d is idle", claims, readies, idle)
		}
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if ran.Load() != 1 {
			t.Error("it does not run what it governs again")
		}
	})
}

// Tasks that no replica can run are logged once for each pool and kind, with the count, and again an hour later; tasks that
// another replica can run are not.
func TestUnrunnableTasksAreLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New()
		st := &memstore.Store{Database: db}
		log := &replicatest.Warnings{}
		const unrunnableEvery, unrunnableLines = time.Minute, 50 // how often it is read, and how many lines are logged then
		n := new(atomic.Int64)
		set := func(kinds ...string) jobs.Set {
			p := jobs.Pool{Kinds: map[string]jobs.Handler{}}
			for _, kind := range kinds {
				p.Kinds[kind] = quick{n}
			}
			return jobs.Set{Pools: map[string]jobs.Pool{"p": p}}
		}
		runs(t, st, set("known"), Options{ID: "a", Logger: slog.New(log)})
		time.Sleep(5 * time.Second)
		log.Take()
		for _, kind := range []string{"typo", "typo", "other"} {
			if _, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "p", Kind: kind, Force: true}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Second)
		want := func(when string, kinds map[string]int) {
			t.Helper()
			all := log.Take()
			if len(all) != len(kinds) {
				t.Errorf("%s: %d lines: %q", when, len(all), all)
			}
			for kind, tasks := range kinds {
				if !slices.ContainsFunc(all, func(line string) bool {
					return strings.Contains(line, fmt.Sprintf("cannot run: no live replica has a handler for their kind; start one that has, or cancel them pool=p kind=%s tasks=%d since=", kind, tasks))
				}) {
					t.Errorf("%s: nothing of %d tasks of kind %s in %q", when, tasks, kind, all)
				}
			}
		}
		want("at first", map[string]int{"typo": 2, "other": 1})
		time.Sleep(50 * time.Minute)
		want("within the hour", nil)
		time.Sleep(12 * time.Minute)
		want("an hour later", map[string]int{"typo": 2, "other": 1})
		runs(t, &memstore.Store{Database: db}, set("known", "typo"), Options{ID: "b", Logger: slog.New(slog.DiscardHandler)})
		time.Sleep(time.Minute)
		log.Take()
		time.Sleep(time.Hour)
		want("once the typo has a handler", map[string]int{"other": 1})

		for n := range 2 * unrunnableLines {
			if _, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "p", Kind: fmt.Sprint("new-", n), Force: true}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(unrunnableEvery)
		if n := len(log.Take()); n != unrunnableLines {
			t.Errorf("%d lines at once", n)
		}
		time.Sleep(unrunnableEvery)
		if n := len(log.Take()); n != unrunnableLines {
			t.Errorf("%d lines a minute later", n)
		}
	})
}

// counted is a store that counts the reads of unrunnable.
type counted struct {
	*memstore.Store
	n atomic.Int64
}

func (l *counted) Pools(ctx context.Context) ([]ledger.PoolStatus, error) {
	l.n.Add(1)
	return l.Store.Pools(ctx)
}

// A replica reads what no replica can run while there is some, and again when it meets the next such task.
func TestUnknownKindsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := &counted{Store: &memstore.Store{Database: memstore.New()}}
		log := &replicatest.Warnings{}
		set := jobs.Set{Pools: map[string]jobs.Pool{"p": {Kinds: map[string]jobs.Handler{"known": quick{new(atomic.Int64)}}}}}
		runs(t, st, set, Options{ID: "a", Logger: slog.New(log)})
		time.Sleep(5 * time.Second)
		log.Take()
		for n := range 3 {
			var made []jobs.Enqueued
			for _, pool := range []string{"p", naming.DefaultPool} {
				one, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: pool, Kind: fmt.Sprint("typo", n), Force: true})
				if err != nil {
					t.Fatal(err)
				}
				made = append(made, one...)
			}
			time.Sleep(15 * time.Second) // the pool is polled after at most 10 s
			all := strings.Join(log.Take(), "\n")
			for _, part := range []string{
				fmt.Sprintf("no live replica has a handler for their kind; start one that has, or cancel them pool=p kind=typo%d ", n),
				fmt.Sprintf("their pool has no handler in any live replica; %s, or cancel them pool=default kind=typo%d ", ledger.GiveHandler, n),
			} {
				if !strings.Contains(all, part) {
					t.Errorf("round %d: the log lacks %q: %s", n, part, all)
				}
			}
			before := st.n.Load()
			time.Sleep(10 * time.Minute)
			if asked := st.n.Load() - before; asked < 9 {
				t.Errorf("while it waits it is asked %d times in ten minutes", asked)
			}
			for _, m := range made {
				if _, err := st.Cancel(t.Context(), m.Task.ID, "test"); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(3 * time.Minute)
			log.Take()
			before = st.n.Load()
			time.Sleep(time.Hour)
			if asked := st.n.Load() - before; asked > 0 {
				t.Errorf("once it is gone it is asked %d times in an hour", asked)
			}
		}
	})
}

// Tasks that other replicas have a handler for, and no free worker yet, cost one read a minute, however often they are met.
func TestWhatOthersRunIsLookedAtSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New()
		st := &counted{Store: &memstore.Store{Database: db}}
		busy := jobs.Pool{Workers: 1, Handler: jobs.HandlerFunc(func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
			<-ctx.Done()
			return ctx.Err()
		})}
		runs(t, st, jobs.Set{}, Options{ID: "a", Logger: slog.New(slog.DiscardHandler)})
		time.Sleep(5 * time.Second) // b's configuration governs
		runs(t, &memstore.Store{Database: db}, jobs.Set{Pools: map[string]jobs.Pool{"other": busy}}, Options{ID: "b", Logger: slog.New(slog.DiscardHandler)})
		time.Sleep(5 * time.Second)
		for range 2 {
			if _, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "other"}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		st.n.Store(0)
		time.Sleep(20 * time.Minute)
		if asked := st.n.Load(); asked < 1 || asked > 20 {
			t.Errorf("asked %d times in 20 minutes", asked)
		}
	})
}
