package bench

import (
	"context"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/scheduler"
	"github.com/lockstep-scheduler/lockstep/store"
	_ "github.com/lockstep-scheduler/lockstep/store/sqlite"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// site is where the replicas of one round meet: an empty database and a lock service. Another process reads it as JSON.
type site struct {
	Driver, DSN string
	Redis       string // its address; empty: the store's own rows are the guards
	Namespace   string // of the locks
}

// kind of site, as a user would choose it.
type kind struct {
	name    string
	open    func(r *round) *site
	servers bool // that count what they are asked
}

var kinds = []kind{
	{"SQLite", onFile, false},
	{"MariaDB + Redis lock", onServers, true},
}

// chosenKinds are those of kinds that -only leaves.
func chosenKinds(tb testing.TB) []kind {
	tb.Helper()
	only := wanted(tb)
	return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return !only.MatchString(k.name) })
}

// variants are the kinds, and the one whose rows are the lock service, too.
var variants = append(slices.Clone(kinds), kind{"MariaDB", onMySQL, true})

// known is the median of what servers counted.
func (k kind) known(s samples) string {
	if !k.servers {
		return "–"
	}
	return count(s.median())
}

func onFile(r *round) *site {
	return &site{Driver: "sqlite", DSN: filepath.Join(r.TempDir(), "lockstep.db")}
}

func onServers(r *round) *site {
	rdb := newRedis(r)
	await.Until(r, "Redis is up for so long that it grants at once in a new namespace", func() bool {
		info, err := rdb.Info(r.Context(), "server").Result()
		if err != nil {
			r.Fatal(err)
		}
		found := uptime.FindStringSubmatch(info)
		seconds, err := strconv.Atoi(found[1])
		return err == nil && time.Duration(seconds)*time.Second > sized().lockTTL+time.Second
	})
	return &site{Driver: "mysql", DSN: servers.MySQL(r), Redis: servers.Redis(r)}
}

func onMySQL(r *round) *site { return &site{Driver: "mysql", DSN: servers.MySQL(r)} }

var uptime = regexp.MustCompile(`(?m)^uptime_in_seconds:(\d+)`)

// store opens the database as one process would.
func (s *site) store(tb testing.TB) *store.Store {
	tb.Helper()
	st, err := store.Open(tb.Context(), store.Dialect(s.Driver), s.DSN, store.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { st.Close() })
	if err := st.Migrate(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	if s.Namespace, err = st.Namespace(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return st
}

// replica makes a replica that shares only the servers.
func (s *site) replica(tb testing.TB, id string, m *meter, set jobs.Set, workers int) *scheduler.Scheduler {
	tb.Helper()
	st := metered{s.store(tb).Sides().Replica, m}
	replica, err := scheduler.New(ledger.Sides{Replica: st}, s.locker(tb), set, scheduler.Options{ID: id, Workers: workers})
	if err != nil {
		tb.Fatal(err)
	}
	return replica
}

// locker is a client of the lock service; nil: there is none.
func (s *site) locker(tb testing.TB) scheduler.Locks {
	tb.Helper()
	if s.Redis == "" {
		return nil
	}
	return newLocker(tb, redislock.New(redisClient(tb, s.Redis)), s.Namespace)
}

// run runs a replica until stop, or until the round ends.
func run(tb testing.TB, replica *scheduler.Scheduler) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := replica.Run(ctx); err != nil {
			tb.Errorf("replica %s: %v", replica.ID(), err)
		}
	}()
	stop = func() { cancel(); <-done }
	tb.Cleanup(stop)
	return stop
}

// define stores the pools of set, as an earlier replica would.
func (s *site) define(tb testing.TB, st *store.Store, set jobs.Set) {
	tb.Helper()
	stop := run(tb, s.replica(tb, "first", &meter{}, set, 1))
	await.Until(tb, "the pools are known", func() bool {
		pools, err := st.Pools(tb.Context())
		return err == nil && len(pools) > len(set.Pools) // the built-in one, too
	})
	stop()
}
