package work

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/plan"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// stalled is a store whose claims have no answer.
type stalled struct{ tasks }

func (stalled) Claim(ctx context.Context, _ ledger.Claim) (ledger.Claimed, error) {
	<-ctx.Done()
	return ledger.Claimed{}, ctx.Err()
}

// While a claim has no answer, the leases of its tasks keep others out, who may not need the store: so they are given back after
// leasedCall.
func TestLeasesOfAClaimWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memlock.New()
		mine, other := replicatest.LockerOf(t, service), replicatest.LockerOf(t, service)
		leases, err := mine.Acquire(t.Context(), locks.Request{Key: "a"})
		if err != nil {
			t.Fatal(err)
		}
		f, _ := fed(t)
		e := f.executor
		e.store, e.jobLocks, e.releases = stalled{e.store}, mine, newReleases(mine)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); e.releases.run(ctx) }()
		defer func() { stop(); <-done }()

		began := time.Now()
		go e.waits.claim(ctx, e.member.Session(), jobs.Task{ID: "t", Pool: "p"}, []heldLock{{plan.Lock{}, leases[0], time.Second}})
		if _, err := other.Acquire(t.Context(), locks.Request{Key: "a"}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != leasedCall {
			t.Errorf("another had the key after %v, want %v", took, leasedCall)
		}
	})
}

// The claim after a try of locks is bounded in the same way; one without leases has longer.
func TestHowLongAClaimMayTake(t *testing.T) {
	with := tried{held: map[string][]heldLock{"t": {{}}}}
	if got, want := with.call(), leasedCall; got != want {
		t.Errorf("with leases: %v, want %v", got, want)
	}
	if got, want := (tried{held: map[string][]heldLock{}}).call(), claimCall; got != want {
		t.Errorf("without: %v, want %v", got, want)
	}
	if leasedCall >= claimCall {
		t.Error("a claim with leases is not bounded more strictly")
	}
}
