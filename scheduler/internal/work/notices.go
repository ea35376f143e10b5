package work

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/scheduler/internal/wake"
)

// Notices are sent between replicas, and may be lost; *locks.Locker has them.
type Notices interface {
	Notify(ctx context.Context, topic string) error
	Listen(ctx context.Context, heard func(topic string)) error
}

const (
	poolTopic = "pool/"
	// noticeEvery is the least time between two notices about one pool.
	noticeEvery = 10 * time.Millisecond
	noticeLimit = time.Second // of one call
)

// NoticeSender tells other replicas of pools with tasks. What is not sent, or gets lost, they find with their poll.
type NoticeSender struct {
	service Notices // nil: there are none
	wake    chan struct{}

	mu  sync.Mutex
	due map[string]bool // pools
}

// NewNoticeSender makes a NoticeSender that sends by the service; nil: it sends nothing.
func NewNoticeSender(service Notices) *NoticeSender {
	return &NoticeSender{service: service, wake: wake.Signal(), due: map[string]bool{}}
}

// Add makes Run send a notice about each of the pools.
func (n *NoticeSender) Add(pools ...string) {
	if n.service == nil || len(pools) == 0 {
		return
	}
	n.mu.Lock()
	for _, pool := range pools {
		n.due[pool] = true
	}
	n.mu.Unlock()
	wake.Send(n.wake)
}

// Run sends notices, until ctx is done:
//
//  1. wait until there is one
//  2. send one for each pool
//  3. pause: what comes meanwhile is sent as one, at the end
func (n *NoticeSender) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		}
		n.mu.Lock()
		pools := slices.Sorted(maps.Keys(n.due))
		clear(n.due)
		n.mu.Unlock()
		for _, pool := range pools {
			calling, cancel := context.WithTimeout(ctx, noticeLimit)
			_ = n.service.Notify(calling, poolTopic+pool) // the others find out with their poll
			cancel()
		}
		if !wake.Wait(ctx, noticeEvery, nil) {
			return
		}
	}
}

// listen wakes the feeders of pools that others tell of, until ctx is done. A feeder with queued tasks claims by itself.
func (e *Executor) listen(ctx context.Context) {
	_ = e.notices.service.Listen(ctx, func(topic string) { // an error is that the Locker is closed
		pool, is := strings.CutPrefix(topic, poolTopic)
		switch {
		case !is:
		case e.register.queued(pool) == 0:
			e.wakeFeeder(pool)
		default:
			e.arrived(pool)
		}
	})
}

// takes reports whether this replica starts another task of the pool at once.
func (e *Executor) takes(pool string) bool {
	f := e.present(pool)
	return f != nil && e.MayBegin() && !e.locks.Blocks() && f.wanted() > 0
}
