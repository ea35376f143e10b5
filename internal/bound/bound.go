// Package bound has the deadline of an attempt, which the heartbeats of the replica extend, for handlers that
// start something that outlives a frozen process.
package bound

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
)

// Bound is the deadline of an attempt: from then on another replica may start another one in its place. Each
// renewal of the replica's session extends it. Most handlers do not need it, for their context ends in time; a
// handler that starts something that outlives this process, or a freeze of it, passes the bound on to a
// watchdog.
//
// Only replicas make bounds and move them.
type Bound struct {
	startBy boottime.Instant
	grace   time.Duration

	mu    sync.Mutex
	until []boottime.Instant
	moved chan struct{}
}

// New makes the bound of an attempt that must not be started after startBy, has the last grace of its time to
// end by itself, and may run until the last of the moments in until.
func New(startBy boottime.Instant, grace time.Duration, until ...boottime.Instant) *Bound {
	return &Bound{startBy: startBy, grace: grace, until: until, moved: make(chan struct{})}
}

// Move makes the last of the moments in until the end of the bound. Without any nothing changes.
func (b *Bound) Move(until ...boottime.Instant) {
	if len(until) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = until
	close(b.moved)
	b.moved = make(chan struct{})
}

// Grace is how long before its end a bound asks the work to end.
func (b *Bound) Grace() time.Duration { return b.grace }

// StartLeft is the time left in which the work may be started; later it must not be, and the attempt ends with
// ErrNotStarted.
func (b *Bound) StartLeft() time.Duration { return b.startBy.Until() }

// Left is the time left; negative once another attempt may have started.
func (b *Bound) Left() time.Duration {
	until, _ := b.Until()
	left := time.Duration(math.MinInt64)
	for _, u := range until {
		left = max(left, u.Until())
	}
	return left
}

// StartBy is the moment by which the work must be started.
func (b *Bound) StartBy() boottime.Instant { return b.startBy }

// Until returns the moments of which the last one is the end, and a channel that is closed when
// they change.
func (b *Bound) Until() (until []boottime.Instant, moved <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.until), b.moved
}

type boundKey struct{}

// With adds the bound of its attempt to a handler's context.
func With(ctx context.Context, b *Bound) context.Context {
	return context.WithValue(ctx, boundKey{}, b)
}

// Of returns the bound of the attempt that ctx belongs to; nil if there is none, as in a test that calls the
// handler.
func Of(ctx context.Context) *Bound {
	b, _ := ctx.Value(boundKey{}).(*Bound)
	return b
}
