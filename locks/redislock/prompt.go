package redislock

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/internal/redisconn"
)

// promptLimit is how long a call may last whose context is cancelled before its deadline.
const promptLimit = 5 * time.Second

// prompt returns rdb with calls that end at the deadline of their context (Options.ContextTimeoutEnabled), on the same
// connections; or rdb itself, where the client cannot be changed so.
func prompt(rdb redis.UniversalClient) redis.UniversalClient {
	c, ok := rdb.(*redis.Client)
	if !ok || c.Options().ContextTimeoutEnabled {
		return rdb
	}
	was := c.Options()
	other := c.WithTimeout(was.ReadTimeout) // has options of its own
	if o := other.Options(); o != was {
		o.WriteTimeout, o.ContextTimeoutEnabled = was.WriteTimeout, true
	}
	return other
}

// obeys reports whether calls of the client end at the deadline of their context.
func obeys(rdb redis.UniversalClient) bool {
	switch c := rdb.(type) {
	case *redis.Client:
		return c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		return c.Options().ContextTimeoutEnabled
	}
	return false
}

// promptly makes a call in the time of ctx: on this goroutine if the client sees to it, since to wait for another one
// costs a fifth of a call; then a call whose context is cancelled lasts until the deadline.
func (s *session) promptly(ctx context.Context, f func() ([]any, error)) ([]any, error) {
	deadline, bounded := ctx.Deadline()
	if !bounded || time.Until(deadline) > promptLimit || !obeys(s.prompt) {
		return calls.Await(ctx, &s.calls, f)
	}
	if ctx.Err() != nil {
		return nil, calls.Ended(ctx)
	}
	answer, err := f()
	switch {
	case err == nil, redisconn.Answered(err):
		return answer, err
	case errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(deadline):
		<-ctx.Done() // the connection was the first to see it
	}
	if ctx.Err() != nil {
		return nil, calls.Ended(ctx)
	}
	return nil, err
}
