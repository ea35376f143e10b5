package work

import (
	"context"
	"fmt"
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
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
)

// fill makes the backlog full, with results of tasks that no store knows.
func (r *recorder) fill() {
	for n := range recordBacklog + recordBatch { // a batch is being written
		id := fmt.Sprintf("filler %d", n)
		r.add("session", &jobs.Task{ID: id}, ledger.Result{TaskID: id, Verdict: ledger.HandBack})
	}
}

// While the store is away and the backlog is full, attempts end when other replicas may start in their place.
func TestExpireDoesNotWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := recording(t, replicatest.NewPicky(replicatest.Away), 0)
		s.assume(&membership.Session{ID: "session", Trust: boottime.Now().Add(5 * time.Second)})
		s.work.recorder.fill()
		s.work.register.queue(claimed{task: &jobs.Task{ID: "queued", Pool: "p"}, session: "session", since: time.Now()})
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
	for name, stop := range map[string]func(s *replica, cancel func()){
		"Drain": func(_ *replica, cancel func()) { cancel() },
		"Halt":  func(s *replica, _ func()) { s.Halt() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := replicatest.NewPicky(replicatest.Away)
				began, end := make(chan struct{}, 10), make(chan struct{})
				s := replicaOn(t, st, replicatest.Blocked{Began: began, End: end})
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
				s.work.feeder("p").mu.Lock()
				s.work.register.queue(claimed{task: &jobs.Task{ID: "queued", Pool: "p"}, session: "session", since: time.Now()})
				s.work.feeder("p").mu.Unlock()

				stop(s, cancel)
				select {
				case err := <-done:
					if err == nil || !strings.Contains(err.Error(), "the last results were not recorded") {
						t.Errorf("Run returned %v", err)
					}
				case <-time.After(time.Minute):
					t.Error("Run does not return")
					s.work.recorder.makeRoom()
					st.Became(nil)
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
		st := replicatest.NewPicky(nil)
		began, end := make(chan struct{}, 10), make(chan struct{})
		s := replicaOn(t, st, replicatest.Blocked{Began: began, End: end})
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
		f := s.work.feeder("p")
		f.mu.Lock()
		s.work.register.queue(claimed{task: &jobs.Task{ID: "queued", Pool: "p"}, session: s.work.member.Session().ID, since: time.Now()})
		f.mu.Unlock()
		cancel()
		time.Sleep(queuedFor / 2)
		if _, taken := st.Seen(); taken["queued"].Verdict != ledger.HandBack || len(taken) != 1 {
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
		st := replicatest.NewPicky(replicatest.Away)
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
		st.Became(nil)
		time.Sleep(time.Minute)
		if n := on.Load(); n != workers || !settledNow(s) {
			t.Errorf("%d of %d workers go on once the backlog is written", n, workers)
		}
		s.work.recorder.makeRoom()
	})
}
