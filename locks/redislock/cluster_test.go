package redislock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	srv := servers.NewRedis(t, "--cluster-enabled", "yes")
	node := client(t, srv.Addr)
	if err := node.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the cluster is whole", func() bool { return strings.Contains(node.ClusterInfo(t.Context()).Val(), "cluster_state:ok") })
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{srv.Addr}})
	defer rdb.Close()
	a, b := open(t, rdb, "cluster"), open(t, rdb, "cluster")
	mine := lockstest.Grant(t, a, "k")
	if got := lockstest.Acquire(t, b, "b", "k"); got[0].Holder == nil {
		t.Errorf("held by another: %+v", got[0])
	}
	node.FlushAll(t.Context())
	refuses(t, open(t, rdb, "cluster"), "k2")
	lockstest.Holds(t, a, mine, true)
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv.Kill()
	_, err := New(rdb).Open(t.Context(), driver.Open{Namespace: "cluster", TTL: ttl})
	if !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), srv.Addr) {
		t.Errorf("open: %v; want ErrUnreachable with the address", err)
	}
}

func TestClusterConformance(t *testing.T) {
	t.Parallel()
	lockstest.Run(t, func(t *testing.T) lockstest.Harness {
		c := servers.NewCluster(t)
		connect := func(dial dialer) redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), Dialer: dial, DialerRetries: 1, MaxRetries: -1})
		}
		admin := connect(nil)
		t.Cleanup(func() { _ = admin.Close() })
		for _, master := range c.Masters {
			aged(t, client(t, master.Addr), 3)
		}
		h := harness(admin, nil, connect)
		h.Brief = true
		return h
	})
}

// A replica that takes over from a failed master is found at once, by sessions that are open.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	c := servers.NewCluster(t)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	defer rdb.Close()
	s, err := New(rdb).Open(t.Context(), driver.Open{Namespace: "cluster", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	shard := 0
	if client(t, c.Masters[1].Addr).DBSize(t.Context()).Val() > 0 {
		shard = 1
	}
	successor := client(t, c.Replicas[shard].Addr)
	c.Masters[shard].Kill()
	if err := successor.Do(t.Context(), "CLUSTER", "FAILOVER", "TAKEOVER").Err(); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := lockstest.Renew(t.Context(), s)
		if err == nil {
			break
		}
		if errors.Is(err, driver.ErrSessionEnded) || time.Since(began) > 8*time.Second {
			t.Fatalf("after %v: %v", time.Since(began), err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A failure of a shard without keys of the namespace does not affect its locks.
func TestClusterWithoutAnotherShard(t *testing.T) {
	t.Parallel()
	c := servers.NewCluster(t)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	defer rdb.Close()
	open(t, rdb, "cluster")
	other := 1
	if client(t, c.Masters[1].Addr).DBSize(t.Context()).Val() > 0 {
		other = 0
	}
	c.Masters[other].Kill()
	open(t, rdb, "cluster")
	fresh := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	defer fresh.Close()
	open(t, fresh, "cluster")
}
