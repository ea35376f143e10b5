package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/test/await"
)

const dueReplicas = 3

// rush is what one combination reached, in seconds after the due time.
type rush struct {
	kind    kind
	workers int // of the pool, and of each replica

	decided, started, finished samples
	perDecision, statements    samples
	lockCalls                  samples
}

// BenchmarkDue measures how long it takes until many jobs that are due in one second are decided,
// started and recorded.
func BenchmarkDue(b *testing.B) {
	var field []*rush
	for _, k := range chosenKinds(b) {
		for _, workers := range []int{drainWorkers, sized().due} {
			field = append(field, &rush{kind: k, workers: workers})
		}
	}
	t := newTable(b, fmt.Sprintf("%s jobs due in the same second, %d replicas", count(float64(sized().due)), dueReplicas),
		"", "workers", "all decided after (min – max)", "all started after", "all recorded after", "jobs per decision", "statements per job", "lock calls per job")
	takeTurns(b, len(field), func(r *round, i int) { field[i].turn(r) })
	for _, d := range field {
		t.add(d.kind.name, fmt.Sprint(d.workers), d.decided.spread(lasting), d.started.spread(lasting), d.finished.spread(lasting),
			count(d.perDecision.median()), d.kind.known(d.statements), d.kind.known(d.lockCalls))
	}
	t.print()
}

func (d *rush) turn(r *round) {
	n := sized().due
	s := d.kind.open(r)
	counted := s.counter(r)
	m := &meter{decided: newMark(n), started: newMark(n), finished: newMark(n)}
	due := time.Now().Add(sized().lead).Truncate(time.Second).UTC()
	set := jobs.Set{
		Pools: map[string]jobs.Pool{naming.DefaultPool: {Workers: d.workers}},
		Jobs:  map[string]jobs.Job{},
	}
	job := jobs.Job{
		Schedule: due.Format("5 4 15 * * *"), // second, minute and hour: once a day
		Handler:  jobs.Func(func(context.Context, jobs.Task, struct{}) error { m.start(); return nil }),
	}
	for i := range n {
		set.Jobs[fmt.Sprintf("job-%06d", i)] = job
	}
	var replicas []*scheduler.Scheduler
	for i := range dueReplicas {
		replica := s.replica(r, fmt.Sprint("replica-", i), m, set, d.workers)
		replicas = append(replicas, replica)
		run(r, replica)
	}
	allReady(r, replicas)
	// Each second replicas read the list of live ones, and divide the jobs.
	const settling = 3 * time.Second
	if left := time.Until(due); left < settling {
		r.Fatalf("%s: the replicas were ready only %v before the jobs are due, they need %v", d.kind.name, left, settling)
	}
	time.Sleep(time.Until(due.Add(-time.Second / 2)))
	before := counted()
	m.wait(r, "jobs decided", &m.decided)
	m.wait(r, "jobs started", &m.started)
	m.wait(r, "jobs recorded", &m.finished)
	used := counted().since(before)

	m.mu.Lock()
	defer m.mu.Unlock()
	if m.decided.n != n || m.started.n != n || m.finished.n != n {
		r.Fatalf("%s: %d jobs were decided %d times, started %d times, recorded %d times", d.kind.name, n, m.decided.n, m.started.n, m.finished.n)
	}
	d.decided = append(d.decided, m.decided.at.Sub(due).Seconds())
	d.started = append(d.started, m.started.at.Sub(due).Seconds())
	d.finished = append(d.finished, m.finished.at.Sub(due).Seconds())
	d.perDecision = append(d.perDecision, float64(n)/float64(m.decides))
	d.statements = append(d.statements, used.statements/float64(n))
	d.lockCalls = append(d.lockCalls, used.lock/float64(n))
}

// allReady waits until the replicas are ready.
func allReady(r *round, replicas []*scheduler.Scheduler) {
	r.Helper()
	await.Until(r, "the replicas are ready", func() bool {
		for _, replica := range replicas {
			for _, condition := range replica.Health() {
				if !condition.Ready {
					return false
				}
			}
		}
		return true
	})
}
