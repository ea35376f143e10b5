package scheduler

import (
	"errors"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// Before it has joined, a replica has no time to go by: it refuses the calls of workers, which try them again elsewhere.
func TestCallsOfWorkersBeforeTheReplicaHasJoined(t *testing.T) {
	set := jobs.Set{Pools: map[string]jobs.Pool{"mail": {Handler: jobs.Worker{}}}}
	s, err := New(ledger.Sides{Replica: &memstore.Store{Database: memstore.New()}}, nil, set, Options{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	a := wire.WorkerAttempt{Session: "s", Task: "t", Token: 1}
	_, claim := s.ClaimFor(t.Context(), wire.WorkerClaim{Pool: "mail", Max: 1})
	_, beat := s.HeartbeatFor(t.Context(), a, wire.WorkerReport{})
	_, end := s.EndFor(t.Context(), a, wire.WorkerEnd{How: wire.WorkerSnoozed})
	_, accepted := s.EndFor(t.Context(), wire.WorkerAttempt{Task: "t", Token: 1}, wire.WorkerEnd{})
	_, leave := s.LeaveFor(t.Context(), wire.WorkerCaller{}, "s")
	for call, err := range map[string]error{"claim": claim, "heartbeat": beat, "end": end, "end without a session": accepted, "leave": leave} {
		if !errors.Is(err, jobs.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", call, err)
		}
	}
}
