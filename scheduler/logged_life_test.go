package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// clinging is a store that refuses to end sessions.
type clinging struct{ *memstore.Store }

func (clinging) Leave(context.Context, string) error { return errors.New("no way") }

// The log of a run without incidents has its start and its end, and a failure to end the session.
func TestWhatIsLoggedOfALife(t *testing.T) {
	for what, c := range map[string]struct {
		store func(*memstore.Store) ledger.Store
		last  string
	}{
		"signed off":  {func(st *memstore.Store) ledger.Store { return st }, ""},
		"not let off": {func(st *memstore.Store) ledger.Store { return clinging{st} }, "session not ended; it expires after its ttl error=no way"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &replicatest.Lines{}
				set := jobs.Set{
					Pools: map[string]jobs.Pool{"p": {Handler: replicatest.Blocked{}}, "q": {Handler: replicatest.Blocked{}}},
					Jobs:  map[string]jobs.Job{"a": {Handler: replicatest.Blocked{}}, "b": {Handler: replicatest.Blocked{}}},
				}
				s, err := newOn(c.store(&memstore.Store{Database: memstore.New()}), nil, set, Options{ID: "r", DrainTimeout: 7 * time.Second, Logger: slog.New(log)})
				if err != nil {
					t.Fatal(err)
				}
				if s.ID() != "r" {
					t.Errorf("its id is %q", s.ID())
				}
				runFor(t, s, time.Minute)
				want := []string{"joined replica=r jobs=2 pools=3 configuration=1", "draining running=0 timeout=7s"}
				if c.last != "" {
					want = append(want, c.last)
				}
				if diff := cmp.Diff(want, log.Take()); diff != "" {
					t.Errorf("logged (-want +got):\n%s", diff)
				}
			})
		})
	}
}
