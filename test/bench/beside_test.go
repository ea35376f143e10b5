package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

// besideJobs are due each second while a pool is drained.
const besideJobs = 20

// beside is how late due jobs started, in seconds, round by round.
type beside struct {
	kind           kind
	p50, p99, most samples
	rate           samples
}

// BenchmarkBeside measures how late jobs start that are due each second, while the same replicas drain a pool as fast as they can.
func BenchmarkBeside(b *testing.B) {
	var field []*beside
	for _, k := range kinds {
		field = append(field, &beside{kind: k})
	}
	t := newTable(b, fmt.Sprintf("From the due time to the start of a job, %d jobs a second, while %d replicas drain a pool", besideJobs, dueReplicas),
		"", "p50 (min – max)", "p99 (min – max)", "longest (min – max)", "tasks/s of the pool (min – max)")
	takeTurns(b, len(field), func(r *round, i int) { field[i].turn(r) })
	for _, d := range field {
		t.add(d.kind.name, d.p50.spread(lasting), d.p99.spread(lasting), d.most.spread(lasting), d.rate.spread(count))
	}
	t.print()
}

func (d *beside) turn(r *round) {
	s := d.kind.open(r)
	n := sized().beside
	m := &meter{finished: newMark(n)}
	set := drainSet(m)
	set.Pools[naming.DefaultPool] = jobs.Pool{Workers: drainWorkers}
	set.Jobs = map[string]jobs.Job{}
	var mu sync.Mutex
	var late samples
	draining := false
	for i := range besideJobs {
		set.Jobs[fmt.Sprint("job-", i)] = jobs.Job{Schedule: "* * * * * *", Handler: jobs.Func(func(_ context.Context, t jobs.Task, _ struct{}) error {
			mu.Lock()
			defer mu.Unlock()
			if draining {
				late = append(late, time.Since(t.ScheduledAt).Seconds())
			}
			return nil
		})}
	}
	var replicas []*scheduler.Scheduler
	for i := range dueReplicas {
		replica := s.replica(r, fmt.Sprint("replica-", i), m, set, 2*drainWorkers)
		replicas = append(replicas, replica)
		run(r, replica)
	}
	allReady(r, replicas)
	st := s.store(r)
	pause := func(paused bool) {
		if err := st.Sides().API.PausePool(r.Context(), drainPool, "the benchmark", &paused); err != nil {
			r.Fatal(err)
		}
	}
	pause(true)
	fill(r, st, n, 0)
	pause(false)
	mu.Lock()
	draining = true
	mu.Unlock()
	began := time.Now()
	m.wait(r, "tasks done", &m.finished)
	mu.Lock()
	defer mu.Unlock()
	draining = false
	slices.Sort(late)
	if len(late) == 0 {
		r.Fatal("no job was due")
	}
	d.p50, d.p99, d.most = append(d.p50, late.median()), append(d.p99, late[len(late)*99/100]), append(d.most, late[len(late)-1])
	d.rate = append(d.rate, float64(n)/time.Since(began).Seconds())
}
