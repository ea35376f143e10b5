package scheduler_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// kindsRun is handlers that note which kinds of tasks one replica ran.
type kindsRun struct {
	mu    sync.Mutex
	kinds map[string]int
}

// as is one of them, with an identity that other replicas know.
func (w *kindsRun) as(says string) jobs.Handler {
	return jobs.Named(says, does(func(_ context.Context, t jobs.Task, _ io.Writer) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.kinds == nil {
			w.kinds = map[string]int{}
		}
		w.kinds[t.Kind+t.Job]++
		return nil
	}))
}

func (w *kindsRun) ran() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.kinds))
}

// lines is what a replica logs.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) have(all ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(strings.Split(l.text.String(), "\n"), func(line string) bool {
		return !slices.ContainsFunc(all, func(part string) bool { return !strings.Contains(line, part) })
	})
}

// Two versions of a program on one store: the older one claims the tasks of kinds that are the same in both, and
// says which it leaves to the newer one.
func TestAnOlderReplicaClaimsWhatIsTheSame(t *testing.T) {
	t.Parallel()
	base := func(w *kindsRun) jobs.Pool {
		return jobs.Pool{Workers: 1, Handler: w.as("bare"), Kinds: map[string]jobs.Handler{"fax": w.as("fax"), "mail": w.as("mail")}}
	}
	all := []string{"", "fax", "mail"}
	for name, c := range map[string]struct {
		edit  func(w *kindsRun, p *jobs.Pool)
		older []string // kinds that both run
		newer []string // kinds that the newer one runs alone
		says  string   // of what is left
	}{
		"same": {func(*kindsRun, *jobs.Pool) {}, all, nil, ""},
		"what decides nothing": {func(w *kindsRun, p *jobs.Pool) {
			p.Description, p.Workers, p.MaxRunning = "letters", 2, 1000
			p.Notify = jobs.Notify{On: []jobs.Event{jobs.EventFailed}, Handler: w.as("chat")}
		}, all, nil, "settings of 1 pools that this replica has otherwise: p"},
		"a kind more":    {func(w *kindsRun, p *jobs.Pool) { p.Kinds["sms"] = w.as("sms") }, all, []string{"sms"}, "p (sms)"},
		"a kind changed": {func(w *kindsRun, p *jobs.Pool) { p.Kinds["fax"] = w.as("fax 2") }, []string{"", "mail"}, []string{"fax"}, "p (fax)"},
		"its own handler changed": {func(w *kindsRun, p *jobs.Pool) { p.Handler = w.as("bare 2") },
			[]string{"fax", "mail"}, []string{""}, "p (tasks without a kind)"},
		"a kind less":       {func(_ *kindsRun, p *jobs.Pool) { delete(p.Kinds, "fax") }, []string{"", "mail"}, nil, "p (fax)"},
		"a timeout changed": {func(_ *kindsRun, p *jobs.Pool) { p.Timeout = time.Hour }, nil, all, "p (tasks without a kind, fax, mail)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			left, logged := 1, c.says
			if slices.Equal(c.older, all) && len(c.newer) == 0 { // no tasks are left to the newer one
				left, logged = 0, "settings of pools differ"
			}
			db := sqlite(t)
			st := db.open(t)
			var one, two kindsRun
			var said lines
			older := start(t, st, nil, jobs.Set{Pools: map[string]jobs.Pool{"p": base(&one)}},
				scheduler.Options{ID: "older", Logger: slog.New(slog.NewTextHandler(&said, nil))})
			await.Until(t, "the older one governs", older.Loaded)
			await.Until(t, "the older one works", func() bool {
				enqueueKinds(t, st, all...)
				return len(one.ran()) == 3
			})
			edited := base(&two)
			c.edit(&two, &edited)
			newer := start(t, db.open(t), nil, jobs.Set{Pools: map[string]jobs.Pool{"p": edited}}, scheduler.Options{ID: "newer"})
			await.Until(t, "the newer one governs", newer.Loaded)
			drift := func() string { return older.Health()[3].Detail }
			await.Until(t, "the older one has learned", func() bool {
				return strings.Contains(drift(), c.says) && (c.says == "" || older.Vitals().ForeignPools == left && said.have("level=WARN", logged))
			})
			one.mu.Lock()
			one.kinds = nil
			one.mu.Unlock()
			both := slices.Concat(c.older, c.newer)
			slices.Sort(both)
			await.Until(t, "each one runs what it may", func() bool {
				for range 10 {
					enqueueKinds(t, st, both...)
				}
				return slices.Equal(one.ran(), c.older) && slices.Equal(two.ran(), both)
			})
			if c.says == "" && (drift() != "" || older.Vitals().ForeignPools != 0) {
				t.Errorf("it says %s", drift())
			}
			if got := one.ran(); !slices.Equal(got, c.older) {
				t.Errorf("the older one ran %q", got)
			}
			if name == "a kind less" {
				if _, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "p", Kind: "fax"}); err == nil {
					t.Error("a kind that the newer one lacks is taken in")
				}
			}
			if err := newer.drain(); err != nil {
				t.Error(err)
			}
			await.Until(t, "the older one governs again", func() bool { return drift() == "" && older.Vitals().ForeignPools == 0 })
			await.Until(t, "and runs all that it has", func() bool {
				enqueueKinds(t, st, all...)
				return slices.Equal(one.ran(), all)
			})
		})
	}
}

func enqueueKinds(t *testing.T, st *store.Store, kinds ...string) {
	t.Helper()
	var tasks []jobs.NewTask
	for _, kind := range kinds {
		tasks = append(tasks, jobs.NewTask{Pool: "p", Kind: kind, Force: true})
	}
	if _, err := st.Enqueue(t.Context(), tasks...); err != nil {
		t.Fatal(err)
	}
}

// The limit of the newest configuration holds for all, whatever an older replica was started with.
func TestTheNewestLimitHoldsForOlderReplicas(t *testing.T) {
	t.Parallel()
	db := sqlite(t)
	st := db.open(t)
	var running, most atomic.Int64
	var byOlder atomic.Bool
	release := make(chan struct{})
	set := func(replica string, workers, limit int) jobs.Set {
		return jobs.Set{Pools: map[string]jobs.Pool{"p": {Workers: workers, MaxRunning: limit, Handler: does(func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
			if replica == "older" {
				byOlder.Store(true)
			}
			n := running.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			defer running.Add(-1)
			select {
			case <-release:
			case <-time.After(20 * time.Millisecond):
			}
			return nil
		})}}}
	}
	older := start(t, st, nil, set("older", 4, 0), scheduler.Options{ID: "older"})
	await.Until(t, "the older one governs", older.Loaded)
	newer := start(t, db.open(t), nil, set("newer", 1, 2), scheduler.Options{ID: "newer"})
	await.Until(t, "the newer one governs", newer.Loaded)
	enqueueKinds(t, st, slices.Repeat([]string{""}, 100)...)
	await.Until(t, "the older one has run some of it", func() bool { return byOlder.Load() }) // the newer one's worker leaves it a place
	await.Until(t, "all is run", func() bool {
		all, err := st.Sides().API.Pools(t.Context())
		return err == nil && !slices.ContainsFunc(all, func(p ledger.PoolStatus) bool { return p.Pending+p.Running > 0 })
	})
	close(release)
	if n := most.Load(); n > 2 {
		t.Errorf("%d ran at once", n)
	}
}

// counted is a store that counts the claims and looks of one replica in the pool p.
type counted struct {
	ledger.Store
	claims, looks atomic.Int64
}

func (c *counted) Claim(ctx context.Context, claim ledger.Claim) (ledger.Claimed, error) {
	if claim.Pool == "p" {
		c.claims.Add(1)
	}
	return c.Store.Claim(ctx, claim)
}

func (c *counted) Ready(ctx context.Context, now ledger.Judge) (ledger.Ready, error) {
	c.looks.Add(1)
	return c.Store.Ready(ctx, now)
}

// held is a handler that runs until the test is over.
func held(says string, t *testing.T) jobs.Handler {
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	return jobs.Named(says, does(func(ctx context.Context, _ jobs.Task, _ io.Writer) error {
		select {
		case <-ctx.Done():
		case <-over:
		}
		return nil
	}))
}

// Work that is left to a newer replica, which does not come to it, is no work for an older one: it makes no claims in
// vain, nor looks more often than without work.
func TestWhatIsLeftToANewerReplicaIsNoWork(t *testing.T) {
	t.Parallel()
	db := sqlite(t)
	users := db.open(t)
	st := &counted{Store: users.Sides().Replica}
	var one kindsRun
	set := func(h jobs.Handler) jobs.Set {
		return jobs.Set{Pools: map[string]jobs.Pool{"p": {Workers: 1, Kinds: map[string]jobs.Handler{"fax": h, "mail": one.as("mail")}}}}
	}
	older := start(t, st, nil, set(one.as("fax")), scheduler.Options{ID: "older"})
	await.Until(t, "the older one governs", older.Loaded)
	start(t, db.open(t), nil, set(held("fax 2", t)), scheduler.Options{ID: "newer", DrainTimeout: time.Millisecond})
	await.Until(t, "the older one has learned", func() bool { return older.Vitals().ForeignPools == 1 })
	for range 20 {
		enqueueKinds(t, users, "fax")
	}
	begin, looked := time.Now(), st.looks.Load()
	claims := st.claims.Load()
	await.Until(t, "the older one looks at the pools", func() bool { return st.looks.Load() > looked+6 })
	if n := st.claims.Load() - claims; n > 3 { // it may have asked what governs once more
		t.Errorf("%d claims in %d looks", n, st.looks.Load()-looked)
	}
	if took := time.Since(begin); took < time.Second {
		t.Errorf("six looks in %v", took)
	}
	enqueueKinds(t, users, "mail")
	await.Until(t, "and runs what it may", func() bool { return slices.Equal(one.ran(), []string{"mail"}) })
}

// Jobs with handlers of their own go on in a pool that is left to a newer replica; those that have the pool's do not.
func TestJobsInAPoolThatIsLeftToANewerReplica(t *testing.T) {
	t.Parallel()
	db := sqlite(t)
	var one, two kindsRun
	set := func(w *kindsRun, h jobs.Handler) jobs.Set {
		set := jobs.Set{
			Pools: map[string]jobs.Pool{"p": {Workers: 20, Kinds: map[string]jobs.Handler{"fax": h}}},
			Jobs:  map[string]jobs.Job{},
		}
		for n := range 8 {
			set.Jobs[fmt.Sprint("own-", n)] = jobs.Job{Schedule: "* * * * * *", Pool: "p", Concurrency: jobs.Allow, Handler: w.as("own")}
			set.Jobs[fmt.Sprint("faxes-", n)] = jobs.Job{Schedule: "* * * * * *", Pool: "p", Concurrency: jobs.Allow, Kind: "fax"}
		}
		return set
	}
	older := start(t, db.open(t), nil, set(&one, one.as("fax")), scheduler.Options{ID: "older"})
	await.Until(t, "the older one works", func() bool { return len(one.ran()) == 16 })
	start(t, db.open(t), nil, set(&two, two.as("fax 2")), scheduler.Options{ID: "newer"})
	await.Until(t, "the older one has learned", func() bool { return older.Vitals().ForeignPools == 1 })
	await.Until(t, "the newer one works", func() bool { return len(two.ran()) > 8 })
	one.mu.Lock()
	one.kinds = nil
	one.mu.Unlock()
	two.mu.Lock()
	two.kinds = nil
	two.mu.Unlock()
	faxes := func(w *kindsRun) int {
		return len(slices.DeleteFunc(w.ran(), func(name string) bool { return !strings.Contains(name, "faxes-") }))
	}
	await.Until(t, "the newer one runs all that have the pool's handler", func() bool { return faxes(&two) == 8 })
	await.Until(t, "the older one runs some that have their own", func() bool { return len(one.ran()) > 0 })
	if n := faxes(&one); n > 0 {
		t.Errorf("it ran %d jobs by a handler that the newer one has otherwise", n)
	}
}
