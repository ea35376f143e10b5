package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

const (
	followEvery = 250 * time.Millisecond
	followGrace = time.Minute // how long the replica may be unreachable
)

// followRun waits for the task to end and prints its output. The error has the final state, unless that is succeeded.
func (a *app) followRun(ctx context.Context, c *client.Client, id string) error {
	task, err := a.follow(ctx, c, id)
	if err != nil {
		return err
	}
	if a.output != "table" {
		if err := a.print(task, nil); err != nil {
			return err
		}
	}
	if task.State != jobs.StateSucceeded {
		return fmt.Errorf("the run did not succeed: %s", task.State) // the reason is on stderr
	}
	return nil
}

// ending describes how a task ended.
func ending(t jobs.Task) string {
	text := fmt.Sprintf("task %s: %s", t.ID, t.State)
	if t.Reason != "" {
		text += ", " + t.Reason
	}
	if t.Error != "" && t.Error != t.Reason {
		text += ": " + t.Error
	}
	return text
}

// follow waits for the task to end: it prints changes of state on stderr, and with -o table the output of each attempt
// once it has ended.
func (a *app) follow(ctx context.Context, c *client.Client, id string) (wire.Task, error) {
	var shown string
	printed := 0
	reached := a.now()
	for {
		task, err := c.Task(ctx, id)
		switch {
		case err == nil:
			reached = a.now()
			if news := progress(task.Task); news != shown {
				fmt.Fprintln(a.stderr, news)
				shown = news
			}
			if err := a.printAttempts(ctx, c, task, &printed); err != nil {
				return task, err
			}
			if task.State.Ended() {
				return task, nil
			}
		case !errors.Is(err, client.ErrUnreachable) && !errors.Is(err, jobs.ErrUnavailable) || a.now().Sub(reached) > followGrace:
			return task, err
		}
		select {
		case <-ctx.Done():
			return task, ctx.Err()
		case <-time.After(followEvery):
		}
	}
}

// printAttempts prints the output of ended attempts after the first *printed ones.
func (a *app) printAttempts(ctx context.Context, c *client.Client, task wire.Task, printed *int) error {
	if a.output != "table" {
		return nil
	}
	ended := task.Attempt
	if !task.State.Ended() {
		ended = len(task.Attempts)
	}
	for ; *printed < ended; *printed++ {
		output, err := c.Output(ctx, task.ID, *printed+1)
		switch {
		case errors.Is(err, jobs.ErrNotFound): // it printed nothing
		case errors.Is(err, client.ErrUnreachable), errors.Is(err, jobs.ErrUnavailable):
			return nil // the next poll retries
		case err != nil:
			return err
		default:
			if err := a.raw(output); err != nil {
				return err
			}
		}
	}
	return nil
}

func progress(t jobs.Task) string {
	switch t.State {
	case jobs.StatePending:
		if t.Attempt > 0 {
			return fmt.Sprintf("task %s: attempt %d of %d ended, pending", t.ID, t.Attempt, max(t.Attempt, t.MaxAttempts))
		}
		return fmt.Sprintf("task %s: pending", t.ID)
	case jobs.StateRunning:
		return fmt.Sprintf("task %s: attempt %d runs on %s", t.ID, t.Attempt, t.Replica)
	}
	return ending(t)
}
