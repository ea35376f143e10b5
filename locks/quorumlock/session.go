package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/internal/redisconn"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// session is one session of a namespace: it lives on a majority of the servers.
type session struct {
	nodes    []*node
	majority int
	keys     []string
	mark     *redis.Script
	renewing *redis.Script
	id       string
	owner    string
	ttl      time.Duration
	limit    time.Duration // of one call to one server
	calls    calls.Group

	mu      sync.Mutex
	over    bool
	tick    int64            // numbers the calls that renew
	renewal int64            // the tick of the last renewal that succeeded
	renewed boottime.Instant // before asking for it
	members []member
	book    book
}

// member is the session on one server.
//
//	settled ──▶ not settled: the server has expired the session, or forgot it ──▶ settled by a renewal that a majority confirms
type member struct {
	settled   bool
	forgot    bool   // it is not settled since the server has lost data
	gen       string // of the server's state
	number    int64  // how often it was installed there
	confirmed int64  // the tick of the last call that renewed it there
	evictions string // how many of its keys that server has evicted
	rest      []ballot
}

func newSession(d *Driver, o driver.Open, id string) *session {
	s := &session{
		nodes: d.nodes, majority: d.majority(), keys: keysOf(o.Namespace), mark: markOf(o.Namespace), renewing: renewOf(o.Namespace),
		id: id, owner: line(o.Owner), ttl: o.TTL.Truncate(time.Microsecond), limit: d.options.NodeTimeout, members: make([]member, len(d.nodes)), book: newBook(),
	}
	if s.limit == 0 {
		s.limit = min(max(o.TTL/5, 200*time.Millisecond), time.Second)
	}
	return s
}

func (s *session) ID() string                { return s.id }
func (s *session) TTL() time.Duration        { return s.ttl }
func (s *session) Ended() <-chan struct{}    { return nil } // Renew reports it
func (s *session) Queue() driver.Queue       { return nil }
func (s *session) Notifier() driver.Notifier { return nil }

// minority reports whether the others of these servers are no majority.
func (s *session) minority(m mask) bool { return len(s.nodes)-m.count() < s.majority }

func (s *session) enough(m mask) bool { return m.count() >= s.majority }

// everywhere is all servers.
func (s *session) everywhere() mask { return all(len(s.nodes)) }

func (s *session) open(ctx context.Context, d *Driver) error {
	s.mu.Lock()
	s.tick++
	tick, asked := s.tick, boottime.Now()
	for i := range s.members {
		s.members[i].number = 1
		s.nodes[i].suspect.Store(true) // so that an error says that nothing was sent
	}
	s.mu.Unlock()
	rs := s.askFor(ctx, max(openLimit, s.limit), s.everywhere(), s.limit/2, func(rs replies) bool { return s.enough(rs.said("ok")) }, func(ctx context.Context, i int) ([]any, error) {
		return s.openAt(ctx, i, d.options)
	})
	for i, r := range rs {
		if r.err == nil {
			if err := suits(r.answer); err != nil {
				return fmt.Errorf("%s: %w", s.nodes[i].address(), err)
			}
		}
	}
	if err := twice(s.nodes, rs, 2); err != nil {
		return err
	}
	if !s.enough(rs.said("ok")) {
		return s.refusal(rs, "installed the session")
	}
	s.mu.Lock()
	rs.said("ok").each(func(i int) {
		m, now := &s.members[i], summary(rs[i].answer)
		m.settled, m.gen, m.evictions, m.confirmed = true, now.gen, now.evictions, tick
		if now.run == "" {
			d.blind.Store(true)
		}
	})
	s.renewal, s.renewed = tick, asked
	s.mu.Unlock()
	s.sync(ctx, rs, 0)
	return nil
}

func (s *session) openAt(ctx context.Context, i int, o Options) ([]any, error) {
	rdb := s.nodes[i].rdb
	known := true // where SCRIPT is forbidden the namespace counts as used
	if _, err := s.nodes[i].call(ctx, &s.calls, func() ([]any, error) {
		found, err := s.mark.Exists(ctx, rdb).Result()
		if err == nil {
			known = len(found) > 0 && found[0]
		}
		if err != nil && redisconn.Answered(err) {
			return nil, nil
		}
		return nil, err
	}); err != nil {
		return nil, err
	}
	answer, err := s.eval(ctx, i, openScript, s.id, s.ttl.Microseconds(), !known, o.NoGracePeriod)
	if err != nil || known || answer[0] != "ok" {
		return answer, err
	}
	// Before any vote: from now on lost data does not look like a new namespace.
	_, err = s.nodes[i].call(ctx, &s.calls, func() ([]any, error) { return nil, s.mark.Load(ctx, rdb).Err() })
	return answer, err
}

// server is what summary() of namespace.lua says.
type server struct {
	gen, run  string
	mark      int64
	synced    bool
	evictions string
}

func summary(answer []any) server {
	text := func(i int) string { t, _ := answer[i].(string); return t }
	mark, _ := strconv.ParseInt(text(3), 10, 64)
	return server{gen: text(1), run: text(2), mark: mark, synced: text(4) == "1", evictions: text(5)}
}

// summaries is how many fields it has.
const summaries = 6

// sync brings the highest token of a majority to the servers that lack it and may not vote for that reason. Those of before
// had lost their data before the others were asked here.
func (s *session) sync(ctx context.Context, rs replies, before mask) {
	var synced, lacks mask
	var mark, highest int64
	rs.said("ok").each(func(i int) {
		now := summary(rs[i].answer)
		highest = max(highest, now.mark)
		if now.synced {
			synced, mark = synced.with(i), max(mark, now.mark)
		} else {
			lacks = lacks.with(i)
		}
	})
	switch {
	case s.minority(lacks): // no majority knows: the clocks have to do
		mark = highest
	case s.enough(synced):
		lacks &= before
	default:
		return
	}
	s.ask(ctx, lacks, s.limit/2, func(replies) bool { return true }, func(ctx context.Context, i int) ([]any, error) {
		return s.eval(ctx, i, syncScript, summary(rs[i].answer).gen, mark)
	})
}

// end notes that the session has ended.
func (s *session) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	return driver.ErrSessionEnded
}

// Close frees all that the session holds, on all servers. It returns an error unless a majority confirms that.
func (s *session) Close(ctx context.Context) error {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	rs := s.ask(ctx, s.everywhere(), s.limit/2, func(rs replies) bool { return s.enough(rs.said("ok")) }, func(ctx context.Context, i int) ([]any, error) {
		return s.eval(ctx, i, closeScript, s.id)
	})
	var err error
	if !s.enough(rs.said("ok")) {
		err = s.partial(rs, "closed the session")
	}
	if err := errors.Join(err, s.calls.Join(ctx)); err != nil && !errors.Is(err, calls.ErrClosed) {
		return fmt.Errorf("quorumlock: close: %w", err)
	}
	return nil
}

// refusal is the error of a call that no majority answered: nothing has happened if so many servers were not reached, or do
// not vote, that the others are no majority. done says what the others did.
func (s *session) refusal(rs replies, done string) error {
	unsent := rs.where(reply.unsent)
	away := rs.where(func(r reply) bool { return r.said("recovering") || r.said("stale") || r.said("lost") })
	var errs []error
	for i, r := range rs {
		switch {
		case r.err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", s.nodes[i].address(), plain(redisconn.Refused(s.nodes[i].rdb, r.err))))
		case r.said("recovering"):
			errs = append(errs, fmt.Errorf("%s: %s", s.nodes[i].address(), waitFor(r.answer[1])))
		case away.has(i):
			errs = append(errs, fmt.Errorf("%s: has lost its data, or was away: it does not know the session until its next renewal", s.nodes[i].address()))
		}
	}
	ok := s.everywhere() &^ rs.where(func(r reply) bool { return r.err != nil }) &^ away
	err := fmt.Errorf("%d of %d servers %s, of which %d have to: %w", ok.count(), len(s.nodes), done, s.majority, errors.Join(errs...))
	switch {
	case !s.minority(unsent | away):
		return err
	case s.enough(ok | away):
		return fmt.Errorf("%w: %w", driver.ErrRecovering, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
}

// partial is refusal for what each server does by itself: if one of them may have done it, the outcome is unknown.
func (s *session) partial(rs replies, done string) error {
	err := s.refusal(rs, done)
	if rs.where(reply.unsent) == s.everywhere() {
		return err
	}
	return plain(err)
}

// plain hides the sentinels in the error of one server: they would be read as those of all.
func plain(err error) error {
	if kindOfError(err) != nil {
		return errors.New(err.Error())
	}
	return err
}

// waitFor reads what recovering() of namespace.lua says.
func waitFor(micros any) string {
	text, _ := micros.(string)
	n, _ := strconv.ParseInt(text, 10, 64)
	if n == 0 {
		return "it waits for the next renewal of a session to learn the last token"
	}
	wait := time.Duration(n) * time.Microsecond
	return fmt.Sprintf("it is new, was started again or has lost data a short time ago, and may have forgotten locks; it votes again from %s on, in %v",
		time.Now().Add(wait).Format(time.TimeOnly), wait.Round(time.Millisecond))
}

// pause waits for a random time up to most.
func pause(ctx context.Context, most time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(rand.N(most)):
	}
}
