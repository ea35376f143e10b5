//go:build linux

package arena

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-scheduler/lockstep/test/chaos/history"
)

// Rest waits until nothing is open, after faults are healed and clients have stopped: jobs are suspended first, and the pool that fails
// is resumed whenever it may be paused. An error says what was still open when ctx ended.
func (a *Arena) Rest(ctx context.Context) error {
	asks, err := history.OpenLog[history.Ask](a.Dir, history.AsksFile)
	if err != nil {
		return err
	}
	defer asks.Close()
	c := &Clients{arena: a, caller: &caller{http: a.http, asks: asks, asked: &a.asked, note: a.note}}
	if err := c.suspendJobs(ctx); err != nil {
		return err
	}
	for i := 0; ; i++ {
		if i%2 == 0 {
			c.resume(ctx, rand.New(rand.NewPCG(uint64(i), 0)))
		}
		n, err := a.unfinished(ctx)
		if err == nil && n == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%d tasks and triggers are still open", n), err, ctx.Err())
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// suspendJobs suspends every job, several at once: due times are skipped from then on.
func (c *Clients) suspendJobs(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(8)
	for _, j := range jobsOfRun() {
		all.Go(func() error { return c.suspendJob(ctx, j.Name) })
	}
	return all.Wait()
}

// suspendJob asks one replica after the other until one has suspended the job.
func (c *Clients) suspendJob(ctx context.Context, name string) error {
	for i := 0; ; i++ {
		r := c.arena.Replicas[i%len(c.arena.Replicas)]
		line := c.caller.ask(ctx, r, history.Ask{What: "suspend", Target: name}, "/api/v1/jobs/"+name+"/suspend", nil, nil, nil)
		c.caller.write(line)
		if line.Answer == ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("suspend %s: %s: %w", name, line.Error, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Settle waits until nothing that replicas use has grown, or ctx ends, and returns the comparison: connections
// and goroutines end some time after their use.
func (a *Arena) Settle(ctx context.Context, before Inventory) ([]history.Leftover, error) {
	for {
		after, err := a.Inventory(ctx)
		if err != nil {
			return nil, err
		}
		all := leftovers(before, after)
		grown := false
		for _, l := range all {
			grown = grown || l.After > l.Before+l.Allowed
		}
		if !grown {
			return all, nil
		}
		select {
		case <-ctx.Done():
			return all, nil
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// Export writes audit.jsonl and final.json, of one moment: a row that is swept meanwhile would be in neither of them.
func (a *Arena) Export(ctx context.Context) error {
	return a.snapshot(ctx, func(db *sql.Conn, d dialect) error {
		swept, err := a.exportAudit(ctx, db)
		if err != nil {
			return err
		}
		return a.exportFinal(ctx, db, d, swept)
	})
}

// Drain stops every replica as an operator does, one after the other.
func (a *Arena) Drain(ctx context.Context) (err error) {
	for _, r := range a.Replicas {
		err = errors.Join(err, r.Drain(ctx))
	}
	return err
}
