package work

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// standing is a store whose pools have this status.
type standing struct {
	ledger.Store
	mu    sync.Mutex
	pools []ledger.PoolStatus
	asked int
	on    func()
}

func (s *standing) Pools(context.Context) ([]ledger.PoolStatus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.on != nil {
		s.on()
	}
	return s.pools, nil
}

func (s *standing) set(pools ...ledger.PoolStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools = pools
}

func (s *standing) asks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.asked
	s.asked = 0
	return n
}

// watching is a replica with pool p and the loop unrunnable, on a store whose pools have this status.
func watching(t *testing.T, pools ...ledger.PoolStatus) (*replica, *standing, *replicatest.Warnings) {
	t.Helper()
	return watchingFrom(t, func(*replica) {}, pools...)
}

// watchingFrom is watching by a replica after before was called on it.
func watchingFrom(t *testing.T, before func(*replica), pools ...ledger.PoolStatus) (*replica, *standing, *replicatest.Warnings) {
	t.Helper()
	st := &standing{Store: &memstore.Store{Database: memstore.New()}, pools: pools}
	log := &replicatest.Warnings{}
	s, err := newOn(st, nil, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: replicatest.Blocked{}}}}, Options{ID: "a", Logger: slog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(100 * time.Hour)})
	before(s)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.work.unrunnable(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return s, st, log
}

// unrunnableIn is a pool that some configuration has, with a task of each of these kinds that no replica can run.
func unrunnableIn(pool string, kinds ...string) ledger.PoolStatus {
	p := ledger.PoolStatus{Name: pool, Hash: "some", Pending: len(kinds)}
	for _, kind := range kinds {
		p.Unrunnable = append(p.Unrunnable, ledger.Unrunnable{Kind: kind, Tasks: 1, Since: time.Date(2026, 1, 1, 12, 0, 0, 5, time.UTC)})
	}
	return p
}

// A task that no replica can run is logged with what to do about it: that depends on what is missing.
func TestWhatIsLoggedOfUnrunnableTasks(t *testing.T) {
	status := func(p ledger.PoolStatus, edit func(p *ledger.PoolStatus)) ledger.PoolStatus { edit(&p); return p }
	synctest.Test(t, func(t *testing.T) {
		s, _, log := watching(t,
			unrunnableIn("p", "typo", ""),
			status(unrunnableIn("retired", ""), func(p *ledger.PoolStatus) { p.Hash, p.Kinds = "", []string{} }),
			status(unrunnableIn("bare", "k"), func(p *ledger.PoolStatus) { p.Kinds = []string{} }),
			status(unrunnableIn("kinds", "k"), func(p *ledger.PoolStatus) { p.Kinds, p.Unrunnable[0].Tasks = []string{"fax"}, 7 }),
			ledger.PoolStatus{Name: "fine", Hash: "some", Pending: 3},
		)
		s.work.meetUnknown()
		synctest.Wait()
		if diff := cmp.Diff([]string{
			"tasks cannot run: no live replica has a handler for their kind; start one that has, or cancel them pool=p kind=typo tasks=1 since=2026-01-01T12:00:00Z",
			"tasks cannot run: they have no kind, and no live replica has a handler for those; start one that has, or cancel them pool=p kind= tasks=1 since=2026-01-01T12:00:00Z",
			"tasks cannot run: no live configuration has their pool; start a replica that has it, or cancel them pool=retired kind= tasks=1 since=2026-01-01T12:00:00Z",
			"tasks cannot run: their pool has no handler in any live replica; " + ledger.GiveHandler + ", or cancel them pool=bare kind=k tasks=1 since=2026-01-01T12:00:00Z",
			"tasks cannot run: no live replica has a handler for their kind; start one that has, or cancel them pool=kinds kind=k tasks=7 since=2026-01-01T12:00:00Z",
		}, log.Take()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Each pool and kind is logged once in an hour, and unrunnableLines of them at most in a look; the others a minute later.
func TestHowOftenUnrunnableTasksAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st, log := watching(t, unrunnableIn("p", "typo"), unrunnableIn("q", "typo"))
		said := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if got := log.Take(); len(got) != want {
				t.Errorf("%s: %d lines, want %d: %q", when, len(got), want, got)
			}
		}
		s.work.meetUnknown()
		said("at once", 2)
		time.Sleep(unrunnableAgain - 1)
		said("within the hour", 0)
		time.Sleep(1)
		said("an hour later", 2)

		var many []string
		for n := range 2*unrunnableLines + 1 {
			many = append(many, fmt.Sprint("new-", n))
		}
		st.set(unrunnableIn("p", append([]string{"typo"}, many...)...))
		for n, want := range []int{unrunnableLines, unrunnableLines, 1, 0} {
			time.Sleep(unrunnableEvery)
			said(fmt.Sprintf("look %d at many", n), want)
		}
		time.Sleep(unrunnableAgain - 5*unrunnableEvery)
		for n, want := range []int{1, unrunnableLines, unrunnableLines, 1, 0} {
			time.Sleep(unrunnableEvery)
			said(fmt.Sprintf("look %d an hour later", n), want)
		}
	})
}

// While there are tasks that no replica can run, a replica looks each minute. After that it looks again when it meets
// such a task, and not before a minute is over.
func TestHowOftenUnrunnableTasksAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, st, _ := watching(t, unrunnableIn("q", "typo"))
		looks := func(what string, want int) {
			t.Helper()
			synctest.Wait()
			if got := st.asks(); got != want {
				t.Errorf("%s: %d looks, want %d", what, got, want)
			}
		}
		s.work.meetUnknown()
		looks("something is met", 1)
		s.work.meetUnknown()
		looks("it is met again", 0)
		time.Sleep(10 * unrunnableEvery)
		looks("ten minutes", 10)
		wake.Send(s.work.wakeUnrunnable)
		looks("there is reason to look", 1)
		st.set(unrunnableIn("q"))
		time.Sleep(unrunnableEvery)
		looks("it is gone", 1)
		s.work.meetUnknown()
		time.Sleep(unrunnableEvery - 1)
		looks("met again at once", 0)
		time.Sleep(1)
		looks("a minute after the last look", 1)
		time.Sleep(10 * unrunnableEvery)
		looks("nothing is left", 0)
		s.work.meetUnknown()
		looks("met again, long after", 1)
	})
}

// When every task has a replica that can run it, a replica asks for tasks of all kinds again, but not in pools where others
// have work: there it would meet the same kinds.
func TestWhatIsForgottenWhenEveryTaskCanRun(t *testing.T) {
	for pending, forgets := range map[int]bool{0: true, 1: false} {
		synctest.Test(t, func(t *testing.T) {
			others := unrunnableIn("p")
			others.Pending = pending
			s, st, _ := watchingFrom(t, func(s *replica) {
				f := s.work.feeder("p")
				f.skip(f.forgets, []jobs.Task{{Kind: "of others"}})
				f.seen.nothing = true
			}, unrunnableIn("not here"), others)
			f := s.work.feeder("p")
			synctest.Wait()
			scope, _ := f.scope()
			if kinds := f.pool.KindNames; (scope.Kinds == nil) != forgets || !forgets && !slices.Equal(scope.Kinds, kinds) || f.seen.nothing == forgets {
				t.Errorf("with %d tasks: it asks for %q", pending, scope.Kinds)
			}
			if s.work.metUnknown.Load() == forgets || st.asks() != 1 {
				t.Errorf("with %d tasks: it goes on looking: %t", pending, forgets)
			}
		})
	}
	f, _ := fed(t)
	f.seen.nothing = true
	if f.askForAll(true) || f.askForAll(false) || !f.seen.nothing {
		t.Error("a feeder that has met no kind remembers one, or forgets what it has passed")
	}
}
