package scheduler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// mutes is a store that answers no call of a replica before the replica gives it up, and refuses to expire.
type mutes struct{ ledger.Store }

var errRights = errors.New("no right to write that")

func (mutes) Upcoming(ctx context.Context, _ []int) ([]ledger.Upcoming, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A read of due times that this replica gives up says nothing about the store; one that takes too long does.
func TestWhoStopsLookingSaysNothingAboutTheStore(t *testing.T) {
	for _, stops := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := replicaOn(t, mutes{&memstore.Store{Database: memstore.New()}}, blocked{})
			ctx, cancel := context.WithCancel(t.Context())
			asked := make(chan struct{})
			go func() { defer close(asked); s.triggers.look(ctx, []int{1}) }()
			time.Sleep(time.Second)
			if !stops {
				time.Sleep(time.Minute)
			}
			cancel()
			<-asked
			if s.work.storeAnswers() != stops {
				t.Errorf("this replica stops asking: %t; the store is there: %t", stops, s.work.storeAnswers())
			}
		})
	}
}

func (mutes) Sweep(context.Context, ledger.Judge, jobs.Retention, int) (bool, error) {
	return false, errRights
}

// A store that deletes nothing counts as away, too.
func TestASweepThatFailsIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := replicaOn(t, mutes{&memstore.Store{Database: memstore.New()}}, blocked{})
		ctx, stop := context.WithTimeout(t.Context(), sweepEvery+time.Second)
		defer stop()
		s.sweep(ctx)
		s.members.SetLoaded()
		if c := s.Health()[0]; !strings.Contains(c.Detail, errRights.Error()) {
			t.Errorf("%+v", c)
		}
	})
}
