package scheduler_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// attempt is what a blocking handler reports of one attempt.
type attempt struct {
	task    jobs.Task
	ctx     context.Context //nolint:containedctx // the test looks at when and why it ends
	stopped chan time.Time  // when it was told to stop
}

// blocking is a handler whose attempts run until they are told to stop or finish is closed.
type blocking struct {
	began  chan *attempt
	finish chan struct{}
}

func newBlocking() *blocking {
	return &blocking{began: make(chan *attempt, 100), finish: make(chan struct{})}
}

func (b *blocking) Run(ctx context.Context, task jobs.Task, _ io.Writer) error {
	a := &attempt{task, ctx, make(chan time.Time, 1)}
	b.began <- a
	select {
	case <-b.finish:
		return nil
	case <-ctx.Done():
		a.stopped <- time.Now()
		return context.Cause(ctx)
	}
}

func (*blocking) Describe() string { return "blocking" }

// far is a job that is not due while a test runs.
func far(h jobs.Handler, policy jobs.OnLost) jobs.Set {
	return jobs.Set{Jobs: map[string]jobs.Job{"j": {Schedule: "0 0 29 2 *", Handler: h, OnLost: policy}}}
}

// runNow runs job j on the replica as soon as that accepts it, and returns its attempt.
func runNow(t *testing.T, r *replica, b *blocking) *attempt {
	t.Helper()
	await.Until(t, "the replica runs the job", func() bool {
		_, _, err := r.RunJob(t.Context(), "j", "a test", "")
		return err == nil
	})
	return <-b.began
}

// The nightly backup survives an outage of the store that is longer than the session ttl.
func TestAnOutageOfTheStoreDoesNotStopWhatCannotStartElsewhere(t *testing.T) {
	t.Parallel()
	db := sqlite(t)
	cut := &silent{Store: db.open(t).Sides().Replica}
	h := newBlocking()
	r := start(t, cut, nil, far(h, jobs.LostFails), scheduler.Options{ID: "a", SessionTTL: time.Second})
	a := runNow(t, r, h)
	cut.cut.Store(true)
	since := time.Now()
	await.Until(t, "three session ttls are over", func() bool { return time.Since(since) > 3*time.Second })
	if r.Health()[0].Ready {
		t.Fatal("the store was not away")
	}
	if err := a.ctx.Err(); err != nil {
		t.Errorf("the attempt was stopped: %v", context.Cause(a.ctx))
	}
	close(h.finish) // its result waits for the store
	cut.cut.Store(false)
	st := db.open(t)
	if got := ended(t, st, a.task.ID); got.State != jobs.StateSucceeded || got.Attempt != 1 || got.Lost != 0 {
		t.Errorf("%s after %d attempts and %d losses: %s", got.State, got.Attempt, got.Lost, got.Reason)
	}
}

// An attempt that others may start once the session is over is stopped before they can.
func TestAnOutageOfTheStoreStopsWhatOthersMayStart(t *testing.T) {
	t.Parallel()
	const ttl = 5 * time.Second
	db := sqlite(t)
	cut := &silent{Store: db.open(t).Sides().Replica}
	h := newBlocking()
	r := start(t, cut, nil, far(h, jobs.LostRetries), scheduler.Options{ID: "a", SessionTTL: ttl})
	a := runNow(t, r, h)
	cut.cut.Store(true)
	over := time.Now().Add(ttl) // the last heartbeat that was acknowledged is older than the cut
	select {
	case at := <-a.stopped:
		if at.After(over) {
			t.Errorf("stopped %v after the session was over", at.Sub(over))
		}
	case <-time.After(4 * ttl):
		t.Fatal("nothing stopped the attempt")
	}
	if stop := (*jobs.Stop)(nil); !errors.As(context.Cause(a.ctx), &stop) || stop.KillBy.IsZero() || stop.KillBy.After(over) {
		t.Errorf("the cause is %#v; want one that kills before %v", context.Cause(a.ctx), over)
	}
	cut.cut.Store(false)
	close(h.finish)
	if got := ended(t, db.open(t), a.task.ID); got.State != jobs.StateSucceeded || got.Attempt != 2 || got.Lost != 1 {
		t.Errorf("%s after %d attempts and %d losses, want success at the second", got.State, got.Attempt, got.Lost)
	}
}

// extensions notes which rows the replica extends.
type extensions struct {
	ledger.Store
	mu    sync.Mutex
	until []time.Time
}

func (e *extensions) Extend(ctx context.Context, session string, moves []ledger.Extension) ([]bool, error) {
	e.mu.Lock()
	for _, m := range moves {
		e.until = append(e.until, m.Until)
	}
	e.mu.Unlock()
	return e.Store.Extend(ctx, session, moves)
}

// An attempt that runs past due times of its job keeps the slot by its row, heartbeat by heartbeat.
func TestMayRunUntilMovesAheadWithTheBeats(t *testing.T) {
	t.Parallel()
	db := sqlite(t)
	users := db.open(t)
	st := &extensions{Store: users.Sides().Replica}
	h := newBlocking()
	set := jobs.Set{Jobs: map[string]jobs.Job{"j": {Schedule: "*/2 * * * * *", Handler: h}}}
	start(t, st, nil, set, scheduler.Options{ID: "a", SessionTTL: 3 * time.Second})
	a := <-h.began
	rows, err := sql.Open(db.driver, db.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rows.Close() })
	mayRunUntil := func() time.Time {
		var micros int64
		if err := rows.QueryRowContext(t.Context(), "SELECT may_run_until FROM lockstep_tasks WHERE id=?", a.task.ID).Scan(&micros); err != nil {
			t.Fatalf("%v; the task: %+v", err, task(t, users, a.task.ID))
		}
		return time.UnixMicro(micros).UTC()
	}
	first := a.task.ScheduledAt.Add(2 * time.Second)
	await.Until(t, "the row grants it two due times more", func() bool { return !mayRunUntil().Before(first.Add(4 * time.Second)) })
	if got := task(t, users, a.task.ID); got.State != jobs.StateRunning || got.Attempt != 1 || a.ctx.Err() != nil {
		t.Errorf("%s, attempt %d, %v", got.State, got.Attempt, a.ctx.Err())
	}
	close(h.finish)
	ended(t, users, a.task.ID)
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.until) < 2 || !slices.IsSortedFunc(st.until, func(a, b time.Time) int {
		return cmp.Or(a.Compare(b), -1) // twice the same is once too often
	}) {
		t.Errorf("asked for %v; want each bound once", st.until)
	}
	for _, row := range ledgerOf(t, users, "j") {
		if row.Outcome == jobs.Skipped && !strings.HasPrefix(row.Reason, "the run of "+a.task.ScheduledAt.Format(time.RFC3339)+" (task "+a.task.ID+") has been running on replica a since ") {
			t.Errorf("%v was skipped: %s", row.At, row.Reason)
		}
	}
}
