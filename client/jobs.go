package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Jobs returns the live jobs by name.
func (c *Client) Jobs(ctx context.Context, p wire.Page) (wire.List[wire.Job], error) {
	return get[wire.List[wire.Job]](ctx, c, pageQuery(p), "jobs")
}

// Job returns one job, live or retired.
func (c *Client) Job(ctx context.Context, name string) (wire.Job, error) {
	return get[wire.Job](ctx, c, nil, "jobs", name)
}

// Next returns the next n (1 … 100) due times of a job.
func (c *Client) Next(ctx context.Context, name string, n int) ([]wire.Due, error) {
	list, err := get[wire.List[wire.Due]](ctx, c, url.Values{"n": {strconv.Itoa(n)}}, "jobs", name, "next")
	return list.Items, err
}

// RunJob runs a job now. A run that the job's policies forbid is recorded as skipped, and is jobs.ErrConflict with the
// reason and advice.
func (c *Client) RunJob(ctx context.Context, name string) (wire.Run, error) {
	return post[wire.Run](ctx, c, nil, "jobs", name, "run")
}

// ForceRunJob is RunJob, also while a lost attempt of the job may still run: the caller knows that it has ended. force
// is that of RunJob's [*Error]; if another attempt was lost meanwhile, the error is jobs.ErrConflict and names that
// one. The run's reason records the force. A pending or running task is still jobs.ErrConflict.
func (c *Client) ForceRunJob(ctx context.Context, name, force string) (wire.Run, error) {
	return post[wire.Run](ctx, c, forcing(force), "jobs", name, "run")
}

// SuspendJob overrides the configuration: due times of the job are skipped until it is resumed.
func (c *Client) SuspendJob(ctx context.Context, name string) (wire.Job, error) {
	return post[wire.Job](ctx, c, override{}, "jobs", name, "suspend")
}

// ResumeJob overrides the configuration: due times of the job run again, from now on.
func (c *Client) ResumeJob(ctx context.Context, name string) (wire.Job, error) {
	return post[wire.Job](ctx, c, override{}, "jobs", name, "resume")
}

// ResetJob removes the override: the configuration applies again.
func (c *Client) ResetJob(ctx context.Context, name string) (wire.Job, error) {
	return post[wire.Job](ctx, c, override{Reset: true}, "jobs", name, "resume")
}

// Triggers returns a page of the ledger, the latest first.
func (c *Client) Triggers(ctx context.Context, f wire.TriggerFilter) (wire.List[jobs.Trigger], error) {
	q := pageQuery(f.Page, "job", f.Job, "outcome", string(f.Outcome), "result", string(f.Result))
	if since := timeText(f.Since); since != "" {
		q.Set("since", since)
	}
	return get[wire.List[jobs.Trigger]](ctx, c, q, "triggers")
}
