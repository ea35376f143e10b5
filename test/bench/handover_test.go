package bench

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// BenchmarkHandOver measures from just before a release until a waiter in another process has the key.
func BenchmarkHandOver(b *testing.B) {
	t := newTable(b, "Hand-over to one waiter in another process", "", "p50 (min – max)", "p99 (min – max)")
	field := []string{bareHandOver.name}
	for _, w := range ways {
		field = append(field, w.name)
	}
	field = chosen(b, field...)
	p50, p99 := make([]samples, len(field)), make([]samples, len(field))
	takeTurns(b, len(field), func(r *round, i int) {
		took := handOver(r, wayOf(r, field[i]))
		slices.Sort(took)
		p50[i] = append(p50[i], took[len(took)/2])
		p99[i] = append(p99[i], took[len(took)*99/100])
	})
	for i, name := range field {
		t.add(name, p50[i].spread(lasting), p99[i].spread(lasting))
	}
	t.print()
}

// The variables of the process that waits.
const (
	waiterOf = "LOCKSTEP_BENCH_WAITER"
	waiterAt = "LOCKSTEP_BENCH_WAITER_AT"
)

// handOver returns the times in seconds. The other process says when it asks and when it has the key.
func handOver(tb testing.TB, w way) samples {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 3*time.Minute)
	defer cancel()
	addr := w.address(tb)
	take := w.client(tb, addr)
	tell, expect := otherProcess(tb, w.name, "TestWaiter", waiterOf+"="+w.name, waiterAt+"="+addr)
	var took samples
	for range sized().handOvers {
		release, err := take(ctx, "passed")
		if err != nil {
			tb.Fatal(w.name, err)
		}
		fmt.Fprintln(tell, "go")
		expect("asks")
		time.Sleep(20 * time.Millisecond) // its request is on its way: there is no other sign of it on all of them
		began := time.Now().UnixNano()
		if err := release(); err != nil {
			tb.Fatal(w.name, err)
		}
		at, err := strconv.ParseInt(expect("has "), 10, 64)
		if err != nil {
			tb.Fatal(err)
		}
		took = append(took, float64(at-began)/1e9)
		expect("released")
	}
	return took
}

// TestWaiter is the other process of BenchmarkHandOver, and nothing without its variables.
func TestWaiter(t *testing.T) {
	name := os.Getenv(waiterOf)
	if name == "" {
		return
	}
	take := wayOf(t, name).client(t, os.Getenv(waiterAt))
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		fmt.Println("asks")
		release, err := take(t.Context(), "passed")
		at := time.Now().UnixNano()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("has", at)
		if err := release(); err != nil {
			t.Fatal(err)
		}
		fmt.Println("released")
	}
}
