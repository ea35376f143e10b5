package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// TryAcquire implements driver.Session. Busy is what a majority says: its votes name one other session, which has the key or is about
// to; if some answers to that one are lost it may not be granted in the end. Where the votes are split between several, each gives its own back and asks again.
func (s *session) TryAcquire(ctx context.Context, acquisition string, wants []driver.Want) ([]driver.Result, error) {
	results, err := s.acquire(ctx, acquisition, wants)
	if err == nil {
		err = commonError(results)
	}
	if err != nil {
		return nil, fmt.Errorf("quorumlock: acquire: %w", err)
	}
	return results, nil
}

// acquire settles each want:
//
//  1. what was granted under this id before, and is held, is granted
//  2. vote for the rest; what has a majority is committed; what has not is given back
//  3. vote again for what is split, after a random pause that grows; then one server is asked before the others, so that
//     one of those who ask gets the votes of all
func (s *session) acquire(ctx context.Context, acquisition string, wants []driver.Want) ([]driver.Result, error) {
	keys := make([]string, len(wants))
	for i, w := range wants {
		keys[i] = w.Key
	}
	locked, err := s.lockKeys(ctx, keys)
	defer s.unlockKeys(locked)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	results := make([]driver.Result, len(wants))
	tallies, err := s.begin(ctx, acquisition, wants, results)
	if err != nil {
		return nil, err
	}
	for most := leastGrace; len(tallies) > 0; most = min(2*most, 64*time.Millisecond) {
		rs := s.vote(ctx, tallies)
		if s.blocks(rs.said("lost")) {
			return nil, s.end()
		}
		var won, split, same, back []*tally
		for _, t := range tallies {
			switch t.count(s, rs) {
			case hasMajority:
				won = append(won, t)
			case mayHaveMajority:
				switch answered := t.answers() >= s.majority; {
				case answered && t.again < 2: // the same ballot may get the vote that it lacks
					t.again++
					same = append(same, t)
				case answered:
					split, back = append(split, t), append(back, t)
				default: // the caller asks again under the same id, or abandons it
					s.mu.Lock()
					s.book.undecided[request{acquisition, t.key}] = t.attempt
					s.mu.Unlock()
					results[t.index].Err = s.refusal(rs, "answered for "+t.key)
				}
			case isBusy:
				results[t.index].Holder = t.holder
				back = append(back, t)
			case isSplit:
				split, back = append(split, t), append(back, t)
			case hasNoMajority:
				results[t.index].Err = s.refusal(rs, "answered for "+t.key)
				back = append(back, t)
			}
		}
		s.noteContended(back)
		s.commit(ctx, acquisition, won, rs, results)
		s.giveBack(ctx, acquisition, back)
		s.mu.Lock()
		for _, t := range same {
			s.book.undecided[request{acquisition, t.key}] = t.attempt
		}
		for _, t := range split {
			t.again, t.attempt = 0, s.book.attemptOf(acquisition, t.want)
		}
		s.mu.Unlock()
		if tallies = append(split, same...); len(tallies) > 0 {
			pause(ctx, most)
		}
		if ctx.Err() != nil || time.Since(began) > s.ttl {
			break
		}
	}
	for _, t := range tallies {
		err := fmt.Errorf("the votes for %s are split, none has a majority", t.key)
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", err, calls.Ended(ctx))
		}
		results[t.index].Err = err
	}
	return results, nil
}

// begin fills in what was granted before and is still held, and makes tallies of the rest.
func (s *session) begin(ctx context.Context, acquisition string, wants []driver.Want, results []driver.Result) ([]*tally, error) {
	var before []driver.Held
	var at []int
	s.mu.Lock()
	for i, w := range wants {
		if h := s.book.granted[request{acquisition, w.Key}]; h != nil && h.freeing == 0 && h.kind == kindOf(w) {
			before, at = append(before, driver.Held{Key: w.Key, Token: h.token}), append(at, i)
		}
	}
	s.mu.Unlock()
	if len(before) > 0 {
		still, err := s.check(ctx, before)
		if errors.Is(err, driver.ErrSessionEnded) {
			return nil, err
		}
		for n, i := range at {
			switch {
			case err != nil:
				results[i].Err = hideSentinels(err)
			case still[n]:
				results[i].Token = before[n].Token
			}
		}
	}
	var tallies []*tally
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range wants {
		switch {
		case results[i] != (driver.Result{}):
		case s.book.abandoned.Has(acquisition):
			results[i].Err = driver.ErrAbandoned
		default:
			tallies = append(tallies, &tally{attempt: s.book.attemptOf(acquisition, w), want: w, index: i, named: map[string]mentions{}})
		}
	}
	return tallies, nil
}

// pause waits for a random time up to most.
func pause(ctx context.Context, most time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(rand.N(most)):
	}
}
