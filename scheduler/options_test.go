package scheduler_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
	"github.com/lockstep-scheduler/lockstep/locks"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/memlock"
	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
	"github.com/lockstep-scheduler/lockstep/test/sim/memstore"
)

func newLocker(t *testing.T, drv driver.Driver) *locks.Locker {
	t.Helper()
	lk, err := locks.New(drv, locks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lk.Close(context.WithoutCancel(t.Context())) })
	return lk
}

// Programs that embed the scheduler and do not name their lock service cannot run on one store if their locks do
// not exclude each other.
func TestLockServiceOfThoseThatNameNone(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: servers.Redis(t)})
	t.Cleanup(func() { _ = rdb.Close() })
	memory := memlock.New()
	kinds := map[string]func() scheduler.Locks{
		"none":   func() scheduler.Locks { return nil },
		"memory": func() scheduler.Locks { return newLocker(t, memory) },
		"redis":  func() scheduler.Locks { return newLocker(t, redislock.New(rdb)) },
	}
	o := scheduler.Options{SessionTTL: time.Second}
	for _, c := range []struct {
		one, other string
		together   bool
	}{
		{"none", "none", true},
		{"redis", "redis", true},
		{"memory", "memory", true},
		{"none", "redis", false},
		{"none", "memory", false},
		{"redis", "memory", false},
		{"redis", "none", false},
	} {
		t.Run(c.one+" and "+c.other, func(t *testing.T) {
			db := sqlite(t)
			st := db.open(t)
			o.ID = "one"
			start(t, st, kinds[c.one](), pool(&starts{by: map[string]int{}}, nil), o)
			await.Until(t, "the first has joined", func() bool { return livePeers(t, st) == 1 })
			o.ID = "other"
			other := start(t, db.open(t), kinds[c.other](), pool(&starts{by: map[string]int{}}, nil), o)
			if c.together {
				await.Until(t, "both have joined", func() bool { return livePeers(t, st) == 2 })
				return
			}
			err := <-other.done
			other.done <- err
			if !errors.Is(err, ledger.ErrLockService) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

func livePeers(t *testing.T, st *store.Store) int {
	t.Helper()
	peers, err := st.Sides().Replica.Peers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(peers)
}

// member returns the name of the lock service by which a replica joins.
type member struct {
	ledger.Store
	joined chan string
}

func (m member) Join(_ context.Context, with ledger.Member) (string, error) {
	m.joined <- with.LockService
	return "", errors.New("only asking")
}

func lockServiceOf(t *testing.T, lk scheduler.Locks, o scheduler.Options) string {
	t.Helper()
	m := member{joined: make(chan string, 1)}
	start(t, m, lk, pool(&starts{by: map[string]int{}}, nil), o)
	return <-m.joined
}

// A lock in memory is another one in each process, even if the processes share everything else.
func TestLocksInMemoryOfTwoProcesses(t *testing.T) {
	t.Parallel()
	lk := newLocker(t, memlock.New())
	ours := lockServiceOf(t, lk, scheduler.Options{})
	const key = "LOCKSTEP_TEST_PRINT_LOCK_SERVICE"
	if os.Getenv(key) != "" {
		t.Logf("lock service <%s>", ours)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), key+"=1")
	out, err := cmd.CombinedOutput()
	_, theirs, found := strings.Cut(string(out), "lock service <")
	theirs, _, _ = strings.Cut(theirs, ">")
	if err != nil || !found || !strings.HasPrefix(theirs, "memory") || !strings.HasPrefix(ours, "memory") {
		t.Fatalf("ours %q, theirs %q, %v\n%s", ours, theirs, err, out)
	}
	if ours == theirs {
		t.Errorf("both are %q", ours)
	}
	if again := lockServiceOf(t, lk, scheduler.Options{}); again != ours {
		t.Errorf("%q, then %q", ours, again)
	}
	if named := lockServiceOf(t, lk, scheduler.Options{LockService: "mine"}); named != scheduler.Fingerprint("mine") {
		t.Errorf("what was given as mine is %q", named)
	}
}

func TestOutputLimit(t *testing.T) {
	for limit, fine := range map[int]bool{-1: false, 0: true, 1: true, limits.Output: true, limits.Output + 1: false} {
		if _, err := scheduler.New(ledger.Sides{Replica: &silent{Store: &memstore.Store{Database: memstore.New()}}}, nil, pool(&starts{}, nil), scheduler.Options{OutputLimit: limit}); (err == nil) != fine {
			t.Errorf("%d bytes: %v", limit, err)
		}
	}
}
