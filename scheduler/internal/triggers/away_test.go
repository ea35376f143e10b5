package triggers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// silent is a store that does not say what is due before the replica gives the call up.
type silent struct{ ledger.Store }

func (silent) Upcoming(ctx context.Context, _ []int) ([]ledger.Upcoming, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A read of due times that this replica gives up says nothing about the store; one that takes too long does.
func TestWhoStopsLookingSaysNothingAboutTheStore(t *testing.T) {
	for _, stops := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := replicaOn(t, silent{&memstore.Store{Database: memstore.New()}}, replicatest.Blocked{})
			ctx, cancel := context.WithCancel(t.Context())
			asked := make(chan struct{})
			go func() { defer close(asked); s.triggers.look(ctx, []int{1}) }()
			time.Sleep(time.Second)
			if !stops {
				time.Sleep(time.Minute)
			}
			cancel()
			<-asked
			if s.storeAnswers() != stops {
				t.Errorf("this replica stops asking: %t; the store is there: %t", stops, s.storeAnswers())
			}
		})
	}
}
