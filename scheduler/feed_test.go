package scheduler

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/ledger"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// strangers is a store whose claims find tasks that this replica cannot run, more than it remembers.
type strangers struct {
	Store
	claims int
}

func (s *strangers) Claim(context.Context, ledger.Claim) (ledger.Claimed, error) {
	s.claims++
	return ledger.Claimed{More: true, Foreign: []jobs.Task{{Kind: "of nobody here"}}}, nil
}

// A claim that got nothing, and can learn nothing, is not followed by another one before somebody wakes it.
func TestClaimsForNothingEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &strangers{Store: &memstore.Store{Database: memstore.New()}}
		s := replicaOn(t, st, blocked{})
		s.session.Store(&session{"session", boottime.Now().Add(time.Hour), boottime.Now()})
		f := s.feeders["p"]
		for n := range skipMost {
			f.skipKinds = append(f.skipKinds, fmt.Sprint(n))
		}
		nudge(f.wake)
		for n := 0; len(f.wake) > 0; n++ {
			if n == 3 {
				t.Fatal("each claim wakes the next one")
			}
			<-f.wake
			for f.claim(t.Context()) {
			}
		}
		if st.claims != 1 {
			t.Errorf("it claimed %d times", st.claims)
		}
	})
}
