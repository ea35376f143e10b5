package redislock

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/internal/redisconn"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// run calls a script that acts for the session, and returns the generation it acted in.
//
//  1. unless the session is settled in a generation, bring back what it holds into the server's present one (reassert)
//  2. run the script in that generation
//  3. if the server has begun another one since, begin again
func (s *session) run(ctx context.Context, script *redis.Script, args ...any) (gen string, answer []any, err error) {
	return s.act(ctx, args, func(words []any) ([]any, error) { return s.eval(ctx, script, nil, words) })
}

// act is run of what calls a script.
func (s *session) act(ctx context.Context, args []any, call func(words []any) ([]any, error)) (gen string, answer []any, err error) {
	words := s.words(len(s.standing)+len(args), s.standing...)
	at := len(words) - 2 // of the generation
	words = append(words, args...)
	for {
		gen, err := s.generation(ctx)
		if err != nil {
			return "", nil, err
		}
		words[at] = gen
		answer, err := call(words)
		if err != nil {
			return "", nil, err
		}
		switch said := answer[0].(string); said {
		case "lost":
			return "", nil, s.end()
		case "stale":
			s.unsettle(gen)
			words = slices.Clone(words) // a call that was given up may still read them
		case "ok", "all":
			return gen, answer, nil
		default:
			if id, found := strings.CutPrefix(said, "ok "); found {
				s.adopt(gen, id)
			}
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
	answer, err := s.eval(ctx, reassertScript, nil, s.words(len(args), args...))
	if err != nil {
		return "", err
	}
	if answer[0] == "lost" {
		return "", s.end()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gen, s.renewed, s.proof = answer[1].(string), asked, proven(answer[2])
	for _, taken := range answer[3:] {
		s.book.release(parseHeld(taken.(string)))
		s.superseded = true
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

// words is a command that runs a script, with room for so many arguments. What is the same in each is boxed once.
func (s *session) words(room int, args ...any) []any {
	words := make([]any, 0, len(s.head)+room)
	return append(append(words, s.head...), args...)
}

// headOf is the beginning of each command: eval or evalsha, and the text or its hash, stand in the first two.
func headOf(keys []string) []any {
	head := []any{nil, nil, len(keys)}
	for _, key := range keys {
		head = append(head, key)
	}
	return head
}

// eval runs a script with one call, two when the server does not have it yet: then with load, if there is one.
func (s *session) eval(ctx context.Context, script *redis.Script, load func() ([]any, error), words []any) ([]any, error) {
	words[0], words[1] = "evalsha", script.Hash()
	return s.call(ctx, func() ([]any, error) {
		cmd := redis.NewCmd(ctx, words...)
		cmd.SetFirstKeyPos(3)
		err := s.pipeline.process(ctx, cmd)
		if err == nil {
			return cmd.Slice()
		}
		if !redis.HasErrorPrefix(err, "NOSCRIPT") {
			return nil, err
		}
		if script != openScript { // the cache was flushed, and the mark with it
			_ = s.mark.Load(ctx, s.shard(ctx)).Err() // first: calls that find the script do not come here
			defer s.markOthers(ctx)
		}
		if load != nil {
			return load()
		}
		return script.Eval(ctx, s.prompt, s.keys, words[len(s.head):]...).Slice()
	})
}

// call makes one call to the server, in the time of ctx.
func (s *session) call(ctx context.Context, f func() ([]any, error)) ([]any, error) {
	if err := s.reach(ctx); err != nil {
		return nil, err
	}
	answer, err := s.promptly(ctx, f)
	s.suspect.Store(err != nil && !redisconn.Answered(err))
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
	if err := calls.Do(ctx, &s.calls, func() error { return redisconn.Dial(ctx, s.rdb) }); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	return nil
}
