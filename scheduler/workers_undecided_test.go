package scheduler

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// decidesNothing is a store that says of some claims that another configuration governs the pool, or that the clock is wrong.
type decidesNothing struct {
	*memstore.Store
	says  error
	times atomic.Int32
}

func (s *decidesNothing) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	if s.times.Add(-1) >= 0 {
		return ledger.Claimed{}, s.says
	}
	return s.Store.Claim(ctx, c)
}

// A claim of which nothing was decided does not tell the others that nothing is left.
func TestAClaimOfWhichNothingWasDecided(t *testing.T) {
	for _, says := range []error{ledger.ErrOutdated, ledger.ErrClock} {
		synctest.Test(t, func(t *testing.T) {
			st := &decidesNothing{Store: &memstore.Store{Database: memstore.New()}, says: says}
			s := runs(t, st, jobs.Set{Pools: map[string]jobs.Pool{"mail": {Handler: jobs.Worker{}}}}, Options{ID: "a", SessionTTL: 6 * time.Second})
			time.Sleep(time.Second)
			took := make(chan time.Duration, 2)
			var began time.Time
			for range cap(took) {
				session, _ := claims(t, s, wire.WorkerClaim{Pool: "mail", Max: 1})
				go func() {
					got, err := s.ClaimFor(t.Context(), wire.WorkerClaim{Pool: "mail", Session: session, Max: 1, Wait: 20 * time.Second})
					if err != nil || len(got.Items) != 1 {
						t.Errorf("%v: claimed %+v, %v", says, got.Items, err)
					}
					took <- time.Since(began)
				}()
			}
			time.Sleep(3 * time.Second)
			if _, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "mail"}, jobs.NewTask{Pool: "mail"}); err != nil {
				t.Fatal(err)
			}
			began = time.Now()
			st.times.Store(1)
			s.Wake("mail")
			if first, second := <-took, <-took; first > 100*time.Millisecond || second > time.Second {
				t.Errorf("%v: they have their tasks after %v and %v", says, first, second)
			}
		})
	}
}
