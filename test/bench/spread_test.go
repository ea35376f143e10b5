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
	"github.com/lockstep-scheduler/lockstep/test/await"
)

// inMemorySchedulers are schedulers that keep their jobs in memory, and nothing of their runs.
var inMemorySchedulers = []competitor{
	{"robfig/cron", "robfig", func(*round) string { return "" }, 0},
	{"gocron", "gocron", func(*round) string { return "" }, 0},
}

// BenchmarkSpread measures one replica with many jobs that are due once a minute, as many in each second, beside schedulers that record nothing.
func BenchmarkSpread(b *testing.B) {
	n := sized().spread
	var late, most, used, seen []samples
	for range len(inMemorySchedulers) + 1 {
		late, most, used, seen = append(late, nil), append(most, nil), append(used, nil), append(seen, nil)
	}
	t := newTable(b, fmt.Sprintf("%s jobs spread over a minute, one replica; SQLite in memory", count(float64(n))),
		"", "calls a second", "p50 after the second", "p99 (min – max)", "processor, of a core (min – max)", "× robfig/cron")
	takeTurns(b, len(late), func(r *round, i int) {
		var found samples
		var processor float64
		if i < len(inMemorySchedulers) {
			m := inMemorySchedulers[i].measure(r, "spread", "-n", n, "-for", sized().lasts)
			found, processor = m.Late, m.Processor
		} else {
			found, processor = spreadHere(r, n)
		}
		if len(found) == 0 {
			r.Fatal("nothing was called")
		}
		late[i], most[i] = append(late[i], found[len(found)/2]), append(most[i], found[len(found)*99/100])
		used[i], seen[i] = append(used[i], processor), append(seen[i], float64(len(found))/sized().lasts.Seconds())
	})
	for i := range late {
		name := "**Lockstep**"
		if i < len(inMemorySchedulers) {
			name = inMemorySchedulers[i].name
		}
		t.add(name, count(seen[i].median()), lasting(late[i].median()), most[i].spread(lasting), used[i].spread(count), count(used[i].per(used[0]).median()))
	}
	t.print()
}

// spreadHere is how late the runs of n jobs started, sorted, and how much of a core this process took.
func spreadHere(r *round, n int) (late samples, processor float64) {
	s := &site{Driver: "sqlite", DSN: ":memory:"}
	var mu sync.Mutex
	set := jobs.Set{Pools: map[string]jobs.Pool{naming.DefaultPool: {Workers: n/60 + 1}}, Jobs: map[string]jobs.Job{}}
	h := jobs.Func(func(_ context.Context, t jobs.Task, _ struct{}) error {
		now := time.Now()
		mu.Lock()
		defer mu.Unlock()
		late = append(late, now.Sub(t.ScheduledAt).Seconds())
		return nil
	})
	for i := range n {
		set.Jobs[fmt.Sprintf("job-%06d", i)] = jobs.Job{Schedule: fmt.Sprintf("%d * * * * *", i%60), Handler: h}
	}
	replica, err := scheduler.New(s.store(r), nil, set, scheduler.Options{ID: "replica", Workers: n/60 + 1})
	if err != nil {
		r.Fatal(err)
	}
	run(r, replica)
	await.Until(r, "the replica has loaded", replica.Loaded)
	allReady(r, []*scheduler.Scheduler{replica})
	time.Sleep(3 * time.Second)
	mu.Lock()
	late = nil
	mu.Unlock()
	before := worked(r)
	time.Sleep(sized().lasts)
	processor = (worked(r) - before) / sized().lasts.Seconds()
	mu.Lock()
	defer mu.Unlock()
	found := slices.Sorted(slices.Values(late))
	return found, processor
}
