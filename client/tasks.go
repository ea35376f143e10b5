package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// Tasks returns a page of tasks, the latest first.
func (c *Client) Tasks(ctx context.Context, f wire.TaskFilter) (wire.List[jobs.Task], error) {
	return get[wire.List[jobs.Task]](ctx, c, pageQuery(f.Page, "pool", f.Pool, "job", f.Job, "state", string(f.State), "fingerprint", f.Fingerprint,
		"kind", f.Kind, "key", f.Key, "tag", f.Tag, "since", timeText(f.Since), "until", timeText(f.Until)), "tasks")
}

// Task returns a task with its earlier attempts and, if it has ended, its result.
func (c *Client) Task(ctx context.Context, id string) (wire.Task, error) {
	return get[wire.Task](ctx, c, nil, "tasks", id)
}

// DeadLetters returns a page of groups of tasks that failed, or were lost, for good in the same way, and were not retried since.
func (c *Client) DeadLetters(ctx context.Context, f wire.DeadLetterFilter) (wire.List[wire.DeadLetters], error) {
	return get[wire.List[wire.DeadLetters]](ctx, c, pageQuery(f.Page, "pool", f.Pool, "fingerprint", f.Fingerprint), "dead-letters")
}

// Why says why a task is in its state: what a pending one waits for, where a running one runs, how an ended one ended.
func (c *Client) Why(ctx context.Context, id string) (wire.Why, error) {
	return get[wire.Why](ctx, c, nil, "tasks", id, "why")
}

// Output returns the output of an attempt, as valid UTF-8; attempt 0 is the latest with output. That of a running attempt is what has
// arrived; jobs.ErrNotFound if there is none.
func (c *Client) Output(ctx context.Context, id string, attempt int) ([]byte, error) {
	q := url.Values{}
	if attempt != 0 {
		q.Set("attempt", strconv.Itoa(attempt))
	}
	res, err := c.send(ctx, http.MethodGet, []string{"tasks", id, "logs"}, q, nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	output, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("client: the output is incomplete: %w", err)
	}
	return output, nil
}

// OutputNews returns what has come of the outputs of a task's attempts since a place in them: "" is their beginning, and the Next of an answer what comes
// next. If nothing has, and the task is as it was, the replica waits, 30 s at most. See FollowOutput.
func (c *Client) OutputNews(ctx context.Context, id, place string, wait time.Duration) (wire.OutputNews, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+awaitOne)
	defer cancel()
	return get[wire.OutputNews](ctx, c, url.Values{"follow": {place}, "wait": {wait.String()}}, "tasks", id, "logs")
}

// Enqueue enqueues tasks (at most 1,000) of one pool, all or none, and returns them in order. Tasks of several pools
// are jobs.ErrInvalid. With none it sends no request.
func (c *Client) Enqueue(ctx context.Context, tasks ...jobs.NewTask) ([]jobs.Enqueued, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	pool := tasks[0].Pool
	for _, t := range tasks {
		if t.Pool != pool {
			return nil, fmt.Errorf("client: %w: tasks of pool %q and of pool %q; enqueue those of each pool in a separate call", jobs.ErrInvalid, pool, t.Pool)
		}
	}
	list, err := post[wire.List[jobs.Enqueued]](ctx, c, tasks, "pools", pool, "tasks")
	return list.Items, err
}

// EnqueueJSON is Enqueue for tasks (at most 1,000) that are JSON objects already, as the API takes them. What is wrong with one of them is an
// [Error] whose Field begins with its index, as in [3].payload.
func (c *Client) EnqueueJSON(ctx context.Context, pool string, tasks ...json.RawMessage) ([]jobs.Enqueued, error) {
	if len(tasks) == 0 {
		return nil, nil
	}
	list, err := post[wire.List[jobs.Enqueued]](ctx, c, tasks, "pools", pool, "tasks")
	return list.Items, err
}

// Cancel cancels a pending task, and asks a running one to stop.
func (c *Client) Cancel(ctx context.Context, id string) (jobs.Task, error) {
	return post[jobs.Task](ctx, c, nil, "tasks", id, "cancel")
}

// ChangeTasks does an action with one batch of the tasks that match; the caller goes on with the cursor Next until there is none. What no
// filter can mean is a [*jobs.FieldError] of [wire.Bulk.Check], and is not sent. A batch whose outcome is unknown may be sent again: no task is
// retried twice.
func (c *Client) ChangeTasks(ctx context.Context, action wire.BulkAction, b wire.Bulk) (wire.BulkResult, error) {
	if err := b.Check(action); err != nil {
		return wire.BulkResult{}, fmt.Errorf("client: %w", err)
	}
	return post[wire.BulkResult](ctx, c, b, "tasks", string(action))
}

// UpdateTask changes a pending task of a pool. A claim at the same time either comes first, and this is jobs.ErrConflict, or starts the task
// with the whole change. jobs.ErrConflict is also for tasks that have ended, and for those of jobs.
func (c *Client) UpdateTask(ctx context.Context, id string, change wire.TaskChange) (jobs.Task, error) {
	return call[jobs.Task](ctx, c, http.MethodPatch, []string{"tasks", id}, nil, change)
}

// Retry enqueues an ended task again. One that no live replica can run is refused, see ForceRetry; one of a job whose lost attempt may still run
// is jobs.ErrConflict, see ForceRetryOver.
func (c *Client) Retry(ctx context.Context, id string) (jobs.Task, error) {
	return post[jobs.Task](ctx, c, nil, "tasks", id, "retry")
}

// ForceRetry is Retry, also if no live replica can run the task: those that can are to follow.
func (c *Client) ForceRetry(ctx context.Context, id string) (jobs.Task, error) {
	return post[jobs.Task](ctx, c, forcing(""), "tasks", id, "retry")
}

// ForceRetryOver is ForceRetry, also while a lost attempt of the task's job may still run: the caller knows that it has ended. lost is the Force
// of Retry's [*Error]; if another attempt was lost meanwhile, the error is jobs.ErrConflict and names that one. If lost is empty, it is
// jobs.ErrInvalid, and nothing is sent.
func (c *Client) ForceRetryOver(ctx context.Context, id, lost string) (jobs.Task, error) {
	if lost == "" {
		return jobs.Task{}, fmt.Errorf("client: %w: no lost attempt is named: it is the Force of Retry's error; ForceRetry is for a task that no live replica can run", jobs.ErrInvalid)
	}
	return post[jobs.Task](ctx, c, forcing(lost), "tasks", id, "retry")
}
