// Command holder is a program that acquires locks with package locks, at the lock service of the cell. Only the
// lock excludes the other holders, so the run shows what a lock alone guarantees. While it has a key it checks
// repeatedly whether the lease may be trusted, and logs when it was.
//
// It is a program of its own, so that it can be built from the same source as the replicas.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/test/chaos/dial"
	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

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
	number := flag.Int("number", 0, "of the holder, from 0")
	dir := flag.String("dir", "", "of the history")
	flag.Parse()
	log, err := history.OpenLog[history.Hold](*dir, history.HoldsFile)
	if err != nil {
		return err
	}
	defer log.Close()
	d, closer, err := service.Open("holder", *ttl)
	if err != nil {
		return err
	}
	defer closer()
	l, err := locks.New(d, locks.Options{TTL: *ttl, Namespace: "chaos-holder", Owner: *id})
	if err != nil {
		return err
	}
	h := &holder{id: *id, locker: l, log: log, free: map[string]time.Time{}}
	for i, key := range keys() {
		if i%holders == *number {
			h.free[key] = time.Now()
		} else {
			h.foreign = append(h.foreign, key)
		}
	}
	err = h.run(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = l.Close(ctx) // a service that is away lets go by itself
	return err
}
