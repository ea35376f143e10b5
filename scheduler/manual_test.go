package scheduler_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

func TestManualRuns(t *testing.T) {
	st := sqlite(t).open(t)
	began, finish := make(chan jobs.Task, 1), make(chan struct{}, 10)
	h := does(func(ctx context.Context, task jobs.Task, _ io.Writer) error {
		began <- task
		<-finish
		return nil
	})
	set := jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h, Payload: map[string]int{"n": 1}}}}
	r := start(t, st, nil, set, scheduler.Options{ID: "a"})
	var trigger jobs.Trigger
	var opened jobs.Task
	await.Until(t, "the replica takes it", func() (ok bool) {
		var err error
		trigger, opened, err = r.RunJob(t.Context(), "j", "me", "")
		return err == nil
	})
	got := <-began
	if got.By != "me" || opened.By != "me" {
		t.Errorf("a run that I asked for is by %q, %q", got.By, opened.By)
	}
	if got.ID != opened.ID || got.Token == 0 || string(got.Payload) != `{"n":1}` || !strings.HasPrefix(got.IdempotencyKey, "j@") {
		t.Errorf("the handler got %+v", got)
	}
	if _, _, err := r.RunJob(t.Context(), "j", "me", ""); !errors.Is(err, jobs.ErrConflict) || !strings.Contains(err.Error(), "(task "+opened.ID+") has been running on replica a since ") ||
		!strings.HasSuffix(err.Error(), "; wait for its end, or cancel it first: scheduler tasks cancel "+opened.ID) {
		t.Errorf("a second run beside the first: %v", err)
	}
	if _, err := r.Retry(t.Context(), opened.ID, "me", ""); !errors.Is(err, jobs.ErrConflict) {
		t.Errorf("retry of a running task: %v", err)
	}
	finish <- struct{}{}
	ended(t, st, opened.ID)
	retried, err := r.Retry(t.Context(), opened.ID, "you", "")
	if err != nil {
		t.Fatal(err)
	}
	again := <-began
	finish <- struct{}{}
	if again.By != "you" || again.RetryOf != opened.ID || again.IdempotencyKey != got.IdempotencyKey || again.Token <= got.Token {
		t.Errorf("the retry got %+v after %+v", again, got)
	}
	ended(t, st, retried.ID)
	if _, _, err := r.RunJob(t.Context(), "nobody", "me", ""); !errors.Is(err, jobs.ErrNotFound) {
		t.Errorf("an unknown job: %v", err)
	}
	rows := ledgerOf(t, st, "j")
	if len(rows) != 2 || rows[0].Outcome != jobs.Ran || rows[1].Outcome != jobs.Skipped || strings.Contains(rows[1].Reason, "cancel") || rows[1].ReasonCode != "slot_taken" || rows[0].ReasonCode != "" || rows[0].Seq == 0 || rows[0].By != "me" {
		t.Errorf("the ledger has %+v", rows)
	}
	_ = trigger
}

// deciding is a store that takes long for one decision, at most until its replica leaves.
type deciding struct {
	ledger.Store
	asked, cont, decided chan struct{}
	once                 sync.Once
}

func (d *deciding) Decide(ctx context.Context, r ledger.Decide) (ledger.Decided, error) {
	close(d.asked)
	<-d.cont
	defer close(d.decided)
	return d.Store.Decide(ctx, r)
}

func (d *deciding) goOn() { d.once.Do(func() { close(d.cont) }) }

func (d *deciding) Leave(ctx context.Context, session string) error {
	d.goOn()
	<-d.decided
	return d.Store.Leave(ctx, session)
}

// A manual run that is decided while the replica drains is handed back: it is recorded, and did not start.
func TestDrainWaitsForARunByHand(t *testing.T) {
	t.Parallel()
	db := sqlite(t)
	slow := &deciding{Store: db.open(t).Sides().Replica, asked: make(chan struct{}), cont: make(chan struct{}), decided: make(chan struct{})}
	set := jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: &starts{}}}}
	r := start(t, slow, nil, set, scheduler.Options{ID: "a"})
	await.Until(t, "it is there", func() bool { return r.Vitals().Ready })
	opened := make(chan jobs.Task, 1)
	go func() {
		_, task, err := r.RunJob(context.Background(), "j", "me", "")
		if err != nil {
			t.Error(err)
		}
		opened <- task
	}()
	<-slow.asked
	r.stop()
	await.Until(t, "readiness says so", func() bool { return !r.Vitals().Ready })
	if _, _, err := r.RunJob(t.Context(), "j", "me", ""); !errors.Is(err, jobs.ErrUnavailable) || strings.Contains(err.Error(), "store") || !strings.Contains(err.Error(), "this replica is stopping") {
		t.Errorf("while it drains: %v", err)
	}
	later := time.AfterFunc(time.Second, slow.goOn)
	defer later.Stop()
	if err := r.drain(); err != nil {
		t.Fatal(err)
	}
	st := db.open(t)
	if got := task(t, st, (<-opened).ID); got.State != jobs.StatePending || got.Replica != "" {
		t.Errorf("it is %s on %q (%s)", got.State, got.Replica, got.Reason)
	}
}

// hangsUp is a store whose callers give up while a COMMIT of theirs is under way.
type hangsUp struct {
	ledger.Store
	goAway func()
}

func (s hangsUp) Decide(ctx context.Context, d ledger.Decide) (ledger.Decided, error) {
	got, err := s.Store.Decide(context.WithoutCancel(ctx), d)
	s.goAway()
	if ctx.Err() != nil {
		return ledger.Decided{}, ctx.Err()
	}
	return got, err
}

// A manual run that was opened is executed, though its caller has given up before the answer.
func TestAManualRunOutlivesItsCaller(t *testing.T) {
	ctx, goAway := context.WithCancel(t.Context())
	began := make(chan struct{}, 1)
	h := does(func(context.Context, jobs.Task, io.Writer) error { began <- struct{}{}; return nil })
	r := start(t, hangsUp{sqlite(t).open(t).Sides().Replica, goAway}, nil, jobs.Set{Jobs: map[string]jobs.Job{"j": {Handler: h}}}, scheduler.Options{ID: "a", Workers: 1})
	await.Until(t, "the replica is ready", func() bool { return r.Health()[0].Ready })
	if _, _, err := r.RunJob(ctx, "j", "me", ""); err != nil || ctx.Err() == nil {
		t.Fatalf("%v; who asked: %v", err, ctx.Err())
	}
	<-began
	if _, _, err := r.RunJob(ctx, "j", "me", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("for who is gone already: %v", err)
	}
	await.Until(t, "the only worker is free for the next one", func() bool {
		_, _, err := r.RunJob(t.Context(), "j", "me", "")
		return err == nil
	})
	<-began
}
