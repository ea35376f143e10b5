package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// entry is one line of BenchmarkCrowd.
type entry struct {
	way     string // "" is memlock
	clients int    // of the library: Lockers, or connection pools
}

// BenchmarkCrowd lets so many clients as the size says take one key, each once. They share a few clients of the library, as the
// goroutines of a few processes would.
func BenchmarkCrowd(b *testing.B) {
	crowd(b, "Redis", entry{"**redislock**, Lockstep", 8}, entry{"bsm/redislock", 8}, entry{"redsync", 8})
	crowd(b, "ZooKeeper", entry{"**zklock**, Lockstep", 8}, entry{"go-zookeeper's zk.Lock", 8})
	crowd(b, "MariaDB", entry{"**sqllock lease** on MariaDB, Lockstep", 1}, entry{"**sqllock lease** on MariaDB, Lockstep", 8},
		entry{"**sqllock row** on MariaDB, Lockstep", 1}, entry{"MariaDB: GET_LOCK", 1})
	crowd(b, "SQLite and memory", entry{"**sqllock** on SQLite, Lockstep", 1}, entry{"**sqllock** on SQLite, Lockstep", 8}, entry{"", 8})
}

func crowd(b *testing.B, server string, field ...entry) {
	b.Helper()
	field = slices.DeleteFunc(field, func(e entry) bool { return len(chosen(b, e.way)) == 0 })
	if len(field) == 0 {
		return
	}
	t := newTable(b, fmt.Sprintf("%d clients take one key, each once: %s", sized().crowd, server),
		"", "over", "time (min – max)", "hand-overs/s", "× the first", "hand-overs ÷ bsm's pairs of one client")
	took := make([]samples, len(field))
	alone := make([]samples, len(field))
	takeTurns(b, len(field), func(r *round, i int) {
		if server == "Redis" { // the measure of a hand-over, in the same minute
			pair := timePairs(r, bsm(newRedis(r), ""), []string{"pair"})
			alone[i] = append(alone[i], pair*float64(sized().crowd))
		}
		took[i] = append(took[i], field[i].rush(r))
	})
	for i, e := range field {
		share := "–"
		if len(alone[i]) > 0 {
			share = count(alone[i].per(took[i]).median())
		}
		t.add(e.name(), fmt.Sprint(e.clients), took[i].spread(lasting), count(float64(sized().crowd)/took[i].median()),
			count(took[i].per(took[0]).median()), share)
	}
	t.print()
}

func (e entry) name() string {
	if e.way == "" {
		return "**memlock**, Lockstep"
	}
	return e.way
}

// rush returns how long it takes until all have had their turn.
func (e entry) rush(tb testing.TB) float64 {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 5*time.Minute)
	defer cancel()
	var lock []waitFor
	if e.way == "" {
		lock = inProcess(tb, e.clients)
	} else {
		w := wayOf(tb, e.way)
		addr := w.address(tb)
		for range e.clients {
			lock = append(lock, w.client(tb, addr))
		}
	}
	for _, take := range lock { // connected, scripts and rows are there
		release, err := take(ctx, "crowd")
		if err == nil {
			err = release()
		}
		if err != nil {
			tb.Fatal(e.name(), err)
		}
	}
	turns := 0 // guarded by the lock
	var all sync.WaitGroup
	began := time.Now()
	for i := range sized().crowd {
		all.Go(func() {
			release, err := lock[i%len(lock)](ctx, "crowd")
			if err == nil {
				turns++
				err = release()
			}
			if err != nil {
				tb.Errorf("%s: client %d: %v", e.name(), i, err)
			}
		})
	}
	all.Wait()
	took := time.Since(began).Seconds()
	if turns != sized().crowd {
		tb.Errorf("%s: %d turns were counted, want %d: the lock does not exclude", e.name(), turns, sized().crowd)
	}
	return took
}
