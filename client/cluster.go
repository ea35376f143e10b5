package client

import (
	"context"
	"net/http"

	"github.com/lockstep-scheduler/lockstep/api/wire"
)

// Pools returns the pools by name.
func (c *Client) Pools(ctx context.Context, p wire.Page) (list wire.List[wire.Pool], err error) {
	err = c.get(ctx, &list, pageQuery(p), "api", "v1", "pools")
	return list, err
}

// PausePool stops claims of the pool's tasks on all replicas until it is resumed.
func (c *Client) PausePool(ctx context.Context, name string) (wire.Pool, error) {
	return c.overridePool(ctx, name, "pause", false)
}

// ResumePool resumes claims of the pool's tasks.
func (c *Client) ResumePool(ctx context.Context, name string) (wire.Pool, error) {
	return c.overridePool(ctx, name, "resume", false)
}

// ResetPool clears the override.
func (c *Client) ResetPool(ctx context.Context, name string) (wire.Pool, error) {
	return c.overridePool(ctx, name, "resume", true)
}

func (c *Client) overridePool(ctx context.Context, name, verb string, reset bool) (pool wire.Pool, err error) {
	err = c.post(ctx, &pool, wire.Reset{Reset: reset}, "api", "v1", "pools", name, verb)
	return pool, err
}

// Replicas returns the replicas by id.
func (c *Client) Replicas(ctx context.Context, p wire.Page) (list wire.List[wire.Replica], err error) {
	err = c.get(ctx, &list, pageQuery(p), "api", "v1", "replicas")
	return list, err
}

// Locks returns the held keys that begin with prefix, and their holders.
func (c *Client) Locks(ctx context.Context, prefix string, p wire.Page) (list wire.List[wire.Lock], err error) {
	q := pageQuery(p)
	add(q, "prefix", prefix)
	err = c.get(ctx, &list, q, "api", "v1", "locks")
	return list, err
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
func (c *Client) Audit(ctx context.Context, p wire.Page) (list wire.List[wire.AuditEntry], err error) {
	err = c.get(ctx, &list, pageQuery(p), "api", "v1", "audit")
	return list, err
}
