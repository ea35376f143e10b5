package bench

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// BenchmarkRoundTrips counts how often a client on Redis waits for an answer: it writes after it has read.
func BenchmarkRoundTrips(b *testing.B) {
	b.ReportMetric(0, "ns/op")
	var trips atomic.Int64
	rdb := redis.NewClient(&redis.Options{Addr: servers.Redis(b), Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &counting{Conn: conn, trips: &trips}, err
	}})
	b.Cleanup(func() { rdb.Close() })
	field := []contestant{
		{name: "Redis: SET NX PX, DEL (a pipeline)", take: func(ctx context.Context, keys []string) (func() error, error) { return setKeys(ctx, rdb, keys) }},
		ours(b, "**redislock**, Lockstep", "", redislock.New(rdb)), bsm(rdb, ""), redsyncMutex(rdb, ""),
	}
	t := newTable(b, "Round trips on Redis", "", "acquire 1 key", "release it", "acquire 100 keys", "release them")
	for _, c := range field {
		row := []string{c.name}
		for _, n := range []int{1, 100} {
			keys := make([]string, n)
			for i := range keys {
				keys[i] = fmt.Sprintf("trip-%03d", i)
			}
			least := [2]int64{1 << 62, 1 << 62} // a renewal may come between
			for range 5 {
				before := trips.Load()
				release, err := c.take(b.Context(), keys)
				if err != nil {
					b.Fatal(c.name, err)
				}
				between := trips.Load()
				if err := release(); err != nil {
					b.Fatal(c.name, err)
				}
				least = [2]int64{min(least[0], between-before), min(least[1], trips.Load()-between)}
			}
			row = append(row, fmt.Sprint(least[0]), fmt.Sprint(least[1]))
			if c.name == "**redislock**, Lockstep" && least != [2]int64{1, 1} {
				b.Errorf("%d keys take %d round trips and %d, want 1 and 1", n, least[0], least[1])
			}
		}
		t.add(row...)
	}
	t.print()
}

// counting is a connection that counts the writes that follow a read.
type counting struct {
	net.Conn
	trips *atomic.Int64
	wrote atomic.Bool
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.wrote.Store(false)
	return n, err
}

func (c *counting) Write(b []byte) (int, error) {
	if !c.wrote.Swap(true) {
		c.trips.Add(1)
	}
	return c.Conn.Write(b)
}
