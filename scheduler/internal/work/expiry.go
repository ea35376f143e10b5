package work

import (
	"context"
	"hash/fnv"
	"time"

	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

const (
	expiryEvery = time.Second // a task may be enqueued meanwhile that expires sooner
	expiryBatch = 500
	// expiryApart is how far apart replicas begin that wait for the same moment: the first one ends what the others would collide over.
	expiryApart = 200 * time.Millisecond
)

// endExpired ends the tasks that expire, until ctx is done: also in paused pools, while the lock service is away, and while this replica
// drains.
//
//  1. wait expiryEvery, or until the next task expires, and this replica's share of expiryApart
//  2. wait again while no task expires, or waits for its time
//  3. end those that have expired, expiryBatch at a time
//  4. where one of them had a key or waited for locks, wake those that look for the next one
func (e *Executor) endExpired(ctx context.Context) {
	apart := fnv.New32a()
	_, _ = apart.Write([]byte(e.opt.ID))
	share := time.Duration(apart.Sum32()) % expiryApart
	wait := expiryEvery
	for wake.Wait(ctx, wait, nil) {
		if a, fresh := e.Ahead(); fresh && !a.Waits {
			wait = expiryEvery
			continue
		}
		next, err := e.expireOnce(ctx)
		switch now := e.clock.Now(); {
		case err != nil:
			e.member.StoreFailed(err)
			wait = expiryEvery
		case next.IsZero():
			wait = expiryEvery
		case next.After(now):
			wait = min(expiryEvery, next.Sub(now)+share)
		default:
			wait = pollLeast
		}
	}
}

func (e *Executor) expireOnce(ctx context.Context) (next time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, reapCall)
	defer cancel()
	ended, next, err := e.store.EndExpired(ctx, e.clock.Check, expiryBatch)
	pools := map[string]int{}
	for _, t := range ended {
		pools[t.Pool]++
		if t.Key != "" {
			e.wakeFeeder(t.Pool)
		}
	}
	for pool, n := range pools {
		e.log.Info("tasks expired before an attempt started", "pool", pool, "tasks", n)
	}
	if len(ended) > 0 {
		wake.Send(e.waits.wake)
	}
	return next, err
}
