package main

import (
	"context"
	"regexp"
	"strconv"

	"github.com/lockstep-scheduler/lockstep/config"
)

var (
	connectedReplicas = regexp.MustCompile(`(?m)^connected_slaves:(\d+)\r?$`)
	enoughReplicas    = regexp.MustCompile(`(?m)^min_slaves_good_slaves:`) // it is there if min-replicas-to-write is set
)

// redisReplicas warns of replicas that a server does not wait for: cut off from them it goes on granting, while one of them
// is promoted and grants too.
func (e *examination) redisReplicas(ctx context.Context, l config.Lock) {
	rdb := openRedis(l.Redis)
	defer rdb.Close()
	info, err := rdb.Info(ctx, "replication").Result()
	if err != nil { // the account may not ask: then nothing is known
		return
	}
	found := connectedReplicas.FindStringSubmatch(info)
	if found == nil || enoughReplicas.MatchString(info) {
		return
	}
	if n, _ := strconv.Atoi(found[1]); n > 0 {
		e.add("lock", levelWarning, "set min-replicas-to-write to 1, and min-replicas-max-lag to fewer seconds than lock.ttl, on all its servers",
			"this Redis has %s and does not wait for any: cut off from the others it goes on granting, also after one of them was promoted, so that a lock may have two holders", count(n, "replica"))
	}
}
