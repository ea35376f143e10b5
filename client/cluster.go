package client

import (
	"context"
	"net/http"
	"time"

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

// Paused reports whether everything is paused.
func (c *Client) Paused(ctx context.Context) (wire.Pausing, error) {
	return get[wire.Pausing](ctx, c, nil, "pause")
}

// PauseAll pauses everything: no due time is decided and no task starts, on any replica, until ResumeAll, or until p.Until. What runs goes on. It
// takes the place of another pause. Who pauses, and since when, is given by the server.
func (c *Client) PauseAll(ctx context.Context, p wire.Pause) (wire.Pausing, error) {
	return post[wire.Pausing](ctx, c, struct {
		Reason string    `json:"reason,omitempty"`
		Until  time.Time `json:"until,omitzero"`
	}{p.Reason, p.Until}, "pause")
}

// ResumeAll ends the pause of everything; WasPaused of the answer says whether there was one, if the replica is not older than that.
func (c *Client) ResumeAll(ctx context.Context) (wire.Pausing, error) {
	return post[wire.Pausing](ctx, c, nil, "resume")
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

// Reload makes the replica load its configuration again, and returns what has changed, once it has. With activate it becomes the newest,
// also if it was loaded before. An error changes nothing: jobs.ErrInvalid names what is wrong in which line.
func (c *Client) Reload(ctx context.Context, activate bool) (wire.Reloaded, error) {
	return post[wire.Reloaded](ctx, c, struct {
		Activate bool `json:"activate,omitempty"`
	}{activate}, "reload")
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
