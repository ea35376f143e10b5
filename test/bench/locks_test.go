package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

// contestant acquires keys, all of them, as one client without competition.
type contestant struct {
	name  string
	raw   string // the contestant that it is compared with: the same server's bare operation
	take  func(ctx context.Context, keys []string) (release func() error, err error)
	rival string // another library that it is compared with
}

// beside compares it with another library, too.
func (c contestant) beside(rival string) contestant {
	c.rival = rival
	return c
}

// BenchmarkLocks measures acquire + release of 1 and of 100 keys.
func BenchmarkLocks(b *testing.B) {
	field := slices.Concat(onRedis(b), onZooKeeper(b), onMariaDB(b), onSQLite(b), inMemory(b))
	for _, keys := range []int{1, 100} {
		compareLocks(b, field, keys)
	}
}

func compareLocks(b *testing.B, field []contestant, keys int) {
	b.Helper()
	title := "Acquire + release of one key"
	if keys > 1 {
		title = fmt.Sprintf("Acquire + release of %d keys", keys)
	}
	compare(b, title, field, keys)
}

func compare(b *testing.B, title string, field []contestant, keys int) {
	b.Helper()
	t := newTable(b, title, "", "time (min – max)", "a second", "× raw", "× the other library (min – max)")
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("key-%03d", i)
	}
	took := map[string]samples{}
	takeTurns(b, len(field), func(r *round, i int) {
		c := field[i]
		took[c.name] = append(took[c.name], timePairs(r, c, names))
	})
	for _, c := range field {
		raw, rival := "–", "–"
		if c.raw != "" {
			raw = count(took[c.name].per(took[c.raw]).median())
		}
		if c.rival != "" {
			rival = took[c.name].per(took[c.rival]).spread(count) + ", " + c.rival
		}
		t.add(c.name, took[c.name].spread(lasting), count(1/took[c.name].median()), raw, rival)
	}
	t.print()
}

// timePairs returns how many seconds one acquire + release takes.
func timePairs(tb testing.TB, c contestant, keys []string) float64 {
	tb.Helper()
	ctx := tb.Context()
	pair := func() {
		release, err := c.take(ctx, keys)
		if err == nil {
			err = release()
		}
		if err != nil {
			tb.Fatalf("%s: %v", c.name, err)
		}
	}
	pair() // not counted: it connects, loads scripts, makes rows
	n, began := 0, time.Now()
	for n < 5 || time.Since(began) < sized().locking {
		pair()
		n++
	}
	return time.Since(began).Seconds() / float64(n)
}
