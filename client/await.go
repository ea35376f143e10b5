package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

const (
	awaitFirst = 50 * time.Millisecond // between the first two requests; each later pause is longer by a quarter
	awaitMost  = time.Second           // the longest pause
	awaitAway  = time.Minute           // how long there may be no answer
)

// Await waits until a task has ended, and returns it with its earlier attempts; see Follow.
func (c *Client) Await(ctx context.Context, id string) (wire.Task, error) {
	return c.Follow(ctx, id, func(wire.Task) error { return nil })
}

// Follow waits until a task has ended, and returns it, with its result. How it ended is its State: failed is no error of Follow.
//
//  1. ask for the task, and call see with the answer
//  2. it has ended: return it
//  3. pause, for 50 ms at first, then longer each time, up to a second; begin again
//
// Errors: that of see, which ends the wait; jobs.ErrNotFound, as of an ended task whose retention is over; that of ctx; and the last
// error where no replica has answered for a minute (ErrUnreachable, jobs.ErrUnavailable). Others end the wait at once. The task is not
// changed by any of it: after an error it can be awaited again.
func (c *Client) Follow(ctx context.Context, id string, see func(wire.Task) error) (wire.Task, error) {
	pause, answered := awaitFirst, time.Now()
	for {
		task, err := c.Task(ctx, id)
		switch {
		case err == nil:
			answered = time.Now()
			if err := see(task); err != nil || task.State.Ended() {
				return task, err
			}
		case !errors.Is(err, ErrUnreachable) && !errors.Is(err, jobs.ErrUnavailable) || time.Since(answered) > awaitAway:
			return task, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return task, fmt.Errorf("client: task %s has not ended: %w", id, context.Cause(ctx))
		case <-timer.C:
		}
		pause = min(pause*5/4, awaitMost)
	}
}
