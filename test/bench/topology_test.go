package bench

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/quorumlock"
	"github.com/lockstep-scheduler/lockstep/locks/redislock"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// BenchmarkTopologies measures acquire + release of one key on a Redis Cluster of three masters, and with five independent
// servers, of which a majority has to agree.
func BenchmarkTopologies(b *testing.B) {
	compare(b, "Acquire + release of one key on a Redis Cluster of 3", onCluster(b), 1)
	compare(b, "Acquire + release of one key on a majority of 5 servers (Redlock)", onFive(b), 1)
}

func onCluster(tb testing.TB) []contestant {
	tb.Helper()
	const slots, masters = 16384, 3
	var nodes []*redis.Client
	var addrs []string
	for i := range masters {
		addr := servers.NewRedis(tb, "--cluster-enabled", "yes").Addr
		node := redisClient(tb, addr)
		if err := node.ClusterAddSlotsRange(tb.Context(), i*slots/masters, (i+1)*slots/masters-1).Err(); err != nil {
			tb.Fatal(err)
		}
		nodes, addrs = append(nodes, node), append(addrs, addr)
	}
	for _, addr := range addrs[1:] {
		host, port, _ := net.SplitHostPort(addr)
		if err := nodes[0].ClusterMeet(tb.Context(), host, port).Err(); err != nil {
			tb.Fatal(err)
		}
	}
	for _, node := range nodes {
		await.Until(tb, "the cluster is whole", func() bool {
			info := node.ClusterInfo(tb.Context()).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(masters))
		})
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true})
	tb.Cleanup(func() { rdb.Close() })
	const raw = "Redis: SET NX PX, DEL"
	return []contestant{
		{name: raw, take: func(ctx context.Context, keys []string) (func() error, error) {
			err := rdb.SetArgs(ctx, keys[0], "me", redis.SetArgs{Mode: "NX", TTL: leaseTime}).Err()
			return func() error { return rdb.Del(ctx, keys[0]).Err() }, err
		}},
		ours(tb, "**redislock**, Lockstep", raw, redislock.New(rdb)).beside(bsmName),
		bsm(rdb, raw),
		redsyncMutex(rdb, raw),
	}
}

func onFive(tb testing.TB) []contestant {
	tb.Helper()
	clients := fiveServers(tb)
	var pools []redsyncredis.Pool
	for _, c := range clients {
		pools = append(pools, goredis.NewPool(c))
	}
	const rival = "redsync"
	return []contestant{
		mutexes(redsync.New(pools...), rival, ""),
		ours(tb, "**quorumlock**, Lockstep", "", quorumlock.New(clients, quorumlock.Options{NoGracePeriod: true})).beside(rival),
	}
}

func fiveServers(tb testing.TB) (clients []redis.UniversalClient) {
	tb.Helper()
	for range 5 {
		clients = append(clients, redisClient(tb, servers.NewRedis(tb).Addr))
	}
	return clients
}
