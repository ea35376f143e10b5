// Command waiter is a program that waits for locks with package locks, at the lock service of the cell: alone, shared, and
// up to a limit, with and without a deadline. It logs when it asked, when its place was acknowledged, and when it was
// granted; and while it holds a key, when its lease may be trusted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/test/chaos/dial"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// lockers is how many Lockers one process has, each with one waiter.
const lockers = 3

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	service := dial.Flags()
	ttl := flag.Duration("ttl", 3*time.Second, "of the leases")
	id := flag.String("id", "", "of the replica beside which it runs")
	number := flag.Int("number", 0, "of the processes there, from 0")
	dir := flag.String("dir", "", "of the history")
	flag.Parse()
	waits, err := history.OpenLog[history.Wait](*dir, history.WaitsFile)
	if err != nil {
		return err
	}
	defer waits.Close()
	holds, err := history.OpenLog[history.Hold](*dir, history.HoldsFile)
	if err != nil {
		return err
	}
	defer holds.Close()
	failed := make([]error, lockers)
	var running sync.WaitGroup
	for i := range lockers {
		d, closer, err := service.Open("waiter", *ttl)
		if err != nil {
			return err
		}
		defer closer()
		w := &waiter{name: fmt.Sprintf("%s.%d.%d", *id, *number, i), beside: *id, ttl: *ttl, kinds: kinds(d.Caps()), waits: waits, holds: holds}
		if w.locker, err = locks.New(d, locks.Options{TTL: *ttl, Namespace: "chaos-waiter", Owner: w.name, Observer: w}); err != nil {
			return err
		}
		running.Go(func() { failed[i] = w.run(ctx) })
	}
	running.Wait()
	return errors.Join(failed...)
}
