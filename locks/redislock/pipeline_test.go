package redislock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
	"github.com/lockstep-scheduler/lockstep/locks/lockstest"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// moveTo has a session call another server, as a client of Sentinel does after a failover.
func (s *session) moveTo(rdb redis.UniversalClient) {
	s.rdb, s.prompt = rdb, prompt(rdb)
	s.pipeline.client = s.prompt
}

// trips counts what a client sends, and with how many round trips.
type trips struct{ commands, single, pipelines atomic.Int64 }

func (c *trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.commands.Add(1)
		c.single.Add(1)
		return next(ctx, cmd)
	}
}

func (c *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.commands.Add(int64(len(cmds)))
		c.pipelines.Add(1)
		return next(ctx, cmds)
	}
}

// The calls of many goroutines need fewer round trips than there are calls, and each gets its own answer. One goroutine's calls
// wait for nothing.
func TestCallsOfManyGoroutinesGoTogether(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: servers.NewRedis(t).Addr, ContextTimeoutEnabled: true})
	defer rdb.Close()
	var sent trips
	rdb.AddHook(&sent)
	s := begin(t, rdb, "together").(*session)
	pair(t, s, "alone")
	before := sent.pipelines.Load() // which a new connection sends
	pair(t, s, "alone")
	if n := sent.pipelines.Load() - before; n > 0 {
		t.Errorf("%d pipelines for one goroutine", n)
	}
	first, began := sent.commands.Load(), sent.single.Load()+sent.pipelines.Load()
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for range 20 {
				pair(t, s, fmt.Sprintf("key %d", i))
			}
		})
	}
	all.Wait()
	calls, trips := sent.commands.Load()-first, sent.single.Load()+sent.pipelines.Load()-began
	if calls < 64*20*2 || trips > calls/4 {
		t.Errorf("%d calls with %d round trips", calls, trips)
	}
	if infos, err := s.List(t.Context(), "", "", 10); err != nil || len(infos) != 0 {
		t.Errorf("%v, %v: want nothing held", infos, err)
	}
}

// A call that is given up while others are on their way is not sent afterwards.
func TestACallThatIsGivenUpIsNotSent(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: servers.NewRedis(t).Addr, ContextTimeoutEnabled: true})
	defer rdb.Close()
	s := begin(t, rdb, "given up").(*session)
	pair(t, s, "k")
	must(t, rdb.Do(t.Context(), "CLIENT", "PAUSE", 1500))
	var all sync.WaitGroup
	for i := range alone {
		all.Go(func() { lockstest.Grant(t, s, fmt.Sprintf("key %d", i)) })
	}
	await.Until(t, "both are on their way", func() bool {
		s.pipeline.mu.Lock()
		defer s.pipeline.mu.Unlock()
		return s.pipeline.sent == alone
	})
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	time.AfterFunc(100*time.Millisecond, cancel)
	if r, err := s.TryAcquire(ctx, "late", []driver.Want{{Key: "late"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v: want no answer", r, err)
	}
	all.Wait()
	pair(t, s, "k") // what waited would have been sent before
	if infos, err := s.List(t.Context(), "late", "", 10); err != nil || len(infos) != 0 {
		t.Errorf("%v, %v: want nothing held", infos, err)
	}
}
