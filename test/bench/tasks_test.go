package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

const (
	drainPool    = "bench"
	drainWorkers = 64 // of the pool, and of the replica, where it is the default
	bulk         = 1_000
)

// drained is what one combination reached, round by round.
type drained struct {
	kind     kind
	replicas int
	tasks    int
	limit    func(p *jobs.Pool) // nil: none
	keys     int                // that the tasks have; 0: none

	rate, perClaim, perFinish         samples
	processor                         samples // of this process for a task, in seconds
	statements, perBatch, commits, lk samples
}

// BenchmarkTasks measures claim to finish of tasks that do nothing.
func BenchmarkTasks(b *testing.B) {
	var field []*drained
	for _, k := range variants {
		for _, n := range []int{1, 3, 16} {
			if wanted(b).MatchString(fmt.Sprintf("%s, %d replicas", k.name, n)) {
				field = append(field, &drained{kind: k, replicas: n, tasks: sized().drain})
			}
		}
	}
	rivals := slices.DeleteFunc(slices.Clone(rivals), func(c competitor) bool { return !wanted(b).MatchString(c.name) })
	t := newTable(b, fmt.Sprintf("Claim to finish of %s tasks that do nothing, %d workers", count(float64(sized().drain)), drainWorkers),
		"", "replicas", "tasks/s (min – max)", "tasks per claim", "tasks per finish", "statements per task", "statements per batch", "commits per batch", "lock calls per claim", "processor time of the Go side per task")
	others, theirs := make([]samples, len(rivals)), make([]samples, len(rivals))
	takeTurns(b, len(field)+len(rivals), func(r *round, i int) {
		if i < len(field) {
			field[i].turn(r)
			return
		}
		i -= len(field)
		m := rivals[i].measure(r, "drain", "-n", min(sized().drain, rivals[i].drains))
		others[i], theirs[i] = append(others[i], m.Drain), append(theirs[i], m.Processor)
	})
	for _, d := range field {
		t.add(d.kind.name, fmt.Sprint(d.replicas), d.rate.spread(count), count(d.perClaim.median()), count(d.perFinish.median()),
			d.kind.known(d.statements), d.kind.known(d.perBatch), d.kind.known(d.commits), d.kind.known(d.lk), lasting(d.processor.median()))
	}
	for i, v := range rivals {
		t.add(v.name, "1", others[i].spread(count), "–", "–", "–", "–", "–", "–", lasting(theirs[i].median()))
	}
	t.print()
}

func (d *drained) turn(r *round) {
	n := d.tasks
	m := &meter{finished: newMark(n)}
	pool := jobs.Pool{
		Workers: drainWorkers,
		Handler: jobs.Func(func(context.Context, jobs.Task, struct{}) error { m.start(); return nil }),
	}
	if d.limit != nil {
		d.limit(&pool)
	}
	set := jobs.Set{Pools: map[string]jobs.Pool{drainPool: pool}}
	s := d.kind.open(r)
	st := s.store(r)
	s.define(r, st, set)
	fill(r, st, n, d.keys)
	counted := s.counter(r)
	pausePool(r, st, true)
	var replicas []*scheduler.Scheduler
	for i := range d.replicas {
		replica := s.replica(r, fmt.Sprint("replica-", i), m, set, drainWorkers)
		run(r, replica)
		replicas = append(replicas, replica)
	}
	for _, replica := range replicas {
		await.Until(r, "a replica has joined", replica.Loaded)
	}

	own, before, began := worked(r), counted(), time.Now()
	pausePool(r, st, false)
	for _, replica := range replicas {
		replica.Wake(drainPool)
	}
	m.wait(r, "tasks done", &m.finished)
	own, used := worked(r)-own, counted().since(before)

	m.mu.Lock()
	defer m.mu.Unlock()
	if m.started.n != n || m.finished.n != n {
		r.Fatalf("%s, %d replicas: %d tasks were started %d times and finished %d times", d.kind.name, d.replicas, n, m.started.n, m.finished.n)
	}
	batches := float64(m.claims + m.finishes)
	d.rate = append(d.rate, float64(n)/m.finished.at.Sub(began).Seconds())
	d.processor = append(d.processor, own/float64(n))
	d.perClaim = append(d.perClaim, float64(m.claimed)/float64(m.claims))
	d.perFinish = append(d.perFinish, float64(m.finished.n)/float64(m.finishes))
	d.statements = append(d.statements, used.statements/float64(n))
	d.perBatch = append(d.perBatch, used.statements/batches)
	d.commits = append(d.commits, used.commits/batches)
	d.lk = append(d.lk, used.lock/float64(m.claims))
}

// pausePool pauses the pool, so that the replicas join before the first task runs, or resumes it: what is measured is a drain, not a start.
func pausePool(tb testing.TB, st *store.Store, paused bool) {
	tb.Helper()
	if err := st.Sides().API.PausePool(tb.Context(), drainPool, "bench", &paused); err != nil {
		tb.Fatal(err)
	}
}

// fill enqueues n tasks with that many keys, a thousand at a time.
func fill(tb testing.TB, st *store.Store, n, keys int) {
	tb.Helper()
	for n > 0 {
		tasks := make([]jobs.NewTask, min(n, bulk))
		for i := range tasks {
			tasks[i].Pool = drainPool
			if keys > 0 {
				tasks[i].Key = fmt.Sprint("tenant-", i%keys)
			}
		}
		if _, err := st.Enqueue(tb.Context(), tasks...); err != nil {
			tb.Fatal(err)
		}
		n -= len(tasks)
	}
}
