package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/scheduler"
)

// steadyWorkers are those of the pool, and of each replica: what is due together starts in the transaction that decides it.
const steadyWorkers = 512

// steady is what replicas reached with jobs that are due every five seconds, a fifth of them in each second.
type steady struct {
	kind     kind
	replicas int

	p50, p99, most        samples
	statements, lockCalls samples // for each run
	late, twice           int     // in all rounds: due times that were not started by 2 s after the end, or were skipped; and that were started twice
	grown                 samples // the heap in use after and before
}

// BenchmarkSteady measures jobs that are due all the time.
func BenchmarkSteady(b *testing.B) {
	var field []*steady
	for _, k := range chosenKinds(b) {
		for _, n := range []int{2, 3, 5} {
			field = append(field, &steady{kind: k, replicas: n})
		}
	}
	n := sized().steady
	t := newTable(b, fmt.Sprintf("%s jobs that are due every 5 s, for %v", count(float64(n)), sized().lasts),
		"", "replicas", "runs a second", "p50 after the due time", "p99 (min – max)", "longest", "not run by 2 s after the end", "run twice", "statements per run", "lock calls per run", "heap after ÷ before")
	takeTurns(b, len(field), func(r *round, i int) { field[i].turn(r, n) })
	for _, d := range field {
		t.add(d.kind.name, fmt.Sprint(d.replicas), count(float64(n)/5), d.p50.spread(lasting), d.p99.spread(lasting), d.most.spread(lasting), fmt.Sprint(d.late), fmt.Sprint(d.twice),
			d.kind.known(d.statements), d.kind.known(d.lockCalls), count(d.grown.median()))
	}
	t.print()
}

func (d *steady) turn(r *round, n int) {
	s := d.kind.open(r)
	counted := s.counter(r)
	type due struct {
		job string
		at  int64
	}
	var mu sync.Mutex
	times := map[due]int{}
	late := map[due]float64{}
	h := jobs.Func(func(_ context.Context, t jobs.Task, _ struct{}) error {
		now := time.Now()
		mu.Lock()
		defer mu.Unlock()
		key := due{t.Job, t.ScheduledAt.Unix()}
		times[key]++
		late[key] = now.Sub(t.ScheduledAt).Seconds()
		return nil
	})
	set := jobs.Set{Pools: map[string]jobs.Pool{naming.DefaultPool: {Workers: steadyWorkers}}, Jobs: map[string]jobs.Job{}}
	for i := range n {
		set.Jobs[fmt.Sprintf("job-%06d", i)] = jobs.Job{Schedule: fmt.Sprintf("%d/5 * * * * *", i%5), Handler: h}
	}
	var replicas []*scheduler.Scheduler
	for i := range d.replicas {
		replica := s.replica(r, fmt.Sprint("replica-", i), &meter{}, set, steadyWorkers)
		replicas = append(replicas, replica)
		run(r, replica)
	}
	allReady(r, replicas)
	time.Sleep(7 * time.Second) // the stripes are divided, and each job has run
	from := time.Now().Truncate(time.Second).Add(time.Second)
	before, used := inUse(), counted()
	time.Sleep(time.Until(from.Add(sized().lasts)))
	asked := counted().since(used)
	to := from.Add(sized().lasts)
	time.Sleep(2 * time.Second) // the last ones
	after := inUse()
	mu.Lock()
	defer mu.Unlock()
	var found samples
	for key, n := range times {
		if at := time.Unix(key.at, 0); at.Before(from) || !at.Before(to) {
			continue
		}
		found = append(found, late[key])
		d.twice += n - 1
	}
	expected := n * int(sized().lasts/time.Second) / 5
	d.late += expected - len(found)
	slices.Sort(found)
	d.p50, d.p99, d.most = append(d.p50, found.median()), append(d.p99, found[len(found)*99/100]), append(d.most, found[len(found)-1])
	d.statements, d.lockCalls = append(d.statements, asked.statements/float64(expected)), append(d.lockCalls, asked.lock/float64(expected))
	d.grown = append(d.grown, after/before)
}

// inUse is the live heap of this process, in bytes.
func inUse() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
