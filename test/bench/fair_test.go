package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// contenders want one key, each in a loop, as processes would: each has its own client.
const contenders = 20

// work is how long each holds it.
const work = 5 * time.Millisecond

// BenchmarkFair counts the turns of each. A wait is fair that lasts for one turn of each: the time of the whole, divided by
// the turns, times the contenders.
func BenchmarkFair(b *testing.B) {
	t := newTable(b, fmt.Sprintf("%d contenders in a loop, %v each, for %v", contenders, work, sized().fair),
		"", "turns/s (min – max)", "turns, most ÷ least", "longest wait ÷ fair")
	var field []string
	for _, w := range ways {
		if w.name != "**sqllock row** on MariaDB, Lockstep" { // it promises no order
			field = append(field, w.name)
		}
	}
	field = chosen(b, append(field, quorumName, "")...) // the last is memlock
	rate, spread, longest := make([]samples, len(field)), make([]samples, len(field)), make([]samples, len(field))
	takeTurns(b, len(field), func(r *round, i int) {
		var lock []waitFor
		if field[i] == "" {
			lock = inProcess(r, contenders)
		} else {
			w := wayOf(r, field[i])
			addr := w.address(r)
			for range contenders {
				lock = append(lock, w.client(r, addr))
			}
		}
		c := contend(r, lock)
		rate[i] = append(rate[i], c.rate)
		spread[i] = append(spread[i], c.spread)
		longest[i] = append(longest[i], c.longest)
	})
	for i, name := range field {
		t.add(entry{way: name}.name(), rate[i].spread(count), spread[i].spread(count), longest[i].spread(count))
	}
	t.print()
}

// contest is the result for one lock.
type contest struct{ rate, spread, longest float64 }

func contend(tb testing.TB, lock []waitFor) contest {
	tb.Helper()
	turns, waits := make([]float64, len(lock)), make([]time.Duration, len(lock))
	ctx := tb.Context()
	began := time.Now()
	var all sync.WaitGroup
	for i, take := range lock {
		all.Go(func() {
			for time.Since(began) < sized().fair {
				wait, err := turn(ctx, take)
				if err != nil {
					tb.Errorf("contender %d: %v", i, err)
					return
				}
				turns[i]++
				waits[i] = max(waits[i], wait)
			}
		})
	}
	all.Wait()
	took, sum := time.Since(began).Seconds(), 0.0
	for _, n := range turns {
		sum += n
	}
	if slices.Min(turns) == 0 {
		tb.Error("a contender had no turn")
	}
	fair := took / sum * float64(len(lock))
	return contest{sum / took, slices.Max(turns) / slices.Min(turns), slices.Max(waits).Seconds() / fair}
}

func turn(ctx context.Context, take waitFor) (wait time.Duration, err error) {
	asked := time.Now()
	release, err := take(ctx, "fair")
	if err != nil {
		return 0, err
	}
	wait = time.Since(asked)
	time.Sleep(work)
	return wait, release()
}
