package client

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Jobs returns the live jobs by name.
func (c *Client) Jobs(ctx context.Context, p wire.Page) (list wire.List[wire.Job], err error) {
	err = c.get(ctx, &list, pageQuery(p), "api", "v1", "jobs")
	return list, err
}

// Job returns one job, live or retired.
func (c *Client) Job(ctx context.Context, name string) (job wire.Job, err error) {
	err = c.get(ctx, &job, nil, "api", "v1", "jobs", name)
	return job, err
}

// Next returns the next n (1 … 100) due times of a job.
func (c *Client) Next(ctx context.Context, name string, n int) ([]wire.Due, error) {
	var list wire.List[wire.Due]
	err := c.get(ctx, &list, url.Values{"n": {strconv.Itoa(n)}}, "api", "v1", "jobs", name, "next")
	return list.Items, err
}

// RunJob runs a job now. A run that the job's policies forbid is recorded as skipped, and is jobs.ErrConflict with the
// reason and advice.
func (c *Client) RunJob(ctx context.Context, name string) (run wire.Run, err error) {
	err = c.post(ctx, &run, nil, "api", "v1", "jobs", name, "run")
	return run, err
}

// ForceRunJob is RunJob, also while a lost attempt of the job may still run: the caller knows that it has ended. force
// is that of RunJob's [*Error]; if another attempt was lost meanwhile, the error is jobs.ErrConflict and names that
// one. The run's reason records the force. A pending or running task is still jobs.ErrConflict.
func (c *Client) ForceRunJob(ctx context.Context, name, force string) (run wire.Run, err error) {
	err = c.post(ctx, &run, forcing(force), "api", "v1", "jobs", name, "run")
	return run, err
}

// forcing is the body with force; "true" is for tasks without a lost attempt.
func forcing(force string) any {
	if force == "" || force == "true" {
		return map[string]bool{"force": true}
	}
	return map[string]string{"force": force}
}

// SuspendJob overrides the configuration: due times of the job are skipped until it is resumed.
func (c *Client) SuspendJob(ctx context.Context, name string) (wire.Job, error) {
	return c.overrideJob(ctx, name, "suspend", false)
}

// ResumeJob overrides the configuration: due times of the job run again, from now on.
func (c *Client) ResumeJob(ctx context.Context, name string) (wire.Job, error) {
	return c.overrideJob(ctx, name, "resume", false)
}

// ResetJob removes the override: the configuration applies again.
func (c *Client) ResetJob(ctx context.Context, name string) (wire.Job, error) {
	return c.overrideJob(ctx, name, "resume", true)
}

func (c *Client) overrideJob(ctx context.Context, name, verb string, reset bool) (job wire.Job, err error) {
	err = c.post(ctx, &job, wire.Reset{Reset: reset}, "api", "v1", "jobs", name, verb)
	return job, err
}

// Triggers returns a page of the ledger, the latest first.
func (c *Client) Triggers(ctx context.Context, f wire.TriggerFilter) (list wire.List[jobs.Trigger], err error) {
	q := pageQuery(f.Page)
	add(q, "job", f.Job)
	add(q, "outcome", string(f.Outcome))
	add(q, "result", string(f.Result))
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	err = c.get(ctx, &list, q, "api", "v1", "triggers")
	return list, err
}

func pageQuery(p wire.Page) url.Values {
	q := url.Values{}
	if p.Limit != 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	add(q, "cursor", p.Cursor)
	return q
}

func add(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}
