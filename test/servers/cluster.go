package servers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/test/await"
)

// Cluster is a Redis Cluster of two shards, each with half of the slots and with a replica. A replica takes
// over by itself, two seconds after it has last heard of its master, only while most masters run: with two, a
// test has to order it (CLUSTER FAILOVER TAKEOVER).
type Cluster struct {
	Masters, Replicas []*RedisServer // of each shard, at the start
}

// NewCluster starts a cluster for this test. It ends with the test.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	node := func() *RedisServer {
		return NewRedis(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000",
			"--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0")
	}
	c := &Cluster{Masters: []*RedisServer{node(), node()}, Replicas: []*RedisServer{node(), node()}}
	must := func(s *RedisServer, command string) {
		t.Helper()
		if answer := s.say(t, Secure{}, command); !strings.HasPrefix(answer, "+OK") {
			t.Fatalf("%s: %.200q", command, answer)
		}
	}
	const slots = 16384
	for i, s := range c.Masters {
		must(s, fmt.Sprintf("CLUSTER SET-CONFIG-EPOCH %d", i+1))
		must(s, fmt.Sprintf("CLUSTER ADDSLOTSRANGE %d %d", i*slots/2, (i+1)*slots/2-1))
	}
	all := c.nodes()
	for _, s := range all[1:] {
		host, port, _ := strings.Cut(s.Addr, ":")
		must(all[0], "CLUSTER MEET "+host+" "+port)
	}
	agree := func(what, command, part string, times int) {
		t.Helper()
		await.Until(t, what, func() bool {
			for _, s := range all {
				if strings.Count(s.say(t, Secure{}, command), part) != times {
					return false
				}
			}
			return true
		})
	}
	agree("the nodes know each other", "CLUSTER INFO", fmt.Sprintf("cluster_known_nodes:%d\r\n", len(all)), 1)
	agree("the nodes know the masters", "CLUSTER INFO", fmt.Sprintf("cluster_size:%d\r\n", len(c.Masters)), 1)
	for i, s := range c.Replicas {
		_, id, _ := strings.Cut(c.Masters[i].say(t, Secure{}, "CLUSTER MYID"), "\r\n")
		must(s, "CLUSTER REPLICATE "+strings.TrimSpace(id))
	}
	agree("the nodes know the replicas", "CLUSTER NODES", "slave ", len(c.Replicas))
	agree("the cluster is whole", "CLUSTER INFO", "cluster_state:ok", 1)
	await.Until(t, "the replicas follow", func() bool {
		for _, s := range c.Replicas {
			if !strings.Contains(s.say(t, Secure{}, "INFO replication"), "master_link_status:up") {
				return false
			}
		}
		return true
	})
	return c
}

func (c *Cluster) nodes() []*RedisServer {
	return append(append([]*RedisServer{}, c.Masters...), c.Replicas...)
}

// Addrs are the addresses (host:port) of all nodes, running or not.
func (c *Cluster) Addrs() (addrs []string) {
	for _, s := range c.nodes() {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}
