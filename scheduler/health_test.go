package scheduler

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// A replica that has not joined starts no manual run, and says why; one that was told to stop before does not join any more.
func TestAReplicaThatHasNotJoinedSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := newOn(&memstore.Store{Database: memstore.New()}, nil, jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: replicatest.Blocked{}}}}, Options{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		const want = `run job "j": this replica has not joined the store; Run joins it, and Health says whether it has`
		if _, _, err := s.RunJob(t.Context(), "j", "ann", ""); !errors.Is(err, jobs.ErrUnavailable) || err.Error() != want {
			t.Errorf("before Run: %v, want %s", err, want)
		}
		if said := s.Health()[0].Detail; said != "joining" {
			t.Errorf("before Run it is %q", said)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if got := s.Health(); got[0].Ready || got[0].Detail != "not joined, as this replica was told to stop before" || got[4].Ready {
			t.Errorf("after Run it is %+v", got)
		}
	})
}
