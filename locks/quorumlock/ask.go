package quorumlock

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// leastGrace is how long the last answers are waited for once those that came decide.
const leastGrace = 2 * time.Millisecond

// ask calls f for several servers:
//
//  1. start all calls at once, each with a time limit of its own
//  2. take in answers until all have come, or until enough says that those that have do
//  3. wait for the others for a grace period: at least as long as it has taken so far. What has not answered then goes on
//     until its limit
func (s *session) ask(ctx context.Context, whom mask, grace time.Duration, enough func(rs replies) bool, f func(ctx context.Context, i int) ([]any, error)) replies {
	return s.askFor(ctx, s.limit, whom, grace, enough, f)
}

// majorityOK is for calls that a majority has to confirm.
func (s *session) majorityOK(rs replies) bool { return s.isMajority(rs.said("ok")) }

// allAnswers is for calls that wait for all answers, until their limit.
func allAnswers(replies) bool { return false }

// noAnswers is for calls that wait for the grace period alone.
func noAnswers(replies) bool { return true }

// askFor is ask with another limit for each server.
func (s *session) askFor(ctx context.Context, limit time.Duration, whom mask, grace time.Duration, enough func(rs replies) bool, f func(ctx context.Context, i int) ([]any, error)) replies {
	type numbered struct {
		i int
		reply
	}
	rs := make(replies, len(s.nodes))
	for i := range rs {
		rs[i].err = errNotAsked
	}
	began := time.Now()
	answers := make(chan numbered, len(s.nodes))
	limited := context.WithoutCancel(ctx)
	left := 0
	whom.each(func(i int) {
		if ctx.Err() != nil {
			rs[i].err = fmt.Errorf("%w: %w", driver.ErrUnreachable, calls.Ended(ctx))
			return
		}
		rs[i].err = errLate
		started := s.calls.Go(func() {
			calling, cancel := context.WithTimeoutCause(limited, limit, errNoAnswer)
			defer cancel()
			answer, err := f(calling, i)
			answers <- numbered{i, reply{answer, err}}
		})
		if !started {
			rs[i].err = calls.ErrClosed
			return
		}
		left++
	})
	var over <-chan time.Time
	for ; left > 0; left-- {
		if over == nil && enough(rs) {
			over = time.After(max(grace, leastGrace, time.Since(began)))
		}
		select {
		case a := <-answers:
			rs[a.i] = a.reply
		case <-over:
			return rs
		case <-ctx.Done():
			return rs
		}
	}
	return rs
}

// eval runs a script on one server with one call, two when the server does not have it yet.
func (s *session) eval(ctx context.Context, i int, script *redis.Script, args ...any) ([]any, error) {
	n := s.nodes[i]
	return n.call(ctx, &s.calls, func() ([]any, error) {
		answer, err := script.EvalSha(ctx, n.rdb, s.keys, args...).Slice()
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			if script != openScript { // the cache was flushed, and the mark with it
				_ = s.mark.Load(ctx, n.rdb).Err() // first: calls that find the script do not come here
			}
			answer, err = script.Eval(ctx, n.rdb, s.keys, args...).Slice()
		}
		return answer, err
	})
}

// on runs a script on one server for the session as it is installed there.
func (s *session) on(ctx context.Context, i int, script *redis.Script, args ...any) ([]any, error) {
	s.mu.Lock()
	m := s.members[i]
	s.mu.Unlock()
	if m.state != settled {
		return nil, errNotAsked
	}
	return s.eval(ctx, i, script, append([]any{s.id, m.gen, m.number, s.ttl.Microseconds()}, args...)...)
}
