package redislock

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
)

// shard is where the namespace is: in a Cluster, commands without keys go to every master, and one that
// has nothing to do with the namespace may be away.
func (s *session) shard(ctx context.Context) redis.Scripter {
	if c, ok := s.rdb.(*redis.ClusterClient); ok {
		if master, err := c.MasterForKey(ctx, s.keys[0]); err == nil {
			return master
		}
	}
	return s.rdb
}

// markOthers leaves the namespace's mark also with the other masters of a Cluster, which may be given
// its slot one day; those that do not answer soon go without.
func (s *session) markOthers(ctx context.Context) {
	if _, ok := s.rdb.(*redis.ClusterClient); !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = calls.Do(ctx, &s.calls, func() error { return s.mark.Load(ctx, s.rdb).Err() })
}
