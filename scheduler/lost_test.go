package scheduler_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// silent is a store that its replica cannot reach while cut is set.
type silent struct {
	ledger.Store
	cut atomic.Bool
}

var errCut = errors.Join(jobs.ErrUnavailable, errors.New("cut off by the test"))

func (s *silent) Beat(ctx context.Context, session string) (time.Time, error) {
	if s.cut.Load() {
		return time.Time{}, errCut
	}
	return s.Store.Beat(ctx, session)
}

func (s *silent) Peers(ctx context.Context) ([]ledger.Peer, error) {
	if s.cut.Load() {
		return nil, errCut
	}
	return s.Store.Peers(ctx)
}

func (s *silent) Finish(ctx context.Context, session string, results []ledger.Result) ([]ledger.Finished, error) {
	if s.cut.Load() {
		return nil, errCut
	}
	return s.Store.Finish(ctx, session, results)
}

func (s *silent) Running(ctx context.Context, session string) (ledger.Running, error) {
	if s.cut.Load() {
		return ledger.Running{}, errCut
	}
	return s.Store.Running(ctx, session)
}

func (s *silent) Extend(ctx context.Context, session string, moves []ledger.Extension) ([]bool, error) {
	if s.cut.Load() {
		return nil, errCut
	}
	return s.Store.Extend(ctx, session, moves)
}

func (s *silent) Reap(ctx context.Context, limit int) ([]ledger.Reaped, error) {
	if s.cut.Load() {
		return nil, errCut
	}
	return s.Store.Reap(ctx, limit)
}

func TestAReplicaCutOffLosesItsTasksAndCannotOverwrite(t *testing.T) {
	t.Parallel()
	db := sqlite(t)
	st := db.open(t)
	ignored := make(chan struct{})
	began := make(chan string, 10)
	h := does(func(ctx context.Context, task jobs.Task, _ io.Writer) error {
		began <- task.Replica
		if task.Replica == "a" {
			<-ignored // a handler that ignores its context
			return errors.New("the result of the stale hand")
		}
		return nil
	})
	set := pool(h, nil)
	o := scheduler.Options{SessionTTL: time.Second, DrainTimeout: time.Second}
	o.ID = "a"
	cut := &silent{Store: db.open(t).Sides().Replica}
	a := start(t, cut, nil, set, o)
	id := enqueue(t, st, a, 1)[0]
	<-began
	o.ID = "b"
	start(t, db.open(t), nil, set, o)
	await.Until(t, "b is there", func() bool {
		peers, err := st.Sides().Replica.Peers(t.Context())
		return err == nil && len(peers) == 2
	})
	cut.cut.Store(true)
	await.Until(t, "readiness of the one cut off is red", func() bool { return !a.Health()[0].Ready })
	if got := ended(t, st, id); got.State != jobs.StateSucceeded || got.Replica != "b" || got.Lost != 1 {
		t.Errorf("%+v, want it done by b after one loss", got)
	}
	close(ignored)
	cut.cut.Store(false)
	await.Until(t, "it joins again", func() bool {
		peers, err := st.Sides().Replica.Peers(t.Context())
		return err == nil && len(peers) == 2 && a.Health()[0].Ready
	})
	if err := a.drain(); err != nil {
		t.Error(err)
	}
	if got := task(t, st, id); got.State != jobs.StateSucceeded || got.Replica != "b" {
		t.Errorf("the stale hand wrote: %+v", got)
	}
}
