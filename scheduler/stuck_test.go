package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/internal/syskeys"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// holdAll holds every stripe's lock and those of some pools, and does nothing with them, as a holder
// that hangs or was killed right after acquiring them. Call the answer at the end.
func holdAll(t *testing.T, service *memlock.Service, pools ...string) (stillHeld func()) {
	t.Helper()
	var all []locks.Request
	for n := range ledger.Stripes {
		all = append(all, locks.Request{Key: fmt.Sprintf("sys/stripe/%02d", n)})
	}
	for _, name := range pools {
		all = append(all, locks.Request{Key: "sys/pool/" + name})
	}
	got, err := locker(t, service).TryAcquire(syskeys.Allow(t.Context()), all...)
	if err != nil || slices.ContainsFunc(got, func(a locks.Attempt) bool { return a.Lease == nil }) {
		t.Fatal("the stuck holder did not get the locks", err)
	}
	return func() {
		t.Helper()
		for _, a := range got {
			if a.Lease.Check() != nil {
				t.Fatal("the stuck holder lost its locks during the test, which shows nothing then")
			}
		}
	}
}

// timed is a store that measures deciding and claiming.
type timed struct {
	ledger.Store
	mu      sync.Mutex
	longest time.Duration // of one call
	rounds  []round       // deciding transactions that wrote something
}

type round struct {
	began time.Time
	took  time.Duration
	rows  int
}

func (s *timed) note(began time.Time) time.Duration {
	took := time.Since(began)
	s.longest = max(s.longest, took)
	return took
}

func (s *timed) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	began := time.Now()
	got, err := s.Store.Decide(ctx, d)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := round{began: began, took: s.note(began)}
	for _, dec := range got.Decisions {
		r.rows += len(dec.Triggers)
	}
	if r.rows > 0 {
		s.rounds = append(s.rounds, r)
	}
	return got, err
}

func (s *timed) Overdue(ctx context.Context, at time.Time, limit int) ([]ledger.Upcoming, error) {
	began := time.Now()
	got, err := s.Store.Overdue(ctx, at, limit)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(began)
	return got, err
}

func (s *timed) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	began := time.Now()
	got, err := s.Store.Claim(ctx, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(began)
	return got, err
}

func (s *timed) worst() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.longest
}

// decided is the rounds up to the one that wrote the n-th row; nil before.
func (s *timed) decided(n int) []round {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.rounds {
		if n -= r.rows; n <= 0 {
			return slices.Clone(s.rounds[:i+1])
		}
	}
	return nil
}

// A holder that hangs delays nothing by a second, besides what the store takes: by the database's times.
func TestAStuckLockHolderDelaysNothingByASecond(t *testing.T) {
	service := memlock.New()
	stillHeld := holdAll(t, service, "p", naming.DefaultPool)
	st := sqlite(t).open(t)
	ran := &starts{}
	set := pool(ran, nil)
	set.Jobs = map[string]jobs.Job{"every-second": {Schedule: "* * * * * *", Handler: ran}}
	each := &timed{Store: st.Sides().Replica}
	r := start(t, each, locker(t, service), set, scheduler.Options{ID: "a"})
	ids := enqueue(t, st, r, 20)
	await.Until(t, "4 due times are decided", func() bool { return each.decided(4) != nil })
	for _, id := range ids {
		got := ended(t, st, id)
		if late := got.StartedAt.Sub(got.RunAt); late > time.Second+each.worst() {
			t.Errorf("a task started %v late; a call of the store took at most %v", late, each.worst())
		}
	}
	for _, row := range ledgerOf(t, st, "every-second") {
		if late := row.DecidedAt.Sub(row.At); late > time.Second+each.worst() {
			t.Errorf("%v was decided %v late; a call of the store took at most %v", row.At, late, each.worst())
		}
	}
	stillHeld()
}

// However many jobs are due: decisions about overdue jobs go on without a pause until all are decided.
func TestAStuckLockHolderOfManyJobs(t *testing.T) {
	t.Parallel()
	const many = 1500
	service := memlock.New()
	stillHeld := holdAll(t, service, naming.DefaultPool)
	st := sqlite(t).open(t)
	// Suspended: each due time is decided, and no other work loads the machine.
	j := jobs.Job{Schedule: "0 0 29 2 *", Handler: &starts{}, Suspend: true}
	set := jobs.Set{Jobs: map[string]jobs.Job{}}
	for n := range many {
		set.Jobs[fmt.Sprint("job-", n)] = j
	}
	schedule, err := j.Compile("any")
	if err != nil {
		t.Fatal(err)
	}
	// One replica loads them an hour before all are due: for the other one that is near, however long loading takes.
	at := schedule.Next(time.Now())
	first := start(t, skew(st.Sides().Replica, time.Until(at.Add(-time.Hour))), locker(t, service), set, scheduler.Options{ID: "first"})
	await.Until(t, "the jobs are loaded", func() bool { return first.Health()[0].Ready })
	if err := first.drain(); err != nil {
		t.Fatal(err)
	}
	off := time.Until(at.Add(-3 * time.Second))
	each := &timed{Store: skew(st.Sides().Replica, off)}
	r := start(t, each, locker(t, service), set, scheduler.Options{ID: "a"})
	await.Until(t, "it is ready", func() bool { return r.Health()[0].Ready })
	due := at
	if ready := time.Now().Add(off); ready.After(at) {
		due = ready
	}
	await.Until(t, "all are decided", func() bool { return each.decided(many) != nil })
	rounds := each.decided(many)
	if len(rounds) > many/100 {
		t.Errorf("it took %d rounds, want at most one for each 100 jobs", len(rounds))
	}
	var deciding time.Duration
	for _, r := range rounds {
		deciding += r.took
	}
	begin, last := rounds[0], rounds[len(rounds)-1]
	if rest := last.began.Add(last.took).Sub(begin.began) - deciding; rest > 750*time.Millisecond {
		t.Errorf("%d rounds took %v, and %v passed between them", len(rounds), deciding, rest)
	}
	for _, row := range ledgerOf(t, st, "") {
		if late := row.DecidedAt.Sub(due); !row.At.Equal(at) || late > time.Second+deciding+each.worst() {
			t.Errorf("%s of %v was decided %v late; deciding took %v", row.Job, row.At, late, deciding)
		}
	}
	stillHeld()
}
