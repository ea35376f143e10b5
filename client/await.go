package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

const (
	awaitFirst = 50 * time.Millisecond // between the first two requests; each later pause is longer by a quarter
	awaitMost  = time.Second           // the longest pause
	awaitAway  = time.Minute           // how long there may be no answer
	awaitOne   = 20 * time.Second      // how long one request may take: it may be of a replica that is frozen
)

// silence is how long there has been no answer.
type silence struct {
	client   *Client
	answered time.Time
	told     bool
}

func (s *silence) ends() { s.answered, s.told = time.Now(), false }

// holds reports whether a try that failed with err is to be repeated, and tells the first of them.
func (s *silence) holds(err error) bool {
	left := awaitAway - time.Since(s.answered)
	if !Transient(err) || left < 0 {
		return false
	}
	if !s.told && s.client.away != nil {
		s.client.away(err, left)
	}
	s.told = true
	return true
}

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
// error it can be awaited again.
func (c *Client) Follow(ctx context.Context, id string, see func(wire.Task) error) (wire.Task, error) {
	pause, quiet := awaitFirst, silence{client: c, answered: time.Now()}
	for {
		task, err := c.ask(ctx, id)
		switch {
		case err == nil:
			quiet.ends()
			if err := see(task); err != nil || task.State.Ended() {
				return task, err
			}
		case ctx.Err() == nil && !quiet.holds(err):
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
	pause, quiet, place := awaitFirst, silence{client: c, answered: time.Now()}, ""
	var news wire.OutputNews
	for !news.Ended {
		next, err := c.news(ctx, id, place)
		switch {
		case err == nil:
			news, place, pause = next, next.Next, awaitFirst
			quiet.ends()
			for _, part := range news.Items {
				if err := write(part); err != nil {
					return wire.Task{Task: news.Task}, err
				}
			}
			if err := see(news.Task); err != nil {
				return wire.Task{Task: news.Task}, err
			}
			continue
		case ctx.Err() == nil && !quiet.holds(err):
			return wire.Task{Task: news.Task}, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return wire.Task{Task: news.Task}, fmt.Errorf("client: task %s has not ended: %w", id, context.Cause(ctx))
		case <-timer.C:
		}
		pause = min(pause*5/4, awaitMost)
	}
	return c.Await(ctx, id)
}

// news are what has come since place, of a replica that is not frozen.
func (c *Client) news(ctx context.Context, id, place string) (wire.OutputNews, error) {
	ctx, cancel := context.WithTimeout(ctx, followWait+awaitOne)
	defer cancel()
	return c.OutputNews(ctx, id, place, followWait)
}

func (c *Client) ask(ctx context.Context, id string) (wire.Task, error) {
	ctx, cancel := context.WithTimeout(ctx, awaitOne)
	defer cancel()
	return c.Task(ctx, id)
}

// Transient reports whether a read that failed with err may succeed when it is repeated, at this replica or behind another connection: there
// was no connection, it broke, the answer did not come in time, or the replica was busy or in trouble. A refusal holds, and so do what the
// client refuses itself and a certificate that is not trusted. After the end of the context of the call it says nothing.
func Transient(err error) bool {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.Status >= http.StatusInternalServerError || refused.Status == http.StatusTooManyRequests
	}
	return err != nil && !untrusted && !errors.Is(err, jobs.ErrInvalid)
}
