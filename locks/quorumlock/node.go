package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/internal/redisconn"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// node is one server. After trouble, one call at a time tries it, so that calls do not pile up behind a server that does not
// answer.
type node struct {
	rdb     redis.UniversalClient
	suspect atomic.Bool // the last call had no answer
	trying  chan struct{}
}

func newNode(rdb redis.UniversalClient) *node { return &node{rdb: rdb, trying: make(chan struct{}, 1)} }

var errAway = errors.New("earlier calls have no answer")

// call makes a call, unless nothing can be sent: then the error wraps driver.ErrUnreachable.
func (n *node) call(ctx context.Context, g *calls.Group, f func() ([]any, error)) ([]any, error) {
	if n.suspect.Load() {
		select {
		case n.trying <- struct{}{}:
			defer func() { <-n.trying }()
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", driver.ErrUnreachable, errAway)
		}
		if n.suspect.Load() { // the client's own retries would hide that nothing was sent, and why
			if err := calls.Do(ctx, g, func() error { return redisconn.Dial(ctx, n.rdb) }); err != nil {
				return nil, fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
			}
		}
	}
	answer, err := calls.Await(ctx, g, f)
	n.suspect.Store(err != nil && !redisconn.Answered(err))
	return answer, err
}

// address names the server, for messages.
func (n *node) address() string { return redisconn.Address(n.rdb) }
