package scheduler

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/membership"
)

func away(ledger.Result) error { return fmt.Errorf("%w: cut off by the test", jobs.ErrUnavailable) }

// fill makes the backlog full, with results of tasks that no store knows.
func (r *recorder) fill() {
	for n := range recordBacklog + recordBatch { // a batch is being written
		id := fmt.Sprintf("filler %d", n)
		r.add("session", jobs.Task{ID: id}, ledger.Result{TaskID: id, Verdict: ledger.HandBack})
	}
}

// While the store is away and the backlog is full, attempts end when other replicas may start in their place.
func TestExpireDoesNotWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := recording(t, newPicky(away), 0)
		s.assume(&membership.Session{ID: "session", Trust: boottime.Now().Add(5 * time.Second)})
		s.work.recorder.fill()
		s.work.register.queue(claimed{task: jobs.Task{ID: "queued", Pool: "p"}, session: "session", since: time.Now()})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.work.expire(ctx) }()
		defer func() { stop(); s.work.recorder.makeRoom(); <-ended }()

		time.Sleep(queuedFor + 2*expireEvery)
		if !s.work.register.holds("queued") {
			t.Error("the task that waits for a worker too long is not handed back")
		}
		a := attemptOf(jobs.Task{ID: "running", Pool: "p"})
		told, end := a.begin(t.Context())
		defer end()
		s.work.register.run(a)
		select {
		case <-told.Done():
		case <-time.After(5 * time.Second):
			t.Error("the attempt goes on when its session is over")
		}
	})
}

// A replica stops although the store is away and its backlog is full.
func TestDrainDoesNotWaitForRoom(t *testing.T) {
	for name, stop := range map[string]func(s *Scheduler, cancel func()){
		"Drain": func(_ *Scheduler, cancel func()) { cancel() },
		"Halt":  func(s *Scheduler, _ func()) { s.Halt() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newPicky(away)
				began, end := make(chan struct{}, 10), make(chan struct{})
				s := replicaOn(t, st, blocked{began, end})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- s.Run(ctx) }()
				time.Sleep(time.Second) // the pool is known
				if _, err := st.Enqueue(ctx, slices.Repeat([]jobs.NewTask{{Pool: "p"}}, 4)...); err != nil {
					t.Fatal(err)
				}
				s.Wake("p")
				for range 4 {
					<-began
				}
				s.work.recorder.fill()
				close(end)
				synctest.Wait()
				if free := s.work.slots.room("p"); free > 0 {
					t.Errorf("%d workers are free to take more", free)
				}
				s.work.feeders["p"].mu.Lock()
				s.work.register.queue(claimed{task: jobs.Task{ID: "queued", Pool: "p"}, session: "session", since: time.Now()})
				s.work.feeders["p"].mu.Unlock()

				stop(s, cancel)
				select {
				case err := <-done:
					if err == nil || !strings.Contains(err.Error(), "did not take the last results") {
						t.Errorf("Run returned %v", err)
					}
				case <-time.After(time.Minute):
					t.Error("Run does not return")
					s.work.recorder.makeRoom()
					st.became(nil)
					<-done
				}
				cancel()
			})
		})
	}
}

// Tasks that wait for a worker are handed back as the drain begins, and not when what runs has ended.
func TestDrainHandsBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newPicky(nil)
		began, end := make(chan struct{}, 10), make(chan struct{})
		s := replicaOn(t, st, blocked{began, end})
		s.work.opt.DrainTimeout = time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(time.Second) // the pool is known
		if _, err := st.Enqueue(ctx, slices.Repeat([]jobs.NewTask{{Pool: "p"}}, 4)...); err != nil {
			t.Fatal(err)
		}
		s.Wake("p")
		for range 4 {
			<-began
		}
		f := s.work.feeders["p"]
		f.mu.Lock()
		s.work.register.queue(claimed{task: jobs.Task{ID: "queued", Pool: "p"}, session: s.work.member.Session().ID, since: time.Now()})
		f.mu.Unlock()
		cancel()
		time.Sleep(queuedFor / 2)
		if _, taken := st.look(); taken["queued"].Verdict != ledger.HandBack || len(taken) != 1 {
			t.Errorf("half a second into the drain, %d results: %+v", len(taken), taken)
		}
		close(end)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Once the backlog is written all workers that waited for room go on, not one for each batch.
func TestAllWorkersGoOnWhenThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newPicky(away)
		s := recording(t, st, 0)
		s.work.recorder.fill()
		synctest.Wait()
		const workers = 200
		var on atomic.Int32
		for range workers {
			go func() { s.work.recorder.waitForRoom(); on.Add(1) }()
		}
		synctest.Wait()
		if n := on.Load(); n > 0 {
			t.Errorf("%d workers go on while the backlog is full", n)
		}
		st.became(nil)
		time.Sleep(time.Minute)
		if n := on.Load(); n != workers || !settledNow(s) {
			t.Errorf("%d of %d workers go on once the backlog is written", n, workers)
		}
		s.work.recorder.makeRoom()
	})
}

// blocked is a handler that runs until end is closed.
type blocked struct{ began, end chan struct{} }

func (b blocked) Run(ctx context.Context, _ jobs.Task, _ io.Writer) error {
	b.began <- struct{}{}
	<-b.end
	return nil
}

func (blocked) Describe() string { return "blocked" }
