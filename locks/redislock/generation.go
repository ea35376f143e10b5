package redislock

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// run calls a script that acts for the session, and returns the generation it acted in.
//
//  1. unless the session is settled in a generation, bring back what it holds into the server's present one (reassert)
//  2. run the script in that generation
//  3. if the server has begun another one since, begin again
func (s *session) run(ctx context.Context, script *redis.Script, args ...any) (gen string, answer []any, err error) {
	for {
		gen, err := s.generation(ctx)
		if err != nil {
			return "", nil, err
		}
		answer, err := s.eval(ctx, script, append([]any{s.id, gen, s.ttl.Microseconds()}, args...)...)
		if err != nil {
			return "", nil, err
		}
		switch answer[0] {
		case "lost":
			return "", nil, s.end()
		case "stale":
			s.unsettle(gen)
		default:
			return gen, answer, nil
		}
	}
}

// generation returns the one that the session is installed in; it installs it first if need be.
func (s *session) generation(ctx context.Context) (string, error) {
	if gen, err := s.settled(); gen != "" || err != nil {
		return gen, err
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return "", calls.Ended(ctx)
	}
	if gen, err := s.settled(); gen != "" || err != nil {
		return gen, err
	}
	return s.reassert(ctx)
}

// settled returns the generation, "" while it is being settled.
func (s *session) settled() (gen string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return "", driver.ErrSessionEnded
	}
	return s.gen, nil
}

func (s *session) unsettle(gen string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gen == gen {
		s.gen = ""
	}
}

func (s *session) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	return driver.ErrSessionEnded
}

// reassert installs the session and what it holds in the server's present generation.
func (s *session) reassert(ctx context.Context) (string, error) {
	asked := boottime.Now()
	s.mu.Lock()
	// If it expired before the data was lost, another session may hold its keys.
	expired := s.renewed.Elapsed() >= s.ttl
	args := append([]any{s.id, s.ttl.Microseconds()}, s.book.args()...)
	s.mu.Unlock()
	if expired {
		return "", s.end()
	}
	answer, err := s.eval(ctx, reassertScript, args...)
	if err != nil {
		return "", err
	}
	if answer[0] == "lost" {
		return "", s.end()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gen, s.renewed = answer[1].(string), asked
	for _, taken := range answer[2:] {
		s.book.release(held(taken.(string)))
	}
	return s.gen, nil
}

// inGeneration changes the book by what happened in a generation; false if that has ended.
func (s *session) inGeneration(gen string, change func(*book)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gen == gen {
		change(&s.book)
	}
	return s.gen == gen
}

// forget takes holdings out of the book.
func (s *session) forget(held []driver.Held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range held {
		s.book.release(h)
	}
}

// eval runs a script with one call, two when the server does not have it yet.
func (s *session) eval(ctx context.Context, script *redis.Script, args ...any) ([]any, error) {
	if err := s.reach(ctx); err != nil {
		return nil, err
	}
	answer, err := calls.Await(ctx, &s.calls, func() ([]any, error) {
		answer, err := script.EvalSha(ctx, s.rdb, s.keys, args...).Slice()
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			if script != openScript { // the cache was flushed, and the mark with it
				_ = s.mark.Load(ctx, s.shard(ctx)).Err() // first: calls that find the script do not come here
				defer s.markOthers(ctx)
			}
			answer, err = script.Eval(ctx, s.rdb, s.keys, args...).Slice()
		}
		return answer, err
	})
	s.suspect.Store(err != nil && !answered(err))
	return answer, err
}

// reach dials first, after trouble on the way. While that fails, nothing that could change a lock
// has left this process; the client's own retries would hide that, and the cause. A Cluster's client
// also asks, in the background, for the owners of the slots.
func (s *session) reach(ctx context.Context) error {
	if !s.suspect.Load() {
		return nil
	}
	if c, ok := s.rdb.(*redis.ClusterClient); ok {
		c.ReloadState(ctx) // else it keeps asking a failed master
	}
	if err := calls.Do(ctx, &s.calls, func() error { return dial(ctx, s.rdb) }); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	return nil
}
