package store

import (
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Transactions that enqueue under one key wait for each other: the server has no deadlock to break.
func TestOneKeyMakesNoDeadlock(t *testing.T) {
	s := migrated(t, "mysql", servers.MySQL(t), Options{})
	session, err := s.Sides().Replica.Join(t.Context(), ledger.Member{Replica: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sides().Replica.Load(t.Context(), session, ledger.Definitions{Pools: []ledger.PoolDef{{Name: "p", Hash: "1"}}}); err != nil {
		t.Fatal(err)
	}
	const deadlocks = "SELECT `COUNT` FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'"
	before := text(t, s, deadlocks)
	g, ctx := errgroup.WithContext(t.Context())
	for range 100 {
		g.Go(func() error {
			_, err := s.Enqueue(ctx, jobs.NewTask{Pool: "p", IdempotencyKey: "key"})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if after := text(t, s, deadlocks); after != before {
		t.Fatalf("the server counted %s deadlocks before and %s after", before, after)
	}
	if n := text(t, s, `SELECT COUNT(*) FROM {tasks}`); n != "1" {
		t.Fatalf("%s tasks under one key", n)
	}
}
