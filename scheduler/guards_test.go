package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

func locker(t *testing.T, drv driver.Driver) *locks.Locker {
	t.Helper()
	l, err := locks.New(drv, locks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(context.Background()) })
	return l
}

// down is a lock service that cannot be reached while it is set.
type down struct {
	scheduler.Locks
	mu     sync.Mutex
	down   bool
	claims int // locks of pools that are held: their claims go on while it is down
}

func (d *down) set(v bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = v
}

func (d *down) TryAcquire(ctx context.Context, requests ...locks.Request) ([]locks.Attempt, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		return nil, fmt.Errorf("dial 127.0.0.1:6379: %w", locks.ErrUnavailable)
	}
	attempts, err := d.Locks.TryAcquire(ctx, requests...)
	for _, a := range attempts {
		if a.Lease != nil && strings.HasPrefix(a.Lease.Key(), "sys/pool/") {
			d.claims++
		}
	}
	return attempts, err
}

func (d *down) Acquire(ctx context.Context, requests ...locks.Request) ([]*locks.Lease, error) {
	d.mu.Lock()
	down := d.down
	d.mu.Unlock()
	if down { // it waits through an outage
		<-ctx.Done()
		return nil, fmt.Errorf("dial 127.0.0.1:6379: %w: %w", locks.ErrUnavailable, ctx.Err())
	}
	leases, err := d.Locks.Acquire(ctx, requests...)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if strings.HasPrefix(leases[0].Key(), "sys/pool/") {
		d.claims++
	}
	return leases, nil
}

func (d *down) Release(ctx context.Context, leases ...*locks.Lease) error {
	err := d.Locks.Release(ctx, leases...)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range leases {
		if strings.HasPrefix(l.Key(), "sys/pool/") {
			d.claims--
		}
	}
	return err
}

func (d *down) claiming() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.claims > 0
}

func TestWhenTheLockServiceIsDown(t *testing.T) {
	t.Parallel()
	for _, policy := range []scheduler.WhenDown{scheduler.DownStore, scheduler.DownWait} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			st := sqlite(t).open(t)
			ran := &starts{}
			lk := &down{Locks: locker(t, memlock.New())}
			set := pool(ran, nil)
			set.Jobs = map[string]jobs.Job{"by-hand": {Handler: ran}}
			r := start(t, st, lk, set, scheduler.Options{ID: "a", WhenDown: policy})
			enqueue(t, st, r, 1)
			await.Until(t, "it works", func() bool { return ran.count() == 1 })
			lk.set(true)
			await.Until(t, "the claim under the lock of before is over", func() bool { return !lk.claiming() })
			enqueue(t, st, r, 1)
			await.Until(t, "readiness says so", func() bool { return r.Health()[1].Detail != "" })
			if ready := r.Health()[1].Ready; ready != (policy == scheduler.DownStore) {
				t.Errorf("ready: %v", ready)
			}
			if policy == scheduler.DownStore {
				await.Until(t, "the rows decide alone", func() bool { return ran.count() == 2 })
				return
			}
			if _, _, err := r.RunJob(t.Context(), "by-hand", "me", ""); !errors.Is(err, jobs.ErrUnavailable) || !strings.HasSuffix(err.Error(), ": the lock service is away, and lock.when_down is wait: nothing starts until it is back") {
				t.Errorf("a run of a job: %v", err)
			}
			// Nothing may start: two polls and a sweep go by.
			time.Sleep(1500 * time.Millisecond)
			if ran.count() != 1 {
				t.Error("a task started although when_down is wait")
			}
			lk.set(false)
			await.Until(t, "it goes on by itself", func() bool { return ran.count() == 2 && r.Health()[1].Ready })
		})
	}
}

// The database's clock is stepped by an hour while everything runs: nothing fires early, no session
// expires, and each due time is decided once.
func TestTheDatabaseClockStepsByAnHour(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			t.Parallel()
			db := sqlite(t)
			st := db.open(t)
			ran := &starts{}
			var early sync.Map
			h := does(func(ctx context.Context, task jobs.Task, out io.Writer) error {
				if ahead := time.Until(task.ScheduledAt); ahead > 0 {
					early.Store(task.ScheduledAt, ahead)
				}
				return ran.Run(ctx, task, out)
			})
			set := jobs.Set{Jobs: map[string]jobs.Job{"every-second": {Schedule: "* * * * * *", Handler: h}}}
			each := skew(db.open(t).Sides().Replica, 0)
			r := start(t, each, nil, set, scheduler.Options{ID: "a", SessionTTL: 6 * time.Second})
			await.Until(t, "it works", func() bool { return ran.count() >= 2 })
			session := peers(t, each)[0].Session
			each.by.Store(int64(step))
			await.Until(t, "readiness says so", func() bool { return !r.Health()[2].Ready })
			each.by.Store(0) // the clock is corrected
			before := ran.count()
			await.Until(t, "it goes on", func() bool { return ran.count() >= before+2 && r.Health()[2].Ready })
			early.Range(func(at, ahead any) bool {
				t.Errorf("the trigger of %v started %v early", at, ahead)
				return true
			})
			ran.onlyOnce(t)
			if now := peers(t, each); len(now) != 1 || now[0].Session != session {
				t.Errorf("sessions %v, want only %s", now, session)
			}
			covered(t, ledgerOf(t, st, "every-second"))
		})
	}
}

func peers(t *testing.T, st any) []ledger.Peer {
	t.Helper()
	all, err := sides(t, st).Sides().Replica.Peers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAnOlderReplicaLeavesWhatANewerFileChanged(t *testing.T) {
	t.Parallel()
	db := sqlite(t)
	st := db.open(t)
	older, newer := &starts{}, &starts{}
	set := func(h jobs.Handler, timeout time.Duration) jobs.Set {
		return jobs.Set{Jobs: map[string]jobs.Job{"j": {Schedule: "* * * * * *", Handler: h, Timeout: timeout}}}
	}
	o := scheduler.Options{SessionTTL: 2 * time.Second}
	o.ID = "older"
	a := start(t, db.open(t), nil, set(older, time.Minute), o)
	await.Until(t, "the older one runs it", func() bool { return older.count() >= 2 })
	o.ID = "newer"
	b := start(t, db.open(t), nil, set(newer, time.Hour), o)
	await.Until(t, "the newer one runs it", func() bool { return newer.count() >= 1 })
	had := older.count()
	await.Until(t, "the newer one runs it again", func() bool { return newer.count() >= 4 })
	if n := older.count(); n > had+1 { // one may have been under way
		t.Errorf("the older replica went on: %d more", n-had)
	}
	if err := b.drain(); err != nil {
		t.Fatal(err)
	}
	had = older.count()
	await.Until(t, "the older one takes over", func() bool { return older.count() >= had+2 })
	covered(t, ledgerOf(t, st, "j"))
	if err := a.drain(); err != nil {
		t.Fatal(err)
	}
}

func TestReplicasThatCannotExcludeEachOtherAreRefused(t *testing.T) {
	t.Parallel()
	db := sqlite(t)
	start(t, db.open(t), locker(t, memlock.New()), jobs.Set{}, scheduler.Options{ID: "a", LockService: "redis 127.0.0.1:6379"})
	st := db.open(t)
	await.Until(t, "a is there", func() bool { return len(peers(t, st)) == 1 })
	for _, c := range []struct {
		o    scheduler.Options
		want error
	}{
		{scheduler.Options{ID: "b", LockService: "zookeeper 127.0.0.1:2181"}, ledger.ErrLockService},
		{scheduler.Options{ID: "a", LockService: "redis 127.0.0.1:6379"}, ledger.ErrReplicaLive},
	} {
		s, err := scheduler.New(st, locker(t, memlock.New()), jobs.Set{}, c.o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(t.Context()); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.o, err, c.want)
		}
		if err := s.Run(t.Context()); !errors.Is(err, scheduler.ErrRan) {
			t.Errorf("after an error, a second Run: %v", err)
		}
	}
}

// A second Run returns an error at once, while the first one works and after it, and changes nothing.
func TestRunIsCalledOnce(t *testing.T) {
	st := sqlite(t).open(t)
	s, err := scheduler.New(st, nil, jobs.Set{}, scheduler.Options{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Loaded() {
		t.Error("loaded before Run")
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	await.Until(t, "it is loaded", s.Loaded)
	for _, when := range []string{"beside the first", "after it"} {
		began := time.Now()
		second, enough := context.WithTimeout(t.Context(), 5*time.Second) // one that works would not end
		if err := s.Run(second); !errors.Is(err, scheduler.ErrRan) || time.Since(began) > time.Second {
			t.Errorf("%s: %v after %v", when, err, time.Since(began))
		}
		enough()
		if when == "beside the first" {
			if live := peers(t, st); len(live) != 1 || !s.Health()[0].Ready {
				t.Errorf("live are %+v, health %+v", live, s.Health())
			}
			stop()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A replica of an older file whose session expired is no newer after it joins again.
func TestComingBackMakesNoConfigurationNewer(t *testing.T) {
	t.Parallel()
	db := sqlite(t)
	older, newer := &starts{}, &starts{}
	set := func(h jobs.Handler, timeout time.Duration) jobs.Set {
		return jobs.Set{Jobs: map[string]jobs.Job{"j": {Schedule: "* * * * * *", Handler: h, Timeout: timeout}}}
	}
	cut := &silent{Store: db.open(t).Sides().Replica}
	a := start(t, cut, nil, set(older, time.Minute), scheduler.Options{ID: "older", SessionTTL: time.Second})
	await.Until(t, "the older one runs it", func() bool { return older.count() >= 1 })
	start(t, db.open(t), nil, set(newer, time.Hour), scheduler.Options{ID: "newer", SessionTTL: time.Second})
	await.Until(t, "the newer one runs it", func() bool { return newer.count() >= 1 })
	st := db.open(t)
	first := peers(t, st)
	cut.cut.Store(true)
	await.Until(t, "the older one is declared dead", func() bool { return len(peers(t, st)) == 1 })
	cut.cut.Store(false)
	await.Until(t, "it is back", func() bool { return len(peers(t, st)) == 2 && a.Health()[0].Ready })
	for _, p := range peers(t, st) {
		if i := slices.IndexFunc(first, func(was ledger.Peer) bool { return was.Replica == p.Replica }); first[i].Config != p.Config {
			t.Errorf("%s had configuration %d and has %d", p.Replica, first[i].Config, p.Config)
		}
	}
	ran, had := newer.count(), older.count()
	await.Until(t, "the newer one goes on", func() bool { return newer.count() >= ran+3 })
	if older.count() > had+1 {
		t.Errorf("the older one ran it %d times more", older.count()-had)
	}
}

// After a power cut no replica is left to expire a session: the successor with the same id does.
func TestASilentPredecessorIsOutlived(t *testing.T) {
	t.Parallel()
	st := sqlite(t).open(t)
	if _, err := st.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "a", Host: "elsewhere", LockService: scheduler.Fingerprint("redis")}); err != nil {
		t.Fatal(err)
	}
	r := start(t, st, locker(t, memlock.New()), jobs.Set{}, scheduler.Options{ID: "a", LockService: "redis", SessionTTL: time.Second})
	await.Until(t, "it is ready", func() bool { return r.Health()[0].Ready })
	if live := peers(t, st); len(live) != 1 || live[0].Host == "elsewhere" {
		t.Errorf("live are %+v", live)
	}
	r.drain()
	if _, err := st.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "old", Host: "elsewhere", LockService: "zookeeper"}); err != nil {
		t.Fatal(err)
	}
	r = start(t, st, locker(t, memlock.New()), jobs.Set{}, scheduler.Options{ID: "a", LockService: "redis", SessionTTL: time.Second})
	await.Until(t, "it is ready beside what used another lock service", func() bool { return r.Health()[0].Ready })
}
