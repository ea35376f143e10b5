package scheduler

import (
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/abort"
	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// Each condition that keeps a replica from starting new work is not ready and says why; it is ready
// again when that is over. A condition that is only a note is ready.
func TestWhyAReplicaStartsNothing(t *testing.T) {
	gone := errors.New("gone away")
	ahead := func(s *Scheduler, by time.Duration) { s.members.Clock().Observe(boottime.Now(), time.Now().Add(by)) }
	for what, c := range map[string]struct {
		wait     bool // lock.when_down
		joining  bool
		spoil    func(s *Scheduler)
		name     string
		ready    bool
		says     string
		undo     func(s *Scheduler)
		store    bool // Vitals say that it is there
		lock     bool
		draining bool
	}{
		"nothing is wrong":           {spoil: func(*Scheduler) {}, name: "store", ready: true, store: true, lock: true},
		"it has not joined":          {joining: true, spoil: func(*Scheduler) {}, name: "store", says: "joining", undo: func(s *Scheduler) { s.members.SetLoaded() }, lock: true},
		"the store is away":          {spoil: func(s *Scheduler) { s.members.StoreFailed(gone); time.Sleep(90 * time.Second) }, name: "store", says: "unavailable for 1m30s: gone away", undo: func(s *Scheduler) { s.members.StoreFailed(nil) }, lock: true},
		"its beats are not answered": {spoil: func(*Scheduler) { time.Sleep(time.Hour) }, name: "store", says: "no heartbeat was acknowledged in time; this replica's session may have expired", undo: func(s *Scheduler) { trusting(s) }, store: true, lock: true},
		"the locks are away, wait":   {wait: true, spoil: func(s *Scheduler) { s.locks.Failed(gone); time.Sleep(time.Second) }, name: "lock", says: "unavailable for 1s: gone away; nothing starts until it answers", undo: func(s *Scheduler) { s.locks.Failed(nil) }, store: true},
		"the locks are away":         {spoil: func(s *Scheduler) { s.locks.Failed(gone); time.Sleep(time.Second) }, name: "lock", ready: true, says: "unavailable for 1s: gone away; the store's rows decide alone", undo: func(s *Scheduler) { s.locks.Failed(nil) }, store: true},
		"the clock jumped":           {spoil: func(s *Scheduler) { ahead(s, time.Hour) }, name: "clock", says: "the database's clock moved by 1h0m0s; nothing is decided until it has been steady for 3 heartbeats", undo: func(s *Scheduler) { ahead(s, 0) }, store: true, lock: true},
		"a newer configuration":      {spoil: func(s *Scheduler) { s.triggers.LeaveJobs([]string{"j", "k"}) }, name: "configuration", ready: true, says: "a newer configuration governs 2 jobs that this replica defines differently", undo: func(s *Scheduler) { s.triggers.LeaveJobs(nil) }, store: true, lock: true},
		"it drains":                  {spoil: func(s *Scheduler) { s.members.Drain() }, name: "draining", says: "this replica is stopping", store: true, lock: true, draining: true},
		"there is no room":           {spoil: startWithoutRoom, name: "room", says: "tasks of p cannot be started on this replica and are handed back: " + abort.ErrNoRoom.Error(), undo: func(s *Scheduler) { time.Sleep(time.Minute) }, store: true, lock: true},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := newOn(here{&entering{Picky: replicatest.NewPicky(nil)}, true}, nil, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: noRoom}}}, Options{ID: "a", SessionTTL: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				if c.wait {
					s.locks.Required = true
				}
				if !c.joining {
					s.members.SetLoaded()
				}
				trusting(s)
				c.spoil(s)
				look := func(want wire.Condition) {
					t.Helper()
					all := s.Health()
					n := slices.IndexFunc(all, func(got wire.Condition) bool { return got.Name == want.Name })
					if n >= 0 { // two clocks were read, one of them of the machine
						all[n].Detail = regexp.MustCompile(`moved by (59m5[0-9.]+s|1h0m[0-9.]+s)`).ReplaceAllString(all[n].Detail, "moved by 1h0m0s")
					}
					if n < 0 && want != (wire.Condition{Name: "room", Ready: true}) || n >= 0 && all[n] != want {
						t.Errorf("%+v, want %+v", all, want)
					}
					for _, other := range all {
						if other.Name != want.Name && (!other.Ready || other.Detail != "") {
							t.Errorf("beside it: %+v", other)
						}
					}
					if v := s.Vitals(); v.Ready != want.Ready {
						t.Errorf("ready as a whole: %v", v.Ready)
					}
				}
				look(wire.Condition{Name: c.name, Ready: c.ready, Detail: c.says})
				if v := s.Vitals(); v.StoreUp != c.store || v.LockUp != c.lock || v.Draining != c.draining || s.members.Draining() != c.draining {
					t.Errorf("the store is there: %v, the locks: %v, it drains: %v", v.StoreUp, v.LockUp, v.Draining)
				}
				if v := s.Vitals(); v.ClockRefused != map[string]int{"clock": 1}[c.name] || (v.ClockSkew.Round(time.Minute) == time.Hour) != (c.name == "clock") {
					t.Errorf("%d readings are refused, the clocks are %v apart", v.ClockRefused, v.ClockSkew)
				}
				if c.undo != nil {
					c.undo(s)
					look(wire.Condition{Name: c.name, Ready: true})
				}
			})
		})
	}
}

// noRoom is a handler that cannot start.
var noRoom = replicatest.Function(func(context.Context, jobs.Task, io.Writer) error { return abort.ErrNoRoom })

// startWithoutRoom starts a task of pool p.
func startWithoutRoom(s *Scheduler) {
	_, start := s.work.Reserve(s.plan.Load(), nil)
	start(context.Background(), ledger.Decided{Started: []ledger.Started{{Task: &jobs.Task{ID: "1", Pool: "p", Token: 1}}}})
	synctest.Wait()
}

// trusting gives a replica a session that is trusted for its ttl.
func trusting(s *Scheduler) {
	if err := s.members.Join(context.Background()); err != nil {
		panic(err)
	}
}

// The vitals of a replica before it has joined, and while it works.
func TestWhatAReplicaSaysOfItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newGiven()
		st := &memstore.Store{Database: memstore.New()}
		set, o := jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h}}}, Options{ID: "a", Workers: 7}
		idle, err := newOn(st, nil, set, o)
		if err != nil {
			t.Fatal(err)
		}
		if v := idle.Vitals(); v.Ready || v.StoreUp || !v.Now.IsZero() || v.RenewalAge != 0 || v.Stripes != 0 || idle.Loaded() {
			t.Errorf("before: %+v", v)
		}
		s := runs(t, st, set, o)
		time.Sleep(5 * time.Second)
		if _, _, err := s.RunJob(t.Context(), "j", "ann", ""); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		v := s.Vitals()
		if !v.Ready || !v.StoreUp || !v.LockUp || v.Draining || v.Replica != "a" || v.Backend != "store" || v.Workers != 7 || v.Config != 1 ||
			v.Stripes != ledger.Stripes || v.Running[naming.DefaultPool] != 1 || v.SessionsExpired+v.PeersExpired+v.ClockRefused+v.Foreign != 0 || !s.Loaded() {
			t.Errorf("at work: %+v", v)
		}
		if off := v.Now.Sub(time.Now()).Abs(); off > time.Second || v.ClockSkew.Abs() > time.Second {
			t.Errorf("now is %v, %v off, the clocks are %v apart", v.Now, off, v.ClockSkew)
		}
		trust := s.members.Session().Trust
		if age := 9900*time.Millisecond - trust.Until(); (s.Vitals().RenewalAge-age).Abs() > time.Second || age <= 0 {
			t.Errorf("renewed %v ago, want %v", s.Vitals().RenewalAge, age)
		}
		h.finish(nil)
		if v := s.Vitals(); len(v.Running) != 0 {
			t.Errorf("afterwards there run %v", v.Running)
		}
	})
}

// Which values a replica accepts as its lock service.
func TestWhatTheLockServiceIs(t *testing.T) {
	for what, c := range map[string]struct {
		locks   Locks
		backend string
	}{
		"none":          {nil, "store"},
		"a *Locker":     {replicatest.LockerOf(t, memlock.New()), "memory"},
		"one of others": {noLocks{}, "other"},
	} {
		st := &entering{Picky: replicatest.NewPicky(nil)}
		s, err := newOn(st, c.locks, jobs.Set{}, Options{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		trusting(s)
		if got := s.Vitals().Backend; got != c.backend || (s.locks.Locks == nil) != (c.backend == "store") {
			t.Errorf("%s: %q, want %q", what, got, c.backend)
		}
		named := map[string]string{"store": StoreLocks, "other": "other", "memory": nameOf(locks.Caps{Name: "memory", SingleProc: true})}[c.backend]
		if got := st.member.LockService; got != Fingerprint(named) {
			t.Errorf("%s: it joins with %q", what, got)
		}
	}
}
