package scheduler_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	_ "github.com/lockstep-scheduler/lockstep/store/sqlite"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) {
	if os.Getenv(scheduler.MachineClock) == "" {
		boottime.Simulated() // in a bubble of synctest there is no other clock
	}
	_ = flag.Set("test.parallel", "4") // they wait more than they work
	os.Exit(servers.Main(m))
}

// database is the store that the replicas of a test share.
type database struct {
	driver, dsn string
}

func sqlite(t *testing.T) database {
	return database{"sqlite", filepath.Join(t.TempDir(), "lockstep.db")}
}

func mysql(t *testing.T) database { return database{"mysql", servers.MySQL(t)} }

// open opens the database as one process would.
func (d database) open(t *testing.T) *store.Store {
	t.Helper()
	st, err := store.Open(t.Context(), store.Dialect(d.driver), d.dsn, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	if err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return st
}

// replica is one that runs.
type replica struct {
	*scheduler.Scheduler
	t    *testing.T
	stop context.CancelFunc
	done chan error
}

// sides makes a store of what a test has: one, or the side of replicas alone.
func sides(t *testing.T, st any) scheduler.Store {
	t.Helper()
	switch st := st.(type) {
	case scheduler.Store:
		return st
	case ledger.Store:
		return ledger.Sides{Replica: st}
	}
	t.Fatalf("%T is no store", st)
	return nil
}

func start(t *testing.T, st any, lk scheduler.Locks, set jobs.Set, o scheduler.Options) *replica {
	t.Helper()
	if o.Logger == nil && testing.Verbose() {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil)).With("on", o.ID)
	}
	s, err := scheduler.New(sides(t, st), lk, set, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &replica{s, t, stop, make(chan error, 1)}
	go func() { r.done <- s.Run(ctx) }()
	t.Cleanup(func() { r.drain() })
	return r
}

// drain stops the replica and returns what Run returned.
func (r *replica) drain() error {
	r.stop()
	err := <-r.done
	r.done <- err
	return err
}

// does is a handler made of a function.
type does func(ctx context.Context, t jobs.Task, out io.Writer) error

func (f does) Run(ctx context.Context, t jobs.Task, out io.Writer) error { return f(ctx, t, out) }

// Identity is the same for all of them.
func (does) Identity() string { return "test" }

// starts counts how often each idempotency key was started.
type starts struct {
	mu sync.Mutex
	by map[string]int
}

func (s *starts) Run(_ context.Context, t jobs.Task, _ io.Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[string]int{}
	}
	s.by[t.IdempotencyKey]++
	return nil
}

func (s *starts) Describe() string { return "starts" }

func (s *starts) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.by)
}

func (s *starts) onlyOnce(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, n := range s.by {
		if n != 1 {
			t.Errorf("%s was started %d times", key, n)
		}
	}
}

// skewed is a store whose clock is off, as a replica would see it.
type skewed struct {
	ledger.Store
	by atomic.Int64 // nanoseconds
}

func skew(st ledger.Store, by time.Duration) *skewed {
	s := &skewed{Store: st}
	s.by.Store(int64(by))
	return s
}

func (s *skewed) off() time.Duration { return time.Duration(s.by.Load()) }

func (s *skewed) Beat(ctx context.Context, session string) (time.Time, error) {
	at, err := s.Store.Beat(ctx, session)
	return at.Add(s.off()), err
}

func (s *skewed) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	d.Now = s.judge(d.Now)
	return s.Store.Decide(ctx, d)
}

func (s *skewed) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	c.Now = s.judge(c.Now)
	return s.Store.Claim(ctx, c)
}

func (s *skewed) judge(now ledger.Judge) ledger.Judge {
	return func(database time.Time) (time.Time, error) { return now(database.Add(s.off())) }
}

func (s *skewed) Ready(ctx context.Context, now ledger.Judge) (ledger.Ready, error) {
	return s.Store.Ready(ctx, s.judge(now))
}

func (s *skewed) Sweep(ctx context.Context, now ledger.Judge, r jobs.Retention, limit int) (bool, error) {
	return s.Store.Sweep(ctx, s.judge(now), r, limit)
}

func (s *skewed) Load(ctx context.Context, session string, d ledger.Definitions) (int64, error) {
	d.Now = s.judge(d.Now)
	return s.Store.Load(ctx, session, d)
}

func (s *skewed) Assert(ctx context.Context, session string, d ledger.Definitions) (ledger.Assertion, error) {
	d.Now = s.judge(d.Now)
	return s.Store.Assert(ctx, session, d)
}

// behind is a store that shows each job's cursor as it was a few due times ago, as to a replica that
// decides by rows that it read before the others decided.
type behind struct{ ledger.Store }

func (b behind) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	decide := d.Decide
	d.Decide = func(now time.Time, states []ledger.JobState) []ledger.Decision {
		for i := range states {
			states[i].Cursor = states[i].Cursor.Add(-3 * time.Second)
		}
		return decide(now, states)
	}
	return b.Store.Decide(ctx, d)
}

func (b behind) Overdue(ctx context.Context, at time.Time, limit int) ([]ledger.Upcoming, error) {
	return b.Store.Overdue(ctx, at.Add(3*time.Second), limit) // it looks too early, too
}

// ledgerOf reads all rows of a job, or of all jobs if it is "", oldest first.
func ledgerOf(t *testing.T, st *store.Store, job string) []jobs.Trigger {
	t.Helper()
	var all []jobs.Trigger
	f := wire.TriggerFilter{Job: job, Page: wire.Page{Limit: 500}}
	for {
		rows, next, err := st.Triggers(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rows...)
		if next == "" {
			break
		}
		f.Cursor = next
	}
	for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
		all[i], all[j] = all[j], all[i]
	}
	return all
}

// covered checks that the rows of a job that is due each second cover each second once.
func covered(t *testing.T, rows []jobs.Trigger) {
	t.Helper()
	for i, r := range rows {
		if i == 0 {
			continue
		}
		last := rows[i-1].At
		if !rows[i-1].Until.IsZero() {
			last = rows[i-1].Until
		}
		if want := last.Add(time.Second); !r.At.Equal(want) {
			t.Errorf("after the row for %v comes %v, not %v", last, r.At, want)
		}
	}
}

func TestEightReplicasWithSkewedClocksRunNoDueTimeTwice(t *testing.T) {
	for name, open := range map[string]func(*testing.T) database{"sqlite": sqlite, "mysql": mysql} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t)
			st := db.open(t)
			ran := &starts{}
			set := jobs.Set{Jobs: map[string]jobs.Job{}}
			for i := range 6 {
				set.Jobs[fmt.Sprint("second-", i)] = jobs.Job{Schedule: "* * * * * *", Handler: ran, Concurrency: jobs.Allow}
			}
			for i := range 8 {
				off := time.Duration(i*2-7) * 1500 * time.Millisecond / 7 // −1.5 s … +1.5 s
				var each ledger.Store = skew(db.open(t).Sides().Replica, off)
				if i == 0 {
					each = behind{each}
				}
				start(t, each, nil, set, scheduler.Options{ID: fmt.Sprint("r", i), SessionTTL: 5 * time.Second})
			}
			await.Until(t, "60 due times have run", func() bool { return ran.count() >= 60 })
			ran.onlyOnce(t)
			for job := range set.Jobs {
				covered(t, ledgerOf(t, st, job))
			}
		})
	}
}
