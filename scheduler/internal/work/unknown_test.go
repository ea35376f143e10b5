package work

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// asked is a store that counts the reads of the state of pools, and may fail them.
type asked struct {
	*memstore.Store
	gone  error
	pools atomic.Int32
}

func (a *asked) Pools(ctx context.Context) ([]ledger.PoolStatus, error) {
	a.pools.Add(1)
	if a.gone != nil {
		return nil, a.gone
	}
	return a.Store.Pools(ctx)
}

// A replica that meets no task that it cannot run does not ask whether others can; nor does one whose session is not trusted.
func TestWhoCanRunWhatIsAskedWhenThereIsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &asked{Store: &memstore.Store{Database: memstore.New()}}
		s := runs(t, st, jobs.Set{Pools: map[string]jobs.Pool{"p": {Handler: replicatest.Nothing{}}}}, Options{ID: "a"})
		time.Sleep(10*unrunnableEvery + unrunnableEvery/2)
		if n := st.pools.Load(); n > 0 {
			t.Errorf("it asked %d times, and there is nothing", n)
		}
		s.work.meetUnknown()
		time.Sleep(time.Second)
		if n := st.pools.Load(); n != 1 {
			t.Errorf("it asked %d times, and there is something", n)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		st := &asked{Store: &memstore.Store{Database: memstore.New()}}
		s := replicaOn(t, st, replicatest.Blocked{})
		s.work.metUnknown.Store(true)
		ctx, stop := context.WithTimeout(t.Context(), 3*unrunnableEvery)
		defer stop()
		s.work.unrunnable(ctx)
		if n := st.pools.Load(); n > 0 {
			t.Errorf("without touch with the store it asked %d times", n)
		}
	})
}

// A store that does not answer counts as away, and is asked again.
func TestWhoCanRunWhatIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &asked{Store: &memstore.Store{Database: memstore.New()}}
		st.gone = jobs.ErrUnavailable
		s := replicaOn(t, st, replicatest.Blocked{})
		s.members.SetLoaded()
		s.assume(&membership.Session{ID: "session", Trust: boottime.Awake().Add(time.Hour)})
		s.work.metUnknown.Store(true)
		ctx, stop := context.WithTimeout(t.Context(), 3*unrunnableEvery+unrunnableEvery/2)
		defer stop()
		s.work.unrunnable(ctx)
		if up := s.storeAnswers(); st.pools.Load() != 3 || up {
			t.Errorf("asked %d times; the store is there: %v", st.pools.Load(), up)
		}
	})
}
