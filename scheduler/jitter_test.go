package scheduler

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler/internal/replicatest"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// minted is a store with an id.
type minted struct{ ledger.Store }

func (minted) Namespace(context.Context) (string, error) { return "minted", nil }

// Replicas that start at different moments agree on each start, in the namespace that the set's name is or the store has minted. A run has its due
// time, and another jitter moves the next start and no due time.
func TestJitterOfReplicas(t *testing.T) {
	for name, namespace := range map[string]string{"": "minted", "prod": "prod"} {
		synctest.Test(t, func(t *testing.T) {
			type start struct{ due, at time.Time }
			var (
				mu     sync.Mutex
				starts []start
			)
			h := replicatest.Function(func(_ context.Context, task jobs.Task, _ io.Writer) error {
				mu.Lock()
				defer mu.Unlock()
				starts = append(starts, start{task.ScheduledAt, time.Now()})
				return nil
			})
			job := jobs.Job{Schedule: "* * * * *", Jitter: 50 * time.Second, Handler: h, CatchUp: jobs.CatchUp{Policy: jobs.CatchUpNone, Grace: 5 * time.Second}}
			db := memstore.New()
			run := func(id string, job jobs.Job) (s *Scheduler, stop func()) {
				return until(t, minted{&memstore.Store{Database: db, Name: id}}, jobs.Set{Name: name, Jobs: map[string]jobs.Job{"j": job}}, id)
			}
			took := func(job jobs.Job, from time.Time, n int) {
				t.Helper()
				times, err := job.Compile("j")
				if err != nil {
					t.Fatal(err)
				}
				mu.Lock()
				defer mu.Unlock()
				begins := job.Starts(times, "j", namespace)
				due, _ := times.Between(from, begins.Begun(time.Now()), 100)
				if len(due) != len(starts) || len(due) < n {
					t.Fatalf("%d runs of %d due times: %v", len(starts), len(due), starts)
				}
				for i, s := range starts {
					if late := s.at.Sub(begins.Of(due[i])); !s.due.Equal(due[i]) || late < 0 || late > time.Second {
						t.Errorf("due %v, ran for %v at %v, %v after its start", due[i], s.due, s.at, late)
					}
				}
				starts = nil
			}
			idle, err := newOn(minted{&memstore.Store{Database: db}}, nil, jobs.Set{Name: name, Jobs: map[string]jobs.Job{"j": job}}, Options{ID: "idle"})
			if err != nil {
				t.Fatal(err)
			}
			if got, known := idle.Namespace(); known != (name != "") || got != name {
				t.Errorf("before it runs: namespace %q, %v", got, known)
			}
			began := time.Now()
			a, stopA := run("a", job)
			time.Sleep(3*time.Minute + 17*time.Second)
			b, stopB := run("b", job)
			time.Sleep(5 * time.Minute)
			for _, s := range []*Scheduler{a, b} {
				if got, known := s.Namespace(); !known || got != namespace {
					t.Errorf("namespace %q, %v", got, known)
				}
			}
			stopA()
			time.Sleep(5 * time.Minute)
			stopB()
			took(job, began, 12)

			edited := job
			edited.Jitter = 20 * time.Second
			time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + 55*time.Second))) // nothing waits for its start then; what was due before is missed
			again := time.Now()
			_, stopA = run("a", edited)
			time.Sleep(4 * time.Minute)
			stopA()
			took(edited, again, 4)
		})
	}
}
