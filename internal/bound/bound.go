// Package bound tells a handler until when its attempt may run, and moves that ahead with the replica's heartbeats. It is between the
// replica and the handlers that start something which outlives a frozen process.
package bound

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
)

// Bound is until when an attempt may run: from then on another replica may start in its place. It
// moves ahead each time that the replica's session is renewed. Most handlers need none of it, for
// their context ends in time; one that sets something going which outlives this process, or this
// process's being frozen, hands the bound on to whoever ends that.
//
// Only replicas make bounds and move them; anybody may read them.
type Bound struct {
	startBy boottime.Instant
	grace   time.Duration

	mu    sync.Mutex
	until []boottime.Instant
	moved chan struct{}
}

// New makes the bound of an attempt that must not be started after startBy, has the last grace
// of its time to end by itself, and may run until the last of the moments in until.
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

// Grace is how long before its end a bound asks for the work to end by itself.
func (b *Bound) Grace() time.Duration { return b.grace }

// StartLeft is the time left in which the work may be started; later it must not be, and the
// attempt ends with ErrNotStarted.
func (b *Bound) StartLeft() time.Duration { return b.startBy.Until() }

// Left is the time left; negative once others may have started.
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

// With gives a handler's context the bound of its attempt.
func With(ctx context.Context, b *Bound) context.Context {
	return context.WithValue(ctx, boundKey{}, b)
}

// Of returns the bound of the attempt that ctx belongs to; nil if there is none, as in a test
// that calls the handler itself.
func Of(ctx context.Context) *Bound {
	b, _ := ctx.Value(boundKey{}).(*Bound)
	return b
}
