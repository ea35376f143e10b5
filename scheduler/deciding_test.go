package scheduler

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// laborious is a store whose decisions take a while, and that notes the order of the calls which decide and record something.
type laborious struct {
	*memstore.Store
	takes time.Duration
	due   time.Time

	mu    sync.Mutex
	calls []string
}

func (l *laborious) note(what string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, fmt.Sprintf("%s %d after %d ms", what, n, time.Since(l.due).Milliseconds()))
}

func (l *laborious) noted() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.calls, ", ")
}

func (l *laborious) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	time.Sleep(l.takes)
	decided, err := l.Store.Decide(ctx, d)
	if n := len(decided.Decisions); n > 0 {
		l.note("decided", n)
	}
	return decided, err
}

func (l *laborious) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	l.note("recorded", len(results))
	return l.Store.Finish(ctx, session, results)
}

// Of many jobs that are due at the same time all are decided before the runs of the first ones are recorded.
func TestManyJobsAreDecidedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1200
		due := time.Now().Add(time.Minute).Truncate(time.Second)
		st := &laborious{Store: &memstore.Store{Database: memstore.New()}, takes: 50 * time.Millisecond, due: due}
		set := jobs.Set{Pools: map[string]jobs.Pool{naming.DefaultPool: {Workers: n}}, Jobs: map[string]jobs.Job{}}
		for i := range n {
			set.Jobs[fmt.Sprint("job-", i)] = jobs.Job{
				Schedule: due.UTC().Format("5 4 15 * * *"), Handler: replicatest.Function(func(context.Context, jobs.Task, io.Writer) error { return nil }),
			}
		}
		runs(t, st, set, Options{ID: "a", Workers: n})
		time.Sleep(2 * time.Minute)
		want := "decided 500 after 50 ms, decided 500 after 100 ms, decided 200 after 150 ms, " +
			"recorded 500 after 150 ms, recorded 500 after 150 ms, recorded 200 after 150 ms"
		if got := st.noted(); got != want {
			t.Errorf("it %s;\nwant %s", got, want)
		}
	})
}
