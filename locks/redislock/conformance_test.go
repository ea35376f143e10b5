package redislock

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	lockstest.Run(t, func(t *testing.T) lockstest.Harness {
		srv := servers.NewRedis(t)
		admin := clientAfter(t, srv.Addr, 3) // so namespaces are new, for sessions of 1 s
		wires := func(d driver.Driver) *wires { return &d.(*wired).wires }
		return lockstest.Harness{
			Driver: func(t *testing.T) driver.Driver {
				w := &wired{}
				rdb := redis.NewClient(&redis.Options{Addr: srv.Addr, Dialer: w.dial, DialerRetries: 1, MaxRetries: -1})
				t.Cleanup(func() { _ = rdb.Close() })
				w.Driver = New(rdb)
				return w
			},
			ExpireSession: func(t *testing.T, s driver.Session) {
				ours := s.(*session)
				if err := admin.ZAdd(t.Context(), ours.keys[1], redis.Z{Member: ours.id, Score: 1}).Err(); err != nil {
					t.Fatal(err)
				}
			},
			Disconnect:   func(t *testing.T, d driver.Driver) { wires(d).cut(true) },
			Reconnect:    func(t *testing.T, d driver.Driver) { wires(d).cut(false) },
			RestartEmpty: func(t *testing.T) { srv.Kill(); srv.Start() },
		}
	})
}

// wired is a driver whose client can be cut off.
type wired struct {
	*Driver
	wires
}

// wires are the connections of one client.
type wires struct {
	mu    sync.Mutex
	off   bool
	conns []net.Conn
}

func (w *wires) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.off {
		return nil, errors.New("cut off by the test")
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err == nil {
		w.conns = append(w.conns, conn)
	}
	return conn, err
}

func (w *wires) cut(off bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.off = off
	for _, conn := range w.conns {
		_ = conn.Close()
	}
	w.conns = nil
}
