package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/internal/boottime"
	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// session is one session of a namespace: it lives on a majority of the servers.
type session struct {
	nodes    []*node
	majority int
	keys     []string      // of the servers, see namespace.lua
	mark     *redis.Script // see markOf
	renewing *redis.Script // see renewOf
	id       string
	owner    string
	ttl      time.Duration
	limit    time.Duration // of one call to one server
	calls    calls.Group

	mu      sync.Mutex
	over    bool             // it has ended, or was closed
	tick    int64            // numbers the calls that renew
	renewal int64            // the tick of the last renewal that succeeded
	renewed boottime.Instant // before asking for it
	members []member
	book    book

	flushing []chan struct{} // by server: held while a call frees what earlier ones have left there
}

func newSession(d *Driver, o driver.Open, id string) *session {
	s := &session{
		nodes: d.nodes, majority: d.majority(), keys: keysOf(o.Namespace), mark: markOf(o.Namespace), renewing: renewOf(o.Namespace),
		id: id, owner: singleLine(o.Owner), ttl: o.TTL.Truncate(time.Microsecond), limit: d.options.NodeTimeout, members: make([]member, len(d.nodes)), book: newBook(),
	}
	for range s.nodes {
		s.flushing = append(s.flushing, make(chan struct{}, 1))
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

// everywhere is all servers.
func (s *session) everywhere() mask { return all(len(s.nodes)) }

// isMajority reports whether these servers decide.
func (s *session) isMajority(m mask) bool { return m.count() >= s.majority }

// blocks reports whether the others of these servers are no majority.
func (s *session) blocks(m mask) bool { return len(s.nodes)-m.count() < s.majority }

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
	rs := s.ask(ctx, s.everywhere(), s.limit/2, s.majorityOK, func(ctx context.Context, i int) ([]any, error) {
		return s.eval(ctx, i, closeScript, s.id)
	})
	var err error
	if !s.majorityOK(rs) {
		err = s.partial(rs, "closed the session", rs.where(reply.sent))
	}
	if err := errors.Join(err, s.calls.Join(ctx)); err != nil && !errors.Is(err, calls.ErrClosed) {
		return fmt.Errorf("quorumlock: close: %w", err)
	}
	return nil
}
