package scheduler

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// told keeps for which kinds a replica says that they are limited, with its results.
type told struct {
	*memstore.Store
	mu    sync.Mutex
	kinds map[string][]bool
}

func (f *told) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	f.mu.Lock()
	for _, r := range results {
		f.kinds[r.Task.Kind+r.Task.Job] = append(f.kinds[r.Task.Kind+r.Task.Job], r.KindLimited)
	}
	f.mu.Unlock()
	return f.Store.Finish(ctx, session, results)
}

// While a kind is full, the replica whose task of it ends starts the next one at once; tasks of other kinds do not wait. Results say which kinds
// are limited, and those alone.
func TestAPoolWithALimitedKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &clocked{takes: 5 * time.Second}
		st := &told{Store: &memstore.Store{Database: memstore.New()}, kinds: map[string][]bool{}}
		pool := jobs.Pool{Handler: h, Kinds: map[string]jobs.Handler{"sms": h, "mail": h}, PerKind: map[string]jobs.KindLimits{"sms": {MaxRunning: 1}}}
		set := jobs.Set{Pools: map[string]jobs.Pool{"p": pool}, Jobs: map[string]jobs.Job{"j": {Pool: "p", Schedule: "@every 1h"}}}
		for _, id := range []string{"a", "b"} {
			runs(t, st, set, Options{ID: id})
		}
		time.Sleep(time.Minute)
		h.since = time.Now()
		var all []jobs.NewTask
		for _, kind := range []string{"sms", "sms", "sms", "mail", "mail", "", "sms"} {
			all = append(all, jobs.NewTask{Pool: "p", Kind: kind})
		}
		if _, err := st.Store.Enqueue(t.Context(), all...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		got := h.began()
		if len(got) < 7 || got[3]-got[0] > 10*time.Millisecond {
			t.Fatalf("began after %v", got)
		}
		for i, at := range got[4:7] {
			if want := got[0] + time.Duration(i+1)*5*time.Second; at < want || at > want+50*time.Millisecond {
				t.Errorf("task %d began after %v, want %v", i+4, at, want)
			}
		}
		st.mu.Lock()
		defer st.mu.Unlock()
		for kind, of := range st.kinds {
			if slices.Contains(of, kind != "sms") {
				t.Errorf("%q is limited: %v", kind, of)
			}
		}
		if len(st.kinds) != 4 {
			t.Errorf("results of %v", st.kinds)
		}
	})
}
