package scheduler_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// A task that was lost once still has all its retries.
func TestLossesDoNotUseUpRetries(t *testing.T) {
	db := sqlite(t)
	st := db.open(t)
	began := make(chan struct{})
	h := does(func(ctx context.Context, task jobs.Task, _ io.Writer) error {
		switch task.Attempt {
		case 1:
			close(began)
			<-ctx.Done() // stopped by the drain: lost
			return context.Cause(ctx)
		case 2, 3:
			return errors.New("no luck")
		}
		return nil
	})
	set := pool(h, func(p *jobs.Pool) { p.Retries = jobs.Retries{Limit: 2, Backoff: time.Millisecond} })
	a := start(t, st, nil, set, scheduler.Options{ID: "a", DrainTimeout: time.Millisecond})
	id := enqueue(t, st, a, 1)[0]
	<-began
	if err := a.drain(); err != nil {
		t.Fatal(err)
	}
	start(t, db.open(t), nil, set, scheduler.Options{ID: "b"})
	if got := ended(t, st, id); got.State != jobs.StateSucceeded || got.Attempt != 4 || got.Lost != 1 {
		t.Errorf("%s %q after %d attempts and %d losses, want success after a loss and two failures", got.State, got.Error, got.Attempt, got.Lost)
	}
}

// With on_lost retry a task runs again until it was lost lost_limit times.
func TestATaskEndsAsLostAfterThreeExpiredSessions(t *testing.T) {
	t.Parallel()
	db := sqlite(t)
	st := db.open(t)
	h := newBlocking()
	set := far(h, jobs.LostRetries)
	j := set.Jobs["j"]
	j.RunsOn = map[string]string{"runs": "it"}
	set.Jobs["j"] = j
	// The survivor runs nothing; it expires the sessions of the others.
	start(t, db.open(t), nil, set, scheduler.Options{ID: "survivor", SessionTTL: 2 * time.Second})
	cuts := map[string]*silent{}
	var first *replica
	for _, id := range []string{"a", "b", "c"} {
		cuts[id] = &silent{Store: db.open(t).Sides().Replica}
		r := start(t, cuts[id], nil, set, scheduler.Options{ID: id, SessionTTL: 2 * time.Second, Labels: j.RunsOn})
		if first == nil {
			first = r
		}
	}
	await.Until(t, "all of them are there", func() bool { return len(peers(t, st)) == 4 })
	a := runNow(t, first, h)
	for n := range limits.Losses {
		if a.task.Attempt != n+1 || a.task.Lost != n {
			t.Errorf("attempt %d after %d losses, want %d after %d", a.task.Attempt, a.task.Lost, n+1, n)
		}
		cuts[a.task.Replica].cut.Store(true)
		if n+1 < limits.Losses {
			a = <-h.began
		}
	}
	got := ended(t, st, a.task.ID)
	if got.State != jobs.StateLost || got.Attempt != 3 || got.Lost != 3 || !strings.Contains(got.Reason, "quarantined: 3 replicas died while they had it") {
		t.Errorf("%s %q after %d attempts and %d losses", got.State, got.Reason, got.Attempt, got.Lost)
	}
	if rows := ledgerOf(t, st, "j"); len(rows) != 1 || rows[0].Outcome != jobs.Lost {
		t.Errorf("the ledger has %+v, want one lost row", rows)
	}
	for _, cut := range cuts {
		cut.cut.Store(false)
	}
}

// The result of an attempt that was declared lost replaces that, once.
func TestALateResultReplacesLost(t *testing.T) {
	t.Parallel()
	db := sqlite(t)
	st := db.open(t)
	cut := &silent{Store: db.open(t).Sides().Replica}
	h := newBlocking()
	set := far(h, jobs.LostFails)
	var log bytes.Buffer // read after the replica has ended
	r := start(t, cut, nil, set, scheduler.Options{ID: "a", SessionTTL: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	start(t, db.open(t), nil, set, scheduler.Options{ID: "b", SessionTTL: time.Second})
	await.Until(t, "both are there", func() bool { return len(peers(t, st)) == 2 })
	a := runNow(t, r, h)
	cut.cut.Store(true)
	if got := ended(t, st, a.task.ID); got.State != jobs.StateLost || got.Lost != 1 {
		t.Fatalf("%s %q, want lost", got.State, got.Reason)
	}
	if a.ctx.Err() != nil {
		t.Fatalf("stopped: %v", context.Cause(a.ctx))
	}
	close(h.finish)
	cut.cut.Store(false)
	await.Until(t, "its result is recorded", func() bool { return task(t, st, a.task.ID).State != jobs.StateLost })
	if got := task(t, st, a.task.ID); got.State != jobs.StateSucceeded || got.Reason != "late" || got.Attempt != 1 {
		t.Errorf("%s %q at attempt %d, want a late success", got.State, got.Reason, got.Attempt)
	}
	if rows := ledgerOf(t, st, "j"); len(rows) != 1 || rows[0].Outcome != jobs.Ran || rows[0].Result != jobs.StateSucceeded {
		t.Errorf("the ledger has %+v, want one row that ran", rows)
	}
	if err := r.drain(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "late=true") {
		t.Errorf("the log does not say that it was late:\n%s", &log)
	}
}
