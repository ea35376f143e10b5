package client

import (
	"context"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
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
// Errors: that of see, which ends the wait; that of ctx; a refusal that holds, as jobs.ErrNotFound of an ended task whose retention is over;
// and the last error where all requests of a minute failed in another way, see Transient. The task is not changed by any of it: after an
// error it can be awaited again. With an error the task is as it was seen last, and the zero one if it was not.
func (c *Client) Follow(ctx context.Context, id string, see func(wire.Task) error) (wire.Task, error) {
	w, last := newWait(c, "task "+id), wire.Task{}
	for {
		task, err := within(ctx, id, c.Task)
		if err == nil {
			last = task
			if err := see(task); err != nil || task.State.Ended() {
				return task, err
			}
		}
		if err := w.pause(ctx, err); err != nil {
			return last, err
		}
	}
}

// followWait is how long a replica waits for something new.
const followWait = 10 * time.Second

// FollowOutput is Follow that also calls write with what the task's attempts write, in order, each byte once: while one runs within about two seconds, and when
// it has ended with the rest of what is kept. It asks any replica for what has come since the last answer, which waits until something has.
//
//  1. ask for what has come, call write with each part of it, and see with the task if it has changed
//  2. the task has ended, and all was told: return it
//  3. begin again; after an error that may pass, pause before
//
// see gets the task without its payload, and what is returned is [Client.Task]. Errors: as Follow, and that of write, which ends the wait.
func (c *Client) FollowOutput(ctx context.Context, id string, see func(jobs.Task) error, write func(wire.OutputPart) error) (wire.Task, error) {
	w, place := newWait(c, "task "+id), ""
	var news wire.OutputNews
	for !news.Ended {
		next, err := c.news(ctx, id, place)
		if err != nil {
			if err := w.pause(ctx, err); err != nil {
				return wire.Task{Task: news.Task}, err
			}
			continue
		}
		w.answered()
		news, place = next, next.Next
		for _, part := range news.Items {
			if err := write(part); err != nil {
				return wire.Task{Task: news.Task}, err
			}
		}
		if err := see(news.Task); err != nil {
			return wire.Task{Task: news.Task}, err
		}
	}
	task, err := c.Await(ctx, id)
	if task.ID == "" {
		task.Task = news.Task
	}
	return task, err
}

// news are what has come since place, of a replica that is not frozen.
func (c *Client) news(ctx context.Context, id, place string) (wire.OutputNews, error) {
	ctx, cancel := context.WithTimeout(ctx, followWait+awaitOne)
	defer cancel()
	return c.OutputNews(ctx, id, place, followWait)
}
