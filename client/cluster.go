package client

import (
	"context"
	"net/http"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

// Pools returns the pools by name.
func (c *Client) Pools(ctx context.Context, p wire.Page) (wire.List[wire.Pool], error) {
	return get[wire.List[wire.Pool]](ctx, c, pageQuery(p), "pools")
}

// PausePool stops claims of the pool's tasks on all replicas until it is resumed.
func (c *Client) PausePool(ctx context.Context, name string) (wire.Pool, error) {
	return post[wire.Pool](ctx, c, override{}, "pools", name, "pause")
}

// ResumePool resumes claims of the pool's tasks.
func (c *Client) ResumePool(ctx context.Context, name string) (wire.Pool, error) {
	return post[wire.Pool](ctx, c, override{}, "pools", name, "resume")
}

// ResetPause removes what PausePool and ResumePool have set: the configuration decides again whether the pool is paused. Limits stay, see LimitPool.
func (c *Client) ResetPause(ctx context.Context, name string) (wire.Pool, error) {
	return post[wire.Pool](ctx, c, override{Reset: true}, "pools", name, "resume")
}

// LimitPool sets the limits that o has, in place of those of the configuration and of earlier calls, on all replicas from their next
// claim on, and removes what o.Reset names. Nil removes all that were set: the configuration applies again.
func (c *Client) LimitPool(ctx context.Context, name string, o *wire.PoolLimits) (wire.Pool, error) {
	if o == nil {
		return post[wire.Pool](ctx, c, override{Reset: true}, "pools", name, "limits")
	}
	return post[wire.Pool](ctx, c, o, "pools", name, "limits")
}

// Replicas returns the replicas by id.
func (c *Client) Replicas(ctx context.Context, p wire.Page) (wire.List[wire.Replica], error) {
	return get[wire.List[wire.Replica]](ctx, c, pageQuery(p), "replicas")
}

// Workers returns the workers by id: processes that take tasks over HTTP.
func (c *Client) Workers(ctx context.Context, p wire.Page) (wire.List[wire.Worker], error) {
	return get[wire.List[wire.Worker]](ctx, c, pageQuery(p), "workers")
}

// Locks returns who holds the keys that begin with prefix, and who waits for them.
func (c *Client) Locks(ctx context.Context, prefix string, p wire.Page) (wire.List[wire.Lock], error) {
	return get[wire.List[wire.Lock]](ctx, c, pageQuery(p, "prefix", prefix), "locks")
}

// ReleaseLock takes a lock from its holder, which learns of it with its next renewal; jobs.ErrConflict if nobody holds the
// key under that token.
func (c *Client) ReleaseLock(ctx context.Context, key string, token int64) (wire.HeldLock, error) {
	return post[wire.HeldLock](ctx, c, wire.HeldLock{Key: key, Token: token}, "locks", "release")
}

// Ready returns whether this replica starts new work, and its conditions. An unready replica is no error.
func (c *Client) Ready(ctx context.Context) (ready wire.Readiness, err error) {
	res, err := c.roundTrip(ctx, http.MethodGet, []string{"readyz"}, nil, nil)
	if err != nil {
		return ready, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusServiceUnavailable {
		return ready, refusal(res)
	}
	return ready, c.decode(res, &ready)
}

// Audit returns writes through the API with their callers, also refused ones, the latest first.
func (c *Client) Audit(ctx context.Context, p wire.Page) (wire.List[wire.AuditEntry], error) {
	return get[wire.List[wire.AuditEntry]](ctx, c, pageQuery(p), "audit")
}
