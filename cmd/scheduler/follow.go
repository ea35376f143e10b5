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

// follow waits for the task to end. Each change of its state and progress is printed on stderr, with -o table the output of each attempt that
// has ended on stdout, and the result of the task, too, on stderr: stdout has what the attempts wrote, and nothing else.
func (a *app) follow(ctx context.Context, c *client.Client, id string) (wire.Task, error) {
	var shown string
	printed := 0
	task, err := c.Follow(ctx, id, func(task wire.Task) error {
		if news := progress(task.Task); news != shown {
			fmt.Fprintln(a.stderr, news)
			shown = news
		}
		return a.printAttempts(ctx, c, task, &printed)
	})
	if err == nil && len(task.Result) > 0 && a.output == "table" {
		fmt.Fprintf(a.stderr, "task %s: result %s\n", task.ID, task.Result)
	}
	return task, err
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
		output, err := outputOf(ctx, c, task, *printed+1)
		switch {
		case errors.Is(err, jobs.ErrNotFound): // it printed nothing
		case client.Transient(err) && !task.State.Ended():
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

const (
	outputAway  = time.Minute // how long there may be no answer
	outputAgain = 500 * time.Millisecond
)

// outputOf is the output of an attempt that has ended. Of a task that has ended, too, there is no next poll:
//
//  1. ask for the output, and return it, or a refusal that holds
//  2. no replica has answered for a minute: return the last error
//  3. pause, and begin again
func outputOf(ctx context.Context, c *client.Client, task wire.Task, attempt int) ([]byte, error) {
	for began := time.Now(); ; {
		output, err := c.Output(ctx, task.ID, attempt)
		if !client.Transient(err) || !task.State.Ended() || time.Since(began) > outputAway {
			return output, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(outputAgain):
		}
	}
}

func progress(t jobs.Task) string {
	switch t.State {
	case jobs.StatePending:
		if t.Attempt > 0 {
			return fmt.Sprintf("task %s: attempt %d of %d ended, pending", t.ID, t.Attempt, max(t.Attempt, t.MaxAttempts))
		}
		return fmt.Sprintf("task %s: pending", t.ID)
	case jobs.StateRunning:
		text := fmt.Sprintf("task %s: attempt %d runs on %s", t.ID, t.Attempt, t.Replica)
		if p := progressOf(t); p != "" {
			text += ", " + p
		}
		return text
	}
	return ending(t)
}
