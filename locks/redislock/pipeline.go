package redislock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
)

// pipeline sends the commands of a session. While few are on their way each goes alone. Those that come while more are wait for
// one of these to be answered, and go together then: one write and one read for many callers.
type pipeline struct {
	client redis.UniversalClient
	calls  *calls.Group

	mu      sync.Mutex
	sent    int // single commands and pipelines on their way
	waiting []*unsent
}

const (
	// alone is how many may be on their way before others wait.
	alone = 2
	// together is how many commands go in one pipeline, so that none waits long for the others' answers.
	together = 128
)

// unsent is a command that waits.
type unsent struct {
	redis.Cmder
	ctx      context.Context
	answered chan struct{}
}

// process sends a command and waits for its answer in the time of ctx. Its error is that of the command. A command that was
// given up while it waited is not sent.
func (p *pipeline) process(ctx context.Context, cmd redis.Cmder) error {
	p.mu.Lock()
	if p.sent < alone {
		p.sent++
		p.mu.Unlock()
		defer p.next()
		return p.client.Process(ctx, cmd)
	}
	u := &unsent{cmd, ctx, make(chan struct{})}
	p.waiting = append(p.waiting, u)
	p.mu.Unlock()
	select {
	case <-u.answered:
		return cmd.Err()
	case <-ctx.Done():
		return calls.Ended(ctx)
	}
}

// next sends what waits, in place of what was answered.
func (p *pipeline) next() {
	p.mu.Lock()
	p.waiting = slices.DeleteFunc(p.waiting, func(u *unsent) bool { return u.ctx.Err() != nil })
	batch := slices.Clone(p.waiting[:min(len(p.waiting), together)])
	p.waiting = slices.Delete(p.waiting, 0, len(batch))
	if len(batch) == 0 {
		p.sent--
	}
	p.mu.Unlock()
	if len(batch) > 0 && !p.calls.Go(func() { p.send(batch) }) {
		for _, u := range batch { // the session is closed
			u.SetErr(calls.ErrClosed)
			close(u.answered)
		}
	}
}

// send makes one call of the commands, which lasts as long as the most patient of their callers waits.
func (p *pipeline) send(batch []*unsent) {
	defer p.next()
	var last time.Time
	for _, u := range batch {
		end, bounded := u.ctx.Deadline()
		if !bounded {
			end = time.Now().Add(promptLimit)
		}
		if end.After(last) {
			last = end
		}
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(batch[0].ctx), last)
	defer cancel()
	pipe := p.client.Pipeline()
	for _, u := range batch {
		_ = pipe.Process(ctx, u.Cmder)
	}
	_, _ = pipe.Exec(ctx) // each command has its error
	for _, u := range batch {
		close(u.answered)
	}
}
