package store

import (
	"testing"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// A dead replica is shown as long as it has running tasks; its peers do not read it.
func TestADeadReplicaWithTasksIsShown(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ctx, r := t.Context(), s.Sides().Replica
		join := func(name string) string {
			session, err := r.Join(ctx, ledger.Member{Replica: name, LockService: "x"})
			if err != nil {
				t.Fatal(err)
			}
			return session
		}
		busy, quiet, lives := join("busy"), join("quiet"), join("lives")
		if _, err := r.Load(ctx, lives, ledger.Definitions{Pools: []ledger.PoolDef{{Name: "p", Hash: "h", MaxAttempts: 1}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Enqueue(ctx, jobs.NewTask{Pool: "p"}); err != nil {
			t.Fatal(err)
		}
		if got, err := claimOf(ctx, s, busy, "p"); err != nil || len(got.Tasks) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		for _, session := range []string{busy, quiet} {
			if err := r.Leave(ctx, session); err != nil {
				t.Fatal(err)
			}
		}
		shown, err := views{s}.Replicas(ctx)
		if err != nil || len(shown) != 2 || shown[0].Session != busy || !shown[0].Dead || shown[1].Session != lives || shown[1].Dead {
			t.Errorf("shown are %+v, %v", shown, err)
		}
		peers, err := r.Peers(ctx)
		if err != nil || len(peers) != 1 || peers[0].Session != lives {
			t.Errorf("peers are %+v, %v", peers, err)
		}
	})
}
