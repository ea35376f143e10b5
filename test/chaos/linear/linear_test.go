package linear

import (
	"context"
	"database/sql"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/locks/sqllock"
	"github.com/lockstep-scheduler/lockstep/locks/zklock"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

var seed = flag.Uint64("seed", 0, "what the clients do and when their ways break; 0: by the clock")

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4")      // they wait more than they work
	_ = mysql.SetLogger(&mysql.NopLogger{}) // connections break here
	redis.SetLogger(silent{})
	os.Exit(servers.Main(m))
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func TestRedis(t *testing.T) {
	linearizable(t, 1500*time.Millisecond, servers.Redis(t), func(t *testing.T, addr string) driver.Driver {
		rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1})
		t.Cleanup(func() { _ = rdb.Close() })
		return redislock.New(rdb)
	})
}

func TestZooKeeper(t *testing.T) {
	linearizable(t, 2*time.Second, servers.ZooKeeper(t), func(_ *testing.T, addr string) driver.Driver {
		return zklock.New([]string{addr}, zklock.Options{})
	})
}

func TestMySQLLease(t *testing.T) { onMySQL(t, 1500*time.Millisecond, sqllock.Lease) }
func TestMySQLRow(t *testing.T)   { onMySQL(t, 2*time.Second, sqllock.Row) }

func onMySQL(t *testing.T, ttl time.Duration, mode sqllock.Mode) {
	server, err := mysql.ParseDSN(servers.MySQL(t))
	if err != nil {
		t.Fatal(err)
	}
	linearizable(t, ttl, server.Addr, func(t *testing.T, addr string) driver.Driver {
		c := server.Clone()
		c.Addr, c.InterpolateParams = addr, true
		connector, err := mysql.NewConnector(c)
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(connector)
		db.SetMaxIdleConns(16)
		t.Cleanup(func() { db.Close() })
		return sqllock.New(db, sqllock.MySQL, sqllock.Options{Mode: mode})
	})
}

// remote is a client behind an edge of its own.
type remote struct {
	driver.Driver
	edge *proxy.Proxy
}

// faults are all that an edge can do to a client.
var faults = []struct {
	name string
	proxy.Fault
}{
	{"black hole", proxy.BlackHole},
	{"resets", proxy.Resets},
	{"lost replies", proxy.LoseReplies},
	{"lost requests", proxy.Fault{Up: proxy.Lane{Lose: true}}},
	{"heard by nobody", proxy.Fault{Up: proxy.Lane{Hold: true}}},
	{"hearing nobody", proxy.OneWay},
	{"slow", proxy.Slow(5*time.Millisecond, 40*time.Millisecond)},
}

func linearizable(t *testing.T, ttl time.Duration, server string, client func(t *testing.T, addr string) driver.Driver) {
	t.Parallel()
	var edges []*proxy.Proxy
	l := lockstest.Linear{Seed: *seed}
	for _, f := range faults {
		set := func(f proxy.Fault) func(*testing.T, driver.Driver) {
			return func(_ *testing.T, d driver.Driver) { d.(remote).edge.Set(f) }
		}
		l.Faults = append(l.Faults, lockstest.Fault{Name: f.name, Begin: set(f.Fault), End: set(proxy.Fault{})})
	}
	if l.Seed == 0 {
		l.Seed = uint64(time.Now().UnixNano())
	}
	lockstest.Linearizable(t, lockstest.Harness{
		MinTTL: ttl,
		Driver: func(t *testing.T) driver.Driver {
			edge, err := proxy.Listen(server)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = edge.Close() })
			edges = append(edges, edge)
			return remote{client(t, edge.Addr()), edge}
		},
	}, l)
	var met proxy.Counts
	for _, edge := range edges {
		c := edge.Counts()
		met.Accepted, met.Reset = met.Accepted+c.Accepted, met.Reset+c.Reset
		met.Lost, met.Held = met.Lost+c.Lost, met.Held+c.Held
	}
	t.Logf("%d connections, of which %d were reset; %d bytes lost, %d held back", met.Accepted, met.Reset, met.Lost, met.Held)
	if met.Reset == 0 || met.Lost == 0 || met.Held == 0 {
		t.Error("the faults met nothing")
	}
	if t.Failed() {
		t.Logf("to repeat it: go test ./test/chaos/linear -count=1 -run '^%s$' -seed %d", t.Name(), l.Seed)
	}
}
