// Command stale is a stale owner. It records owners in the store and at the lock service, waits until they are
// stale, and then writes in their name: ends of attempts, deadlines, heartbeats, releases. Each write must be
// refused and change nothing; the results are written as history.Stale.
//
// It is a program of its own, so that it can be built from the same source as the replicas.
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockstep-scheduler/lockstep/store"
	_ "github.com/lockstep-scheduler/lockstep/store/sqlite"
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
	driver := flag.String("driver", "", "of the store")
	dsn := flag.String("dsn", "", "of the store")
	service := dial.Flags()
	dir := flag.String("dir", "", "of the history")
	flag.Parse()
	s, err := store.Open(ctx, store.Dialect(*driver), *dsn, store.Options{MaxConns: 2})
	if err != nil {
		return err
	}
	defer s.Close()
	log, err := history.OpenLog[history.Stale](*dir, history.StaleFile)
	if err != nil {
		return err
	}
	defer log.Close()
	if *driver == "sqlite" {
		*dsn = "file:" + *dsn + "?_pragma=busy_timeout(5000)"
	}
	db, err := sql.Open(*driver, *dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	o := &staleOwners{store: s, db: db, log: log}
	h, err := openHolder(*service)
	if err != nil {
		return err
	}
	defer h.close(context.WithoutCancel(ctx)) // ctx has ended by then
	for {
		round, cancel := context.WithTimeout(ctx, 10*time.Second)
		// An unavailable server is asked again later: to fail is no refusal.
		if err := o.writeAll(round); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		if err := h.write(round, log); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		cancel()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}
