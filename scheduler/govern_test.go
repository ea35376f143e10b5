package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// asserting is a store that answers who governs as it is told.
type asserting struct {
	*memstore.Store
	answer func(n int) (ledger.Assertion, error) // to the n-th question, from 0

	mu    sync.Mutex
	began time.Time
	asked []int // when, in seconds
}

func (a *asserting) Assert(context.Context, string, ledger.Definitions) (ledger.Assertion, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, int(time.Since(a.began).Round(time.Second)/time.Second))
	return a.answer(len(a.asked) - 1)
}

func (a *asserting) when() []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

// A replica asks again soon what a newer one may still be writing, seldom while they differ, each second while
// the store is away, and not at all once it governs or nothing differs.
func TestGoverningIsAskedAgain(t *testing.T) {
	differ := func(names ...string) ledger.Assertion { return ledger.Assertion{Jobs: names} }
	for name, c := range map[string]struct {
		answer  func(n int) (ledger.Assertion, error)
		asked   []int
		foreign int // in the end
	}{
		"governs":         {func(int) (ledger.Assertion, error) { return ledger.Assertion{Governs: true}, nil }, []int{0}, 0},
		"nothing differs": {func(int) (ledger.Assertion, error) { return differ(), nil }, []int{0, 3}, 0},
		"one differs":     {func(int) (ledger.Assertion, error) { return differ("x"), nil }, []int{0, 3, 33, 63}, 1},
		"more differ later": {func(n int) (ledger.Assertion, error) { return differ([]string{"x", "y", "z"}[:min(n, 2)+1]...), nil },
			[]int{0, 3, 6, 9, 39, 69}, 3},
		"the store is away": {func(n int) (ledger.Assertion, error) {
			if n < 3 {
				return differ("x", "y"), fmt.Errorf("%w: cut off by the test", jobs.ErrUnavailable)
			}
			return ledger.Assertion{Governs: true}, nil
		}, []int{0, 1, 2, 3}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &asserting{Store: &memstore.Store{Database: memstore.New()}, answer: c.answer, began: time.Now()}
				s := replicaOn(t, st, blocked{})
				s.session.Store(&session{"session", boottime.Now().Add(time.Hour), boottime.Now()})
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); s.govern(ctx) }()
				nudge(s.nudgeGovern)
				time.Sleep(70 * time.Second)
				if got := st.when(); !slices.Equal(got, c.asked) {
					t.Errorf("asked after %v s, want %v", got, c.asked)
				}
				if n := s.foreign.count(); n != c.foreign {
					t.Errorf("%d jobs are left to others, want %d", n, c.foreign)
				}
				stop()
				<-ended
			})
		})
	}
}

// rereading is a store that answers that this replica governs, and notes which stripes' due times it reads after that.
type rereading struct {
	*asserting
	read [][]int
}

func (r *rereading) Upcoming(_ context.Context, stripes []int) ([]ledger.Upcoming, error) {
	r.read = append(r.read, stripes)
	return nil, nil
}

// Whenever it was settled who governs, a replica reads the due times of its stripes anew, since an edit may have moved
// them, and asks again for the jobs that it left alone. A store that does not settle it is away.
func TestWhatFollowsWhenItIsSettledWhoGoverns(t *testing.T) {
	for _, away := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			st := &rereading{asserting: &asserting{Store: &memstore.Store{Database: memstore.New()}, began: time.Now()}}
			st.answer = func(int) (ledger.Assertion, error) {
				if away {
					return ledger.Assertion{}, fmt.Errorf("%w: cut off by the test", jobs.ErrUnavailable)
				}
				return ledger.Assertion{Governs: true}, nil
			}
			s := replicaOn(t, st, blocked{})
			s.session.Store(&session{"session", boottime.Now().Add(time.Hour), boottime.Now()})
			s.stripes.mine = []int{3, 5}
			s.foreign.add(0, "x")
			asked := s.foreign.asked()
			ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer stop()
			nudge(s.nudgeGovern)
			s.govern(ctx)
			if read := len(st.read) == 1 && slices.Equal(st.read[0], []int{3, 5}); read == away || len(st.read) > 1 {
				t.Errorf("away: %t; read the due times of %v", away, st.read)
			}
			if known := s.health.store.err == nil; known == away {
				t.Errorf("away: %t; seen: %v", away, s.health.store.err)
			}
			if s.foreign.has("x") != away || s.foreign.add(asked, "y") != away {
				t.Errorf("away: %t; what was left alone still is: %t", away, s.foreign.has("x"))
			}
		})
	}
}

// A replica takes the kinds of a pool for which it has a handler and by which it goes: all of its own configuration while that
// governs, else what the newer one has in the same way, and none while it drains.
func TestWhatAReplicaRuns(t *testing.T) {
	s, err := New(newPicky(nil), nil, jobs.Set{Pools: map[string]jobs.Pool{
		"mail": {Kinds: map[string]jobs.Handler{"welcome": blocked{}, "fax": blocked{}}},
	}}, Options{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	mail := s.plan.pools["mail"]
	row := ledger.OtherPool{Name: "mail", Hash: "newer", Kinds: map[string]string{"welcome": mail.hashes["welcome"], "sms": "x"}}
	if row.Kinds["welcome"] == "" {
		t.Fatal("its handler has no identity")
	}
	runs := func() (kinds []string) {
		for _, kind := range []string{"welcome", "fax", "sms", ""} {
			if s.Runs("mail", kind) {
				kinds = append(kinds, kind)
			}
		}
		return kinds
	}
	for _, c := range []struct {
		when string
		then func()
		want []string
	}{
		{"its own governs", func() {}, []string{"welcome", "fax"}},
		{"a newer one governs", func() { s.goBy([]ledger.OtherPool{row}) }, []string{"welcome"}},
		{"a newer one lacks the pool", func() { s.goBy([]ledger.OtherPool{{Name: "mail"}}) }, nil},
		{"it governs again", func() { s.goBy(nil) }, []string{"welcome", "fax"}},
		{"it drains", func() { s.health.drain() }, nil},
	} {
		c.then()
		if got := runs(); !slices.Equal(got, c.want) || s.Runs("unknown", "welcome") {
			t.Errorf("%s: it runs %q, want %q", c.when, got, c.want)
		}
	}
}
