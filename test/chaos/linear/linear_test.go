package linear

import (
	"context"
	"flag"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/chaos/proxy"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

var seed = flag.Uint64("seed", 0, "what the clients do and when their ways break; 0: by the clock")

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8")      // they wait more than they work
	_ = mysql.SetLogger(&mysql.NopLogger{}) // connections break here
	redis.SetLogger(silent{})
	os.Exit(servers.Main(m))
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// service is the lock service of six clients.
type service struct {
	ttl    time.Duration
	alone  bool // as lockstest.Harness's KeysDieAlone
	votes  bool // as its Votes
	client func(t *testing.T, w *ways) driver.Driver
	// strike, if any, stops the most important server of the service once in a run. heal, if any, starts it
	// again.
	strike func(t *testing.T) (heal func())
}

// remote is a client behind proxies.
type remote struct {
	driver.Driver
	*ways
}

// faults are the faults of a proxy.
var faults = []struct {
	name string
	proxy.Fault
}{
	{"black hole", proxy.BlackHole},
	{"resets", proxy.Resets},
	{"lost replies", proxy.LoseReplies},
	{"lost requests", proxy.Fault{Up: proxy.Lane{Lose: true}}},
	{"requests are held", proxy.Fault{Up: proxy.Lane{Hold: true}}},
	{"answers are held", proxy.OneWay},
	{"slow", proxy.Slow(5*time.Millisecond, 40*time.Millisecond)},
}

// linearizable judges tries of a service.
func linearizable(t *testing.T, s service) { s.judge(t, lockstest.Linearizable) }

// inTurn judges holding together and alone, of a service that has both, and waiting in turn if it has a queue.
func inTurn(t *testing.T, s service) { s.judge(t, lockstest.LinearTurns) }

func (s service) judge(t *testing.T, judge func(*testing.T, lockstest.Harness, lockstest.Linear)) {
	l := lockstest.Linear{Seed: *seed}
	if l.Seed == 0 {
		l.Seed = uint64(time.Now().UnixNano())
	}
	heal := func(_ *testing.T, d driver.Driver) { d.(remote).heal() }
	for _, f := range faults {
		l.Faults = append(l.Faults, lockstest.Fault{
			Name: f.name, Begin: func(_ *testing.T, d driver.Driver) { d.(remote).disturb(f.Fault) }, End: heal,
		})
	}
	began := time.Now()
	var struck atomic.Bool
	if s.strike != nil {
		l.Faults = append(l.Faults, s.once(&struck, began))
	}
	var clients []*ways
	judge(t, lockstest.Harness{
		MinTTL:       s.ttl,
		KeysDieAlone: s.alone,
		Votes:        s.votes,
		Driver: func(t *testing.T) driver.Driver {
			w := newWays(t)
			clients = append(clients, w)
			return remote{s.client(t, w), w}
		},
	}, l)
	var met proxy.Counts
	for _, w := range clients {
		met = met.Add(w.met())
	}
	t.Logf("%d connections, of which %d were reset; %d bytes lost, %d held back", met.Accepted, met.Reset, met.Lost, met.Held)
	if met.Reset == 0 || met.Lost == 0 || met.Held == 0 || s.strike != nil && !struck.Load() {
		t.Error("the faults met nothing")
	}
	if t.Failed() {
		t.Logf("to repeat it: go test ./test/chaos/linear -count=1 -run '^%s$' -seed %d", t.Name(), l.Seed)
	}
}

// once is the strike as a fault. Clients that draw it later have their connections reset.
func (s service) once(struck *atomic.Bool, began time.Time) lockstest.Fault {
	var healing atomic.Pointer[func()]
	return lockstest.Fault{
		Name: "struck",
		Begin: func(t *testing.T, d driver.Driver) {
			if !struck.CompareAndSwap(false, true) {
				d.(remote).disturb(proxy.Resets)
				return
			}
			t.Logf("struck %v after the clients began to be made", time.Since(began).Round(time.Millisecond))
			if heal := s.strike(t); heal != nil {
				healing.Store(&heal)
			}
		},
		End: func(_ *testing.T, d driver.Driver) {
			d.(remote).heal()
			if heal := healing.Swap(nil); heal != nil {
				(*heal)()
			}
		},
	}
}
