package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
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
	grown, resident       samples // the heap in use, and the memory of the process, after and before
}

// dueTimes are the starts of each job at each of its due times, with room from the beginning for all that may come: what grows meanwhile is of the replicas.
type dueTimes struct {
	mu    sync.Mutex
	first int64 // the second of the first due times
	jobs  int
	times []uint8   // by due time and job
	late  []float32 // in seconds
}

// period is how often each job is due, in seconds.
const period = 5

func newDueTimes(n int, lasts time.Duration) *dueTimes {
	size := n * (int((lasts+time.Minute)/time.Second)/period + 1)
	return &dueTimes{first: time.Now().Truncate(period * time.Second).Unix(), jobs: n, times: make([]uint8, size), late: make([]float32, size)}
}

func (s *dueTimes) start(job int, at, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := int(at.Unix()-s.first)/period*s.jobs + job
	s.times[i]++
	s.late[i] = float32(now.Sub(at).Seconds())
}

// between are the lags of what was due from a second, and before another, and how many starts were more than one of a due time.
func (s *dueTimes) between(from, to time.Time) (found samples, twice int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, n := range s.times {
		at := s.first + int64(i/s.jobs*period+i%s.jobs%period)
		if n == 0 || at < from.Unix() || at >= to.Unix() {
			continue
		}
		found = append(found, float64(s.late[i]))
		twice += int(n) - 1
	}
	return found, twice
}

// BenchmarkSteady measures jobs that are due all the time.
func BenchmarkSteady(b *testing.B) {
	var field []*steady
	for _, k := range kinds {
		for _, n := range []int{2, 3, 5} {
			if wanted(b).MatchString(fmt.Sprintf("%s, %d replicas", k.name, n)) {
				field = append(field, &steady{kind: k, replicas: n})
			}
		}
	}
	n := sized().steady
	t := newTable(b, fmt.Sprintf("%s jobs that are due every %d s, for %v", count(float64(n)), period, sized().lasts),
		"", "replicas", "runs a second", "p50 after the due time", "p99 (min – max)", "longest", "not run by 2 s after the end", "run twice", "statements per run", "lock calls per run", "heap after ÷ before", "memory of the process after ÷ before")
	takeTurns(b, len(field), func(r *round, i int) { field[i].turn(r, n) })
	for _, d := range field {
		t.add(d.kind.name, fmt.Sprint(d.replicas), count(float64(n)/period), d.p50.spread(lasting), d.p99.spread(lasting), d.most.spread(lasting), fmt.Sprint(d.late), fmt.Sprint(d.twice),
			d.kind.known(d.statements), d.kind.known(d.lockCalls), count(d.grown.median()), count(d.resident.median()))
	}
	t.print()
}

func (d *steady) turn(r *round, n int) {
	s := d.kind.open(r)
	counted := s.counter(r)
	all := newDueTimes(n, sized().lasts)
	h := jobs.Func(func(_ context.Context, t jobs.Task, _ struct{}) error {
		now := time.Now()
		job, err := strconv.Atoi(strings.TrimPrefix(t.Job, "job-"))
		if err == nil {
			all.start(job, t.ScheduledAt, now)
		}
		return err
	})
	set := jobs.Set{Pools: map[string]jobs.Pool{naming.DefaultPool: {Workers: steadyWorkers}}, Jobs: map[string]jobs.Job{}}
	for i := range n {
		set.Jobs[fmt.Sprintf("job-%06d", i)] = jobs.Job{Schedule: fmt.Sprintf("%d/%d * * * * *", i%period, period), Handler: h}
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
	before, held, used := inUse(), resident(r), counted()
	time.Sleep(time.Until(from.Add(sized().lasts)))
	asked := counted().since(used)
	to := from.Add(sized().lasts)
	time.Sleep(2 * time.Second) // the last ones
	d.resident = append(d.resident, resident(r)/held)
	d.grown = append(d.grown, inUse()/before)
	found, twice := all.between(from, to)
	expected := n * int(sized().lasts/time.Second) / period
	d.late += expected - len(found)
	d.twice += twice
	slices.Sort(found)
	d.p50, d.p99, d.most = append(d.p50, found.median()), append(d.p99, found[len(found)*99/100]), append(d.most, found[len(found)-1])
	d.statements, d.lockCalls = append(d.statements, asked.statements/float64(expected)), append(d.lockCalls, asked.lock/float64(expected))
}

// resident is the memory of this process, which has all replicas, in bytes.
func resident(tb testing.TB) float64 {
	tb.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		tb.Fatal(err)
	}
	var size, pages float64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		tb.Fatal(err)
	}
	return pages * float64(os.Getpagesize())
}

// inUse is the live heap of this process, in bytes.
func inUse() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
