package moving

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/locks/zklock"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

func writeReport(_ context.Context, _ locks.Token) error { return nil }

// A lock that is waited for, of redsync's page.
func waitForIt(ctx context.Context, lk *locks.Locker) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second) // of the wait and the work
	defer cancel()
	return locks.Do(ctx, lk, locks.Request{Key: "report"}, func(ctx context.Context, token locks.Token) error {
		return writeReport(ctx, token) // ctx ends if the lock is lost
	})
}

// A lock that is tried once, of redislock's page.
func tryIt(ctx context.Context, lk *locks.Locker) error {
	got, err := lk.TryAcquire(ctx, locks.Request{Key: "report", Meta: "nightly"})
	if err != nil {
		return err // certainly not held
	}
	lease := got[0].Lease
	if errors.Is(got[0].Err, locks.ErrBusy) {
		return nil // got[0].Holder says who has it
	}
	if lease == nil {
		return got[0].Err
	}
	defer lease.Release(context.WithoutCancel(ctx))
	return writeReport(lease.Context(), lease.Token())
}

// The kinds of locks of Redisson's page, and of Curator's.
func kinds(ctx context.Context, lk *locks.Locker) error {
	for _, requests := range [][]locks.Request{
		{{Key: "report"}},                      // alone
		{{Key: "report", Owner: "import-7"}},   // reentrant
		{{Key: "schema", Mode: locks.Shared}},  // a reader; a writer asks for the key alone
		{{Key: "uplink", Limit: 3}},            // one of three permits
		{{Key: "accounts/7"}, {Key: "orders"}}, // all or none, in any order
	} {
		leases, err := lk.Acquire(ctx, requests...)
		if err != nil {
			return err
		}
		if err := lk.Release(ctx, leases...); err != nil {
			return err
		}
	}
	return nil
}

// What a long piece of work does between its steps, of the pages of Redisson and Curator.
func longWork(ctx context.Context, lk *locks.Locker, step func(token locks.Token) (more bool)) error {
	leases, err := lk.Acquire(ctx, locks.Request{Key: "import"})
	if err != nil {
		return err
	}
	lease := leases[0]
	defer lease.Release(context.WithoutCancel(ctx))
	for more := true; more; {
		if err := lease.Check(); err != nil { // no call: lost, forced or released
			return err
		}
		more = step(lease.Token())
	}
	return nil
}

// A lock at ZooKeeper, of go-zookeeper's page.
func atZooKeeper(ctx context.Context, servers []string) error {
	lk, err := locks.New(zklock.New(servers, zklock.Options{}), locks.Options{Namespace: "shop"})
	if err != nil {
		return err
	}
	defer lk.Close(context.WithoutCancel(ctx))
	return locks.Do(ctx, lk, locks.Request{Key: "report"}, func(ctx context.Context, token locks.Token) error {
		return writeReport(ctx, token) // ctx ends if the lock is lost
	})
}

func TestLockAtZooKeeper(t *testing.T) {
	if err := atZooKeeper(t.Context(), []string{servers.ZooKeeper(t)}); err != nil {
		t.Error(err)
	}
}

func TestLocksOfOtherLibraries(t *testing.T) {
	service := memlock.New()
	lk, err := locks.New(service, locks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer lk.Close(context.Background())
	other, err := locks.New(service, locks.Options{Owner: "other"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	if err := errors.Join(waitForIt(t.Context(), lk), tryIt(t.Context(), lk), kinds(t.Context(), lk)); err != nil {
		t.Error(err)
	}
	steps := 0
	if err := longWork(t.Context(), lk, func(locks.Token) bool { steps++; return steps < 3 }); err != nil || steps != 3 {
		t.Errorf("%d steps, %v", steps, err)
	}
	err = longWork(t.Context(), lk, func(token locks.Token) bool {
		if freed, err := lk.ForceRelease(t.Context(), "import", token); !freed || err != nil {
			t.Errorf("%v, %v", freed, err)
		}
		return true
	})
	if !errors.Is(err, locks.ErrForced) {
		t.Errorf("%v, want ErrForced", err)
	}
	held, err := other.Acquire(t.Context(), locks.Request{Key: "report"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Release(t.Context(), held...)
	if err := tryIt(t.Context(), lk); err != nil {
		t.Errorf("%v; another has it", err)
	}
}
