package scheduler

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

// begins says when its runs began, each of which takes a while.
type begins struct{ at chan time.Time }

func (b begins) Run(context.Context, jobs.Task, io.Writer) error {
	b.at <- time.Now()
	time.Sleep(10*time.Second + 137*time.Millisecond)
	return nil
}

func (begins) Identity() string { return "begins" }

// A place that is freed in a pool with functions and workers is found at once by the other ones, in the same process and in another.
func TestAFreedPlaceIsForTheOthers(t *testing.T) {
	for name, limits := range map[string]jobs.Pool{
		"max_running": {MaxRunning: 1}, "per_kind": {PerKind: map[string]jobs.KindLimits{"pdf": {MaxRunning: 1}}, MaxRunning: 1}, "override": {},
	} {
		for _, processes := range []int{1, 2} {
			synctest.Test(t, func(t *testing.T) {
				st, service := &memstore.Store{Database: memstore.New()}, memlock.New()
				own := begins{make(chan time.Time, 99)}
				var replicas []*Scheduler
				for _, id := range []string{"a", "b"}[:processes] {
					set := jobs.Set{Pools: map[string]jobs.Pool{"mixed": limits}}
					p := set.Pools["mixed"]
					p.Handler, p.Kinds = own, map[string]jobs.Handler{"pdf": jobs.Worker{}}
					set.Pools["mixed"] = p
					l, err := locks.New(service, locks.Options{})
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = l.Close(context.Background()) }()
					s, err := New(ledger.Sides{Replica: st}, l, set, Options{ID: id, SessionTTL: 10 * time.Minute})
					if err != nil {
						t.Fatal(err)
					}
					replicas = append(replicas, s)
				}
				stop := running(t, replicas...)
				defer stop()
				time.Sleep(time.Second)
				if name == "override" {
					if err := st.LimitPool(t.Context(), "mixed", "a test", &wire.PoolLimits{MaxRunning: new(1)}); err != nil {
						t.Fatal(err)
					}
				}
				enqueue := func(kind string) string {
					added, err := st.Enqueue(t.Context(), jobs.NewTask{Pool: "mixed", Kind: kind})
					if err != nil {
						t.Fatal(err)
					}
					return added[0].ID
				}
				session, _ := claims(t, replicas[0], wire.WorkerClaim{Pool: "mixed", Kinds: []string{"pdf"}, Max: 1})
				for round := range 4 {
					// A replica runs a task, and a worker waits at one.
					first := enqueue("")
					<-own.at
					enqueue("pdf")
					got := make(chan wire.Claim, 1)
					at := replicas[0]
					if task, _, err := st.Task(t.Context(), first); err != nil || len(replicas) > 1 && task.Replica == "a" {
						at = replicas[1]
					}
					go func() {
						c, err := at.ClaimFor(t.Context(), wire.WorkerClaim{Pool: "mixed", Session: session, Max: 1, Wait: time.Minute})
						if err != nil {
							t.Error(err)
						}
						got <- c
					}()
					c := <-got
					task, _, err := st.Task(t.Context(), first)
					if err != nil || len(c.Items) != 1 {
						t.Fatalf("claimed %+v, %v", c, err)
					}
					if late := time.Since(task.FinishedAt); late > 15*time.Millisecond {
						t.Errorf("%s, %d processes, round %d: the worker has its task %v after the end of the replica's", name, processes, round, late)
					}
					// The worker runs it while a task of the replicas waits.
					enqueue("")
					time.Sleep(10*time.Second + time.Duration(round)*71*time.Millisecond)
					_, err = replicas[len(replicas)-1].EndFor(t.Context(), wire.WorkerAttempt{Session: session, Task: c.Items[0].ID, Token: c.Items[0].Token}, wire.WorkerEnd{How: wire.WorkerCompleted})
					ended := time.Now()
					if err != nil {
						t.Fatal(err)
					}
					if late := (<-own.at).Sub(ended); late > 15*time.Millisecond {
						t.Errorf("%s, %d processes, round %d: the replica's task began %v after the end of the worker's", name, processes, round, late)
					}
					time.Sleep(time.Minute)
				}
			})
		}
	}
}

// running runs replicas until stop is called.
func running(t *testing.T, replicas ...*Scheduler) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, len(replicas))
	for _, s := range replicas {
		go func() { ended <- s.Run(ctx) }()
	}
	return func() {
		cancel()
		for range replicas {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
}
