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

// NextDue returns the next n (1 … 500) due times of all jobs before until, in the order of time. A zero until is no bound.
func (c *Client) NextDue(ctx context.Context, until time.Time, n int) ([]wire.JobDue, error) {
	list, err := get[wire.List[wire.JobDue]](ctx, c, pageQuery(wire.Page{Limit: n}, "until", timeText(until)), "next")
	return list.Items, err
}

// RunJob runs a job now. A run that the job's policies forbid is recorded as skipped, and is jobs.ErrConflict with the
// reason and advice.
func (c *Client) RunJob(ctx context.Context, name string) (wire.Run, error) {
	return post[wire.Run](ctx, c, nil, "jobs", name, "run")
}

// RunJobWith is RunJob of a run that may have a payload of its own, in place of the job's. One that the job's params do not accept
// is an [*Error] that is jobs.ErrInvalid, whose Field is "payload" and the JSON pointer of what is wrong. By is given by the server.
func (c *Client) RunJobWith(ctx context.Context, name string, run jobs.NewRun) (wire.Run, error) {
	return post[wire.Run](ctx, c, struct {
		Payload any    `json:"payload,omitempty"`
		Force   string `json:"force,omitempty"`
	}{run.Payload, run.Force}, "jobs", name, "run")
}

// ForceRunJob is RunJob, also while a lost attempt of the job may still run: the caller knows that it has ended. lost
// is the Force of RunJob's [*Error]; if another attempt was lost meanwhile, or lost is empty, the error is jobs.ErrConflict and
// names that one. The run's reason records the force. A pending or running task is still jobs.ErrConflict.
func (c *Client) ForceRunJob(ctx context.Context, name, lost string) (wire.Run, error) {
	return post[wire.Run](ctx, c, forcing(lost), "jobs", name, "run")
}

// SuspendJob overrides the configuration: due times of the job are skipped until it is resumed.
func (c *Client) SuspendJob(ctx context.Context, name string) (wire.Job, error) {
	return post[wire.Job](ctx, c, override{}, "jobs", name, "suspend")
}

// SuspendJobUntil is SuspendJob; the override ends by itself at a time, by the clock of the database. One that has passed is
// jobs.ErrInvalid.
func (c *Client) SuspendJobUntil(ctx context.Context, name string, until time.Time) (wire.Job, error) {
	return post[wire.Job](ctx, c, map[string]time.Time{"until": until}, "jobs", name, "suspend")
}

// SuspendJobs does what SuspendJob, ResumeJob or ResetJob do with the jobs of all of s.Labels, as the replica that answers defines them.
func (c *Client) SuspendJobs(ctx context.Context, action wire.SuspendAction, s wire.SuspendMany) (wire.SuspendedMany, error) {
	return post[wire.SuspendedMany](ctx, c, s, string(action), "jobs")
}

// SkipNext has the next n due times of a job skipped, 0 … 1000, in place of those that were to be before.
func (c *Client) SkipNext(ctx context.Context, name string, n int) (wire.Job, error) {
	return post[wire.Job](ctx, c, map[string]int{"n": n}, "jobs", name, "skip-next")
}

// ResumeJob has due times of the job run again, from now on. If its definition suspends it, that is an override; else it removes the one that there is, as
// ResetJob does.
func (c *Client) ResumeJob(ctx context.Context, name string) (wire.Job, error) {
	return post[wire.Job](ctx, c, override{}, "jobs", name, "resume")
}

// ResetJob removes the override: the configuration applies again.
func (c *Client) ResetJob(ctx context.Context, name string) (wire.Job, error) {
	return post[wire.Job](ctx, c, override{Reset: true}, "jobs", name, "resume")
}

// WhyJob says why a due time of a job ran or did not run, or what may stop it; the zero time is the next one.
func (c *Client) WhyJob(ctx context.Context, name string, at time.Time) (wire.WhyJob, error) {
	q := url.Values{}
	if text := timeText(at); text != "" {
		q.Set("at", text)
	}
	return get[wire.WhyJob](ctx, c, q, "jobs", name, "why")
}

// History returns a page of the definitions that a job has had, the one first that began to govern last.
func (c *Client) History(ctx context.Context, name string, p wire.Page) (wire.List[wire.Definition], error) {
	return get[wire.List[wire.Definition]](ctx, c, pageQuery(p), "jobs", name, "history")
}

// Triggers returns a page of the ledger, the latest first.
func (c *Client) Triggers(ctx context.Context, f wire.TriggerFilter) (wire.List[jobs.Trigger], error) {
	q := pageQuery(f.Page, "job", f.Job, "outcome", string(f.Outcome), "result", string(f.Result))
	if since := timeText(f.Since); since != "" {
		q.Set("since", since)
	}
	return get[wire.List[jobs.Trigger]](ctx, c, q, "triggers")
}
