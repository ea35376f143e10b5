package locks

import (
	"context"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
)

// maxHold is the longest time that a lease is held.
type maxHold struct {
	length time.Duration
	end    boottime.Instant
}

// over returns the cause with which the lease ends at its end, or nil before.
func (m *maxHold) over() error {
	if m.end.Until() > 0 {
		return nil
	}
	return fmt.Errorf("%w: it was held for %v, its MaxHold", ErrReleased, m.length)
}

// holdAtMost has a new lease given back after a time. With the Locker's mu held, while its session has not ended.
func (l *Locker) holdAtMost(lease *Lease, length time.Duration) {
	lease.maxHold = &maxHold{length: length, end: boottime.Now().Add(length)}
	lease.ctx, lease.cancel = context.WithCancelCause(context.Background())
	l.work.Go(func() { l.giveBackLater(lease.ctx, lease) })
}

// giveBackLater gives a lease back:
//
//  1. wait until its time is over, or until it has ended, which ends ctx;
//  2. release it. If the service does not answer, the key is freed in the background.
func (l *Locker) giveBackLater(ctx context.Context, lease *Lease) {
	for {
		over := lease.maxHold.over()
		if over != nil {
			calling, cancel := l.calling(context.WithoutCancel(ctx))
			defer cancel()
			_ = l.giveBack(calling, over, lease)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(lease.maxHold.end.Until()):
		}
	}
}
