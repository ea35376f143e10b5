package work

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// turns is a store whose claims take as long as they are told, and say whether they lock the row of their pool.
type turns struct {
	ledger.Store
	take  []time.Duration
	guard []bool
}

func (s *turns) Claim(_ context.Context, c ledger.Claim) (ledger.Claimed, error) {
	time.Sleep(s.take[len(s.guard)])
	s.guard = append(s.guard, c.Guard || c.Pools["p"].Limited)
	return ledger.Claimed{}, nil
}

// Where the store is the lock service, claims take turns. A claim after one that took longer than a replica waits at most, while others have their
// turns, takes none, unless the pool is limited over all replicas.
func TestClaimsTakeTurnsWhileTurnsAreShort(t *testing.T) {
	for limit, want := range map[int][]bool{0: {true, true, false, true}, 1: {true, true, true, true}} {
		synctest.Test(t, func(t *testing.T) {
			st := &turns{Store: &memstore.Store{Database: memstore.New()}, take: []time.Duration{turnsLimit - 1, turnsLimit, 0, 0}}
			s := replicaOn(t, st, replicatest.Blocked{})
			s.assume(&membership.Session{ID: "session", Trust: boottime.Now().Add(time.Hour)})
			f := s.work.feeder("p")
			f.governs.Limited = limit > 0
			for range want {
				f.claim(t.Context())
			}
			if !slices.Equal(st.guard, want) {
				t.Errorf("limit %d: in turn %v, not %v", limit, st.guard, want)
			}
		})
	}
}
