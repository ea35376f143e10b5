package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// BenchmarkClients measures acquire + release of many clients at once, each with a key of its own, in one process.
func BenchmarkClients(b *testing.B) {
	field := onRedis(b)
	clients := sized().clients
	t := newTable(b, fmt.Sprintf("Acquire + release of %d clients at once, each with its own key, on Redis", clients),
		"", "pairs/s (min – max)", "× bsm/redislock")
	rate := map[string]samples{}
	takeTurns(b, len(field), func(r *round, i int) {
		c := field[i]
		for n := range clients { // connected, scripts are there
			timeOne(r, c, n)
		}
		counts := make([]int, clients)
		var all sync.WaitGroup
		began := time.Now()
		for n := range clients {
			all.Go(func() {
				for time.Since(began) < sized().locking {
					timeOne(r, c, n)
					counts[n]++
				}
			})
		}
		all.Wait()
		took, sum := time.Since(began).Seconds(), 0
		for _, n := range counts {
			sum += n
		}
		rate[c.name] = append(rate[c.name], float64(sum)/took)
	})
	for _, c := range field {
		t.add(c.name, rate[c.name].spread(count), count(rate[c.name].per(rate[bsmName]).median()))
	}
	t.print()
}

func timeOne(tb testing.TB, c contestant, client int) {
	release, err := c.take(context.WithoutCancel(tb.Context()), []string{fmt.Sprintf("client-%03d", client)})
	if err == nil {
		err = release()
	}
	if err != nil {
		tb.Errorf("%s: %v", c.name, err)
	}
}
