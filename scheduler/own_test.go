package scheduler

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// unheardOf is a store whose first claim gets no answer, and whose next one gets it late.
type unheardOf struct {
	*memstore.Store
	late time.Duration

	mu     sync.Mutex
	claims int
	back   int    // tasks that were handed back
	wake   func() // called when one was
}

func (u *unheardOf) Claim(ctx context.Context, c ledger.Claim) (ledger.Claimed, error) {
	got, err := u.Store.Claim(ctx, c)
	if err != nil || len(got.Tasks) == 0 {
		return got, err
	}
	u.mu.Lock()
	u.claims++
	n := u.claims
	u.mu.Unlock()
	switch n {
	case 1:
		return ledger.Claimed{}, fmt.Errorf("%w: the answer was lost", jobs.ErrUnavailable)
	case 2:
		time.Sleep(u.late)
	}
	return got, nil
}

func (u *unheardOf) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	done, err := u.Store.Finish(ctx, session, results)
	for _, r := range results {
		if err == nil && r.Verdict == ledger.HandBack && r.Code == "claim_lost" {
			u.mu.Lock()
			u.back++
			u.mu.Unlock()
			u.wake()
		}
	}
	return done, err
}

func (u *unheardOf) look() (claims, back int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.claims, u.back
}

// A row that was handed back as the register did not have it, and is claimed again, is another claim: it is left alone
// until the answer of that claim has had its time, and is never handed back while that claim is under way.
func TestARowThatIsClaimedAgainIsNotHandedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &unheardOf{Store: &memstore.Store{Database: memstore.New()}, late: 4500 * time.Millisecond}
		h := &replicatest.Counting{}
		s := replicaOn(t, st, h)
		st.wake = func() { s.Wake("p") }
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(time.Second) // the pool is known
		if _, err := st.Enqueue(ctx, jobs.NewTask{Pool: "p"}); err != nil {
			t.Fatal(err)
		}
		s.Wake("p")
		time.Sleep(time.Minute)
		if claims, back := st.look(); claims != 2 || back != 1 {
			t.Errorf("the task was claimed %d times and handed back %d times, want 2 and 1", claims, back)
		}
		if n := h.Count(); n != 1 {
			t.Errorf("the task ran %d times", n)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
