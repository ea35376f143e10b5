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
