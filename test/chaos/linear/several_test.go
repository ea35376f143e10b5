package linear

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/quorumlock"
	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/locks/zklock"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// Three servers; the leader is killed and started again.
func TestZooKeeperEnsemble(t *testing.T) {
	t.Parallel()
	e := servers.NewEnsemble(t)
	linearizable(t, service{
		ttl: 2 * time.Second,
		client: func(_ *testing.T, w *ways) driver.Driver {
			var addrs []string
			for _, server := range e.Addrs() {
				addrs = append(addrs, w.to(server))
			}
			return zklock.New(addrs, zklock.Options{})
		},
		strike: func(*testing.T) (heal func()) {
			leader := e.Leader()
			leader.Kill()
			return func() { e.Start(leader) }
		},
	})
}

func TestQuorum(t *testing.T)      { onQuorum(t, linearizable) }
func TestQuorumTurns(t *testing.T) { onQuorum(t, inTurn) }

// onQuorum has five servers, of which one has a clock that is an hour ahead, and another is killed, and started without its data.
//
// The clock does not step meanwhile: its server would forget a holder, and where only a majority has the key, another session would be granted
// it, as package quorumlock says. Nor is NoGracePeriod set: a session that is opened after the restart would have the empty server vote at once.
func onQuorum(t *testing.T, judge func(*testing.T, service)) {
	t.Parallel()
	clock := servers.NewClock(t)
	group := []*servers.RedisServer{clock.NewRedis(t)}
	if err := clock.Step(time.Hour); err != nil {
		t.Fatal(err)
	}
	for len(group) < 5 {
		group = append(group, servers.NewRedis(t))
	}
	judge(t, service{
		ttl:   2 * time.Second,
		votes: true,
		client: func(t *testing.T, w *ways) driver.Driver {
			var clients []redis.UniversalClient
			for _, server := range group {
				rdb := redis.NewClient(&redis.Options{Addr: server.Addr, Dialer: w.dial, MaxRetries: -1, DialerRetries: 1})
				t.Cleanup(func() { _ = rdb.Close() })
				clients = append(clients, rdb)
			}
			return quorumlock.New(clients, quorumlock.Options{})
		},
		strike: func(t *testing.T) (heal func()) {
			group[4].Kill()
			return group[4].Start
		},
	})
}

func TestSentinel(t *testing.T)      { onSentinel(t, linearizable) }
func TestSentinelTurns(t *testing.T) { onSentinel(t, inTurn) }

// onSentinel kills the master, and Sentinel makes its replica the master.
func onSentinel(t *testing.T, judge func(*testing.T, service)) {
	t.Parallel()
	set := servers.NewSentinel(t, servers.Secure{})
	judge(t, service{
		ttl: 2 * time.Second,
		client: func(t *testing.T, w *ways) driver.Driver {
			rdb := redis.NewFailoverClient(&redis.FailoverOptions{
				MasterName: servers.MasterName, SentinelAddrs: set.Addrs(), Dialer: w.dial, MaxRetries: -1, DialerRetries: 1,
			})
			t.Cleanup(func() { _ = rdb.Close() })
			return redislock.New(rdb)
		},
		strike: func(t *testing.T) (heal func()) {
			sentinel := redis.NewSentinelClient(&redis.Options{Addr: set.Addrs()[0]})
			defer sentinel.Close()
			set.Master.Kill()
			// It would notice by itself, in two seconds.
			if err := sentinel.Failover(t.Context(), servers.MasterName).Err(); err != nil {
				t.Errorf("fail over: %v", err)
			}
			return nil
		},
	})
}

func TestCluster(t *testing.T)      { onCluster(t, linearizable) }
func TestClusterTurns(t *testing.T) { onCluster(t, inTurn) }

// onCluster kills the master that holds the locks, and its replica takes over its slots.
func onCluster(t *testing.T, judge func(*testing.T, service)) {
	t.Parallel()
	c := servers.NewCluster(t)
	judge(t, service{
		ttl: 2 * time.Second,
		client: func(t *testing.T, w *ways) driver.Driver {
			rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), Dialer: w.dial, MaxRetries: -1, DialerRetries: 1})
			t.Cleanup(func() { _ = rdb.Close() })
			return redislock.New(rdb)
		},
		strike: func(t *testing.T) (heal func()) {
			master, replica := c.Masters[0], c.Replicas[0]
			if node(t, c.Masters[1]).DBSize(t.Context()).Val() > 0 { // a namespace is in one shard
				master, replica = c.Masters[1], c.Replicas[1]
			}
			successor := node(t, replica)
			master.Kill()
			// It would do so by itself only if most masters lived.
			if err := successor.Do(t.Context(), "CLUSTER", "FAILOVER", "TAKEOVER").Err(); err != nil {
				t.Errorf("take over: %v", err)
			}
			return nil
		},
	})
}

func node(t *testing.T, s *servers.RedisServer) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}
