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
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

var errRights = errors.New("no right to write that")

// mutes is a store that refuses to delete.
type mutes struct{ ledger.Store }

func (mutes) Sweep(context.Context, ledger.Judge, jobs.Retention, int) (bool, error) {
	return false, errRights
}

// A store that deletes nothing counts as away, too.
func TestASweepThatFailsIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := replicaOn(t, mutes{&memstore.Store{Database: memstore.New()}}, replicatest.Blocked{})
		ctx, stop := context.WithTimeout(t.Context(), sweepEvery+time.Second)
		defer stop()
		s.sweep(ctx)
		s.members.SetLoaded()
		if c := s.Health()[0]; !strings.Contains(c.Detail, errRights.Error()) {
			t.Errorf("%+v", c)
		}
	})
}
