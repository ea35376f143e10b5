package quorumlock

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	lockstest.Run(t, func(t *testing.T) lockstest.Harness { return harness(t, start(t, 5), false) })
}

// Three servers are the fewest: two decide.
func TestConformanceOfThree(t *testing.T) {
	t.Parallel()
	lockstest.Run(t, func(t *testing.T) lockstest.Harness { return harness(t, start(t, 3), true) })
}

// start starts n servers.
func start(t *testing.T, n int) []*servers.RedisServer {
	t.Helper()
	group := make([]*servers.RedisServer, n)
	for i := range group {
		group[i] = servers.NewRedis(t)
	}
	return group
}

// harness makes each client with wires of its own to all servers.
func harness(t *testing.T, group []*servers.RedisServer, brief bool) lockstest.Harness {
	admins := make([]*redis.Client, len(group))
	for i, srv := range group {
		admins[i] = client(t, srv.Addr, nil)
		aged(t, admins[i], 5) // so that namespaces are new
	}
	return lockstest.Harness{
		Driver: func(t *testing.T) driver.Driver { return wire(t, group, Options{NodeTimeout: time.Second}) },
		ExpireSession: func(t *testing.T, s driver.Session) {
			ours := s.(*session)
			for _, admin := range admins {
				if err := admin.ZAdd(t.Context(), ours.keys[1], redis.Z{Member: ours.id, Score: 1}).Err(); err != nil {
					t.Fatal(err)
				}
			}
		},
		Disconnect: func(_ *testing.T, d driver.Driver) { d.(*wired).each((*lockstest.Wires).Cut) },
		Reconnect:  func(_ *testing.T, d driver.Driver) { d.(*wired).each((*lockstest.Wires).Mend) },
		RestartEmpty: func(*testing.T) { // all, which is worse than promised: the clocks must not step back then
			for _, srv := range group {
				srv.Kill()
			}
			for _, srv := range group {
				srv.Start()
			}
		},
		Votes: true,
		Brief: brief,
	}
}

// aged waits until the server has been up for so many seconds, as it counts.
func aged(t *testing.T, rdb *redis.Client, seconds int) {
	t.Helper()
	await.Until(t, "an older server", func() bool {
		var up int
		_, text, _ := strings.Cut(rdb.Info(t.Context(), "server").Val(), "uptime_in_seconds:")
		_, err := fmt.Sscan(text, &up)
		return err == nil && up >= seconds
	})
}

func client(t *testing.T, addr string, dial dialer) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, Dialer: dial, DialerRetries: 1, MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// wire makes a driver whose client can be cut off from each server.
func wire(t *testing.T, group []*servers.RedisServer, o Options) *wired {
	t.Helper()
	w := &wired{}
	var clients []redis.UniversalClient
	for _, srv := range group {
		one := &lockstest.Wires{}
		w.wires = append(w.wires, one)
		clients = append(clients, client(t, srv.Addr, one.Dial))
	}
	w.Driver = New(clients, o)
	return w
}

// wired is a driver whose client can be cut off from each server.
type wired struct {
	*Driver
	wires []*lockstest.Wires
}

func (w *wired) each(do func(*lockstest.Wires)) {
	for _, one := range w.wires {
		do(one)
	}
}
