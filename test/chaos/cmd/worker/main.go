//go:build linux

// Command worker takes tasks of one pool of a chaos run over HTTP, from any replica, as docs/workers.md says. Of each attempt it logs its
// start, a beat every 100 ms, and its end, as the commands do, and what it said of the attempt and was answered.
//
// It does what a worker must do: it stops the work when no call had an answer for the ttl since the last one was sent, when a heartbeat is
// refused, and at the deadline. And it does what it must not: where its session gets a task again, it says that the earlier attempt is
// complete.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

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
	dir := flag.String("dir", "", "of the history")
	name := flag.String("name", "", "of this process")
	pool := flag.String("pool", "", "of the tasks")
	replicas := flag.String("replicas", "", "their URLs, with commas between")
	flag.Parse()
	effects, err := history.OpenLog[history.Effect](*dir, history.EffectsFile)
	if err != nil {
		return err
	}
	defer effects.Close()
	said, err := history.OpenLog[history.Said](*dir, history.SaidFile)
	if err != nil {
		return err
	}
	defer said.Close()
	w := newWorker(*name, *pool, strings.Split(*replicas, ","), effects, said)
	return w.run(ctx)
}
