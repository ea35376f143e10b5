package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// followRun waits for the task to end and prints its output; with -o json the task, once, also if it was not waited for to its end: then as it was seen
// last. The error has the final state, unless that is succeeded.
func (a *app) followRun(ctx context.Context, c *client.Client, first jobs.Task) error {
	task, err := a.follow(ctx, c, first)
	if a.output != "table" {
		if err := cmp.Or(a.print(task, nil), err); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if task.State != jobs.StateSucceeded {
		return fmt.Errorf("the run did not succeed: %s", task.State) // the reason is on stderr
	}
	return nil
}

// follow waits for the task to end. Each change of its state and progress is printed on stderr, with -o table what its attempts write on stdout, as it
// comes, and the result of the task, too, on stderr: stdout has what the attempts wrote, and nothing else. With an error it returns the task as it was seen
// last, which is first if it was not.
func (a *app) follow(ctx context.Context, c *client.Client, first jobs.Task) (task wire.Task, err error) {
	var shown string
	see := func(task jobs.Task) error {
		if news := progress(task); news != shown {
			fmt.Fprintln(a.stderr, news)
			shown = news
		}
		return nil
	}
	if a.output != "table" {
		task, err = c.Follow(ctx, first.ID, func(task wire.Task) error { return see(task.Task) })
		if task.ID == "" {
			task.Task = first
		}
		return task, err
	}
	out := following{a: a}
	task, err = c.FollowOutput(ctx, first.ID, see, out.write)
	if ended := out.end(); err == nil {
		err = ended
	}
	if err == nil && len(task.Result) > 0 {
		fmt.Fprintf(a.stderr, "task %s: result %s\n", task.ID, task.Result)
	}
	return task, err
}

// following prints outputs as they come. The next one, and what the terminal shows after the last, begins on a line of its own.
type following struct {
	a       *app
	attempt int
	open    bool // the last line has no end
}

func (f *following) write(part wire.OutputPart) error {
	if part.Attempt != f.attempt {
		if err := f.end(); err != nil {
			return err
		}
		f.attempt = part.Attempt
	}
	text := clip.News{LeftOut: part.LeftOut}.Mark() + part.Text
	if text == "" {
		return nil
	}
	f.open = !strings.HasSuffix(text, "\n")
	_, err := f.a.sink().Write([]byte(text))
	return err
}

func (f *following) end() error {
	if !f.open {
		return nil
	}
	f.open = false
	_, err := f.a.sink().Write([]byte("\n"))
	return err
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
