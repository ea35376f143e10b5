package redislock

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// unread is how many grants a session may have unread: later ones are found by Look.
const unread = 1024

// Queue implements driver.Session.
func (s *session) Queue() driver.Queue { return s }

// Acquire implements driver.Queue.
func (s *session) Acquire(ctx context.Context, acquisition string, release []driver.Held, wants []driver.Want) ([]driver.Result, error) {
	err := s.listen(ctx)
	var results []driver.Result
	if err == nil {
		results, err = s.acquire(ctx, acquisition, release, wants, true)
	}
	if err != nil {
		return nil, s.failed("acquire in turn", err)
	}
	return results, nil
}

// Granted implements driver.Queue.
func (s *session) Granted() <-chan driver.Grant { return s.granted }

// Look implements driver.Queue.
func (s *session) Look(ctx context.Context, places []driver.Place) ([]driver.Result, error) {
	args := make([]any, 0, 2*len(places))
	for _, p := range places {
		args = append(args, p.Acquisition, p.Key)
	}
	for {
		gen, answer, err := s.run(ctx, lookScript, args...)
		if err != nil {
			return nil, s.failed("look", err)
		}
		results := make([]driver.Result, len(places))
		current := s.inGeneration(gen, func(b *book) {
			for i, p := range places {
				if results[i], _, err = result(p.Key, answer[i+1].(string)); err != nil {
					return
				}
				switch r := results[i]; {
				case r.Token > 0:
					b.granted(p, s.id, r.Token)
				case !r.Queued:
					b.leave(p)
				}
			}
		})
		if err != nil {
			return nil, s.failed("look", err)
		}
		if current {
			return results, nil
		}
	}
}

// Abandon implements driver.Session.
func (s *session) Abandon(ctx context.Context, acquisition string, keys []string) error {
	args := []any{acquisition}
	for _, key := range keys {
		args = append(args, key)
	}
	for {
		gen, _, err := s.run(ctx, abandonScript, args...)
		if err != nil {
			return s.failed("abandon", err)
		}
		if s.inGeneration(gen, func(b *book) {
			for _, key := range keys {
				b.leave(driver.Place{Acquisition: acquisition, Key: key})
			}
		}) {
			return nil
		}
	}
}
