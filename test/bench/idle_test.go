package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

// idleJobs are those that replicas have, and that are not due.
const idleJobs = 100

// idle is what replicas cost that have nothing to do.
type idle struct {
	kind     kind
	replicas int

	used, statements, lockCalls samples // of a replica, in a second
}

// BenchmarkIdle measures replicas whose jobs are not due. The processor time is that of this process, which does nothing else meanwhile.
func BenchmarkIdle(b *testing.B) {
	var field []*idle
	for _, k := range chosenKinds(b) {
		for _, n := range []int{1, 3} {
			field = append(field, &idle{kind: k, replicas: n})
		}
	}
	t := newTable(b, fmt.Sprintf("%d jobs, none of which is due, for %v", idleJobs, sized().lasts),
		"", "replicas", "processor of a replica, % of a core (min – max)", "SQL statements of a replica, a second", "lock calls of a replica, a second")
	takeTurns(b, len(field), func(r *round, i int) { field[i].turn(r) })
	for _, d := range field {
		t.add(d.kind.name, fmt.Sprint(d.replicas), d.used.spread(count), d.kind.known(d.statements), d.kind.known(d.lockCalls))
	}
	t.print()
}

func (d *idle) turn(r *round) {
	s := d.kind.open(r)
	counted := s.counter(r)
	var ran atomic.Int32
	job := jobs.Job{
		Schedule: time.Now().UTC().Add(12 * time.Hour).Format("4 15 * * *"), // minute and hour
		Handler:  jobs.Func(func(context.Context, jobs.Task, struct{}) error { ran.Add(1); return nil }),
	}
	set := jobs.Set{Jobs: map[string]jobs.Job{}}
	for i := range idleJobs {
		set.Jobs[fmt.Sprintf("job-%03d", i)] = job
	}
	var replicas []*scheduler.Scheduler
	for i := range d.replicas {
		replica := s.replica(r, fmt.Sprint("replica-", i), &meter{}, set, drainWorkers)
		replicas = append(replicas, replica)
		run(r, replica)
	}
	allReady(r, replicas)
	time.Sleep(7 * time.Second) // the stripes are divided, and what a start leaves has been swept
	before, used := counted(), worked(r)
	time.Sleep(sized().lasts)
	took, asked := worked(r)-used, counted().since(before)
	if n := ran.Load(); n > 0 {
		r.Fatalf("%d jobs ran that were not due", n)
	}
	each := sized().lasts.Seconds() * float64(d.replicas)
	d.used = append(d.used, 100*took/each)
	d.statements, d.lockCalls = append(d.statements, asked.statements/each), append(d.lockCalls, asked.lock/each)
}
