package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// TryAcquire implements driver.Session. Busy is what a majority says: its votes name one other session, which has the key or is about
// to; if some answers to that one are lost it may not be granted in the end. Where the votes are split between several, each gives its own back and asks again.
func (s *session) TryAcquire(ctx context.Context, acquisition string, wants []driver.Want) ([]driver.Result, error) {
	results, err := s.acquire(ctx, acquisition, wants)
	if err == nil {
		err = together(results)
	}
	if err != nil {
		return nil, fmt.Errorf("quorumlock: acquire: %w", err)
	}
	return results, nil
}

// together is the error of the whole batch, if each key has one of the same kind.
func together(results []driver.Result) error {
	kinds := map[error]int{}
	for _, r := range results {
		if r.Err == nil || errors.Is(r.Err, driver.ErrAbandoned) {
			return nil
		}
		kinds[kindOfError(r.Err)]++
	}
	if len(kinds) != 1 {
		return nil
	}
	return results[0].Err
}

func kindOfError(err error) error {
	for _, kind := range []error{driver.ErrSessionEnded, driver.ErrRecovering, driver.ErrUnreachable} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return nil
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
	gates, err := s.enterGates(ctx, keys)
	defer s.leaveGates(gates)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	results := make([]driver.Result, len(wants))
	tries, err := s.begin(ctx, acquisition, wants, results)
	if err != nil {
		return nil, err
	}
	for most := leastGrace; len(tries) > 0; most = min(2*most, 64*time.Millisecond) {
		rs := s.vote(ctx, tries)
		if s.minority(rs.said("lost")) {
			return nil, s.end()
		}
		var won, split, same, back []*try
		for _, t := range tries {
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
					s.book.unclear[request{acquisition, t.key}] = t.candidacy
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
		s.contend(back)
		s.commit(ctx, acquisition, won, rs, results)
		s.giveBack(ctx, acquisition, back)
		s.mu.Lock()
		for _, t := range same {
			s.book.unclear[request{acquisition, t.key}] = t.candidacy
		}
		for _, t := range split {
			t.again, t.candidacy = 0, s.book.candidate(acquisition, t.want)
		}
		s.mu.Unlock()
		if tries = append(split, same...); len(tries) > 0 {
			pause(ctx, most)
		}
		if ctx.Err() != nil || time.Since(began) > s.ttl {
			break
		}
	}
	for _, t := range tries {
		err := fmt.Errorf("the votes for %s are split, none has a majority", t.key)
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", err, calls.Ended(ctx))
		}
		results[t.index].Err = err
	}
	return results, nil
}

// begin fills in what was granted before and is still held, and makes tries of the rest.
func (s *session) begin(ctx context.Context, acquisition string, wants []driver.Want, results []driver.Result) ([]*try, error) {
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
				results[i].Err = plain(err)
			case still[n]:
				results[i].Token = before[n].Token
			}
		}
	}
	var tries []*try
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range wants {
		switch {
		case results[i] != (driver.Result{}):
		case s.book.refuses(acquisition, s.ttl):
			results[i].Err = driver.ErrAbandoned
		default:
			tries = append(tries, &try{candidacy: s.book.candidate(acquisition, w), want: w, index: i, named: map[string]mentions{}})
		}
	}
	return tries, nil
}

// vote is round 1: it asks all servers for the votes of tries. If one of the keys was contended of late, it asks one server
// first, and the others only to look where that one refuses.
func (s *session) vote(ctx context.Context, tries []*try) replies {
	for n, t := range tries {
		t.place, t.look = 2+n, false
	}
	args := func() []any {
		args := []any{s.owner}
		for _, t := range tries {
			args = append(args, t.key, t.kind, t.number, t.want.Meta, t.look)
		}
		return args
	}
	decided := func(rs replies) bool {
		for _, t := range tries {
			if !t.decided(s, rs) {
				return false
			}
		}
		return true
	}
	ask := func(whom mask, enough func(replies) bool) replies {
		args := args()
		return s.ask(ctx, whom, 0, enough, func(ctx context.Context, i int) ([]any, error) {
			if err := s.flush(ctx, i); err != nil {
				return nil, err
			}
			return s.on(ctx, i, voteScript, args...)
		})
	}
	if !s.contended(tries) {
		return ask(s.everywhere(), decided)
	}
	var before mask
	var first replies
	for i, n := range s.nodes {
		if n.suspect.Load() && i+1 < len(s.nodes) {
			continue
		}
		asked := ask(mask(0).with(i), never)
		if first == nil {
			first = asked
		}
		first[i], before = asked[i], before.with(i)
		if !asked[i].said("ok") {
			continue
		}
		for _, t := range tries {
			t.look = asked[i].answer[t.place] != "1"
		}
		break
	}
	rs := ask(s.everywhere()&^before, decided)
	before.each(func(i int) { rs[i] = first[i] })
	return rs
}

// contended reports whether one of the keys was busy or split a short time ago.
func (s *session) contended(tries []*try) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tries {
		if at, ok := s.book.contended[t.key]; ok && time.Since(at) < s.ttl {
			return true
		}
	}
	return false
}

// contend notes keys that others want, too.
func (s *session) contend(tries []*try) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.book.contended) > 4096 {
		clear(s.book.contended)
	}
	for _, t := range tries {
		s.book.contended[t.key] = time.Now()
	}
}

// commit is round 2: it writes a token larger than any that a majority knows to the servers that voted. What a majority confirms is granted.
func (s *session) commit(ctx context.Context, acquisition string, won []*try, rs replies, results []driver.Result) {
	if len(won) == 0 {
		return
	}
	var voted mask
	for _, t := range won {
		voted |= t.yes
	}
	var highest int64
	voted.each(func(i int) {
		text, _ := rs[i].answer[1].(string)
		mark, _ := strconv.ParseInt(text, 10, 64)
		highest = max(highest, mark)
	})
	token := driver.Token(highest + 1)
	s.mu.Lock()
	s.tick++
	tick := s.tick
	s.mu.Unlock()
	confirmed := make([]mask, len(won)) // by the callback of enough too, so each count begins anew
	count := func(rs replies) bool {
		clear(confirmed)
		place := make([]int, len(rs))
		every := true
		for n, t := range won {
			t.yes.each(func(i int) {
				place[i]++
				if rs[i].said("ok") && rs[i].answer[place[i]] == "1" {
					confirmed[n] = confirmed[n].with(i)
				}
			})
			every = every && s.enough(confirmed[n])
		}
		return every
	}
	rs = s.ask(ctx, voted, 0, count, func(ctx context.Context, i int) ([]any, error) {
		args := []any{int64(token)}
		for _, t := range won {
			if t.yes.has(i) {
				args = append(args, t.key, t.kind, t.number)
			}
		}
		return s.on(ctx, i, commitScript, args...)
	})
	count(rs)
	s.mu.Lock()
	defer s.mu.Unlock()
	ok, unanswered := rs.said("ok"), rs.where(func(r reply) bool { return r.err != nil })
	ok.each(func(i int) { s.members[i].confirmed = max(s.members[i].confirmed, tick) })
	reliable := s.confirmed(s.renewal) // they expire the session no earlier than the last renewal says
	for n, t := range won {
		t.doubt |= t.yes & unanswered
		if !s.enough(confirmed[n]&reliable) || s.over {
			s.book.unclear[request{acquisition, t.key}] = t.candidacy
			results[t.index].Err = fmt.Errorf("%d of %d servers have confirmed the token of %s, of which %d have to: %w",
				confirmed[n].count(), len(s.nodes), t.key, s.majority, plain(s.refusal(rs, "answered")))
			continue
		}
		results[t.index].Token = token
		s.book.hold(&holding{
			candidacy: t.candidacy, acquisition: acquisition, token: token, on: confirmed[n],
			value: valueOf(token, int64(token), s.owner, t.want.Meta),
		})
	}
}

// giveBack frees the votes of tries, also where there was no answer, and refuses their ballots.
func (s *session) giveBack(ctx context.Context, acquisition string, tries []*try) {
	if len(tries) == 0 {
		return
	}
	var whom mask
	s.mu.Lock()
	for _, t := range tries {
		delete(s.book.unclear, request{acquisition, t.key})
		(t.yes | t.doubt).each(func(i int) {
			s.members[i].rest = append(s.members[i].rest, t.ballot)
			whom = whom.with(i)
		})
	}
	s.mu.Unlock()
	s.release(ctx, whom)
}

// release frees what calls have left on servers. It does not wait for those that are late: the next call to them does it.
func (s *session) release(ctx context.Context, whom mask) replies {
	return s.ask(context.WithoutCancel(ctx), whom, 5*leastGrace, func(replies) bool { return true }, func(ctx context.Context, i int) ([]any, error) {
		return []any{"ok"}, s.flush(ctx, i)
	})
}
