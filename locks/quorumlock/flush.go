package quorumlock

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// mostFreed is how many ballots are freed by one call: a server that comes back is to answer others in between.
const mostFreed = 500

// flush frees on one server what earlier calls have left there, and waits for another call that does. If it fails, the caller sends
// nothing: a ballot that is left would exclude the next one.
func (s *session) flush(ctx context.Context, i int) error {
	select {
	case s.flushing[i] <- struct{}{}:
		defer func() { <-s.flushing[i] }()
	case <-ctx.Done():
		return fmt.Errorf("%w: to wait for what is freed of earlier calls: %w", driver.ErrUnreachable, calls.Ended(ctx))
	}
	s.mu.Lock()
	number, unfreed := s.members[i].number, s.members[i].unfreed
	s.members[i].unfreed = nil
	s.mu.Unlock()
	for chunk := range slices.Chunk(unfreed, mostFreed) {
		args := []any{s.id, s.ttl.Microseconds()}
		for _, b := range chunk {
			args = append(args, b.key, b.kind, b.number, true)
		}
		if _, err := s.eval(ctx, i, freeScript, args...); err != nil {
			s.mu.Lock()
			if m := &s.members[i]; m.number == number {
				m.freeLater(unfreed...)
			}
			s.mu.Unlock()
			return fmt.Errorf("%w: to free what earlier calls have left: %w", driver.ErrUnreachable, err)
		}
		unfreed = unfreed[len(chunk):]
	}
	return nil
}

// release frees what calls have left on servers. It does not wait for those that are late: the next call to them frees it.
func (s *session) release(ctx context.Context, whom mask) replies {
	return s.ask(context.WithoutCancel(ctx), whom, 5*leastGrace, noAnswers, func(ctx context.Context, i int) ([]any, error) {
		return []any{"ok"}, s.flush(ctx, i)
	})
}

// giveBack frees the votes of tallies, also where there was no answer, and refuses their ballots.
func (s *session) giveBack(ctx context.Context, acquisition string, tallies []*tally) {
	if len(tallies) == 0 {
		return
	}
	var whom mask
	s.mu.Lock()
	for _, t := range tallies {
		delete(s.book.undecided, request{acquisition, t.key})
		(t.yes | t.inFlight).each(func(i int) {
			s.members[i].freeLater(t.ballot)
			whom = whom.with(i)
		})
	}
	s.mu.Unlock()
	s.release(ctx, whom)
}
