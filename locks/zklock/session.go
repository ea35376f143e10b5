package zklock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// inFlight is how many requests of one batch wait for their answers at once.
const inFlight = 64

// session is one session of a namespace.
type session struct {
	*zkSession
	driver *Driver
	names  names
	owner  string
	acl    []zk.ACL
	id     int64
	ttl    time.Duration
	calls  calls.Group // the library has no contexts: a call ends at the latest with its connection

	book    book
	granted chan driver.Grant
	renewal renewal
	notices notices
	listing atomic.Pointer[listing] // nil: none goes on
}

func newSession(d *Driver, o driver.Open) *session {
	return &session{
		driver: d, names: namesOf(d.options.Root, o.Namespace), owner: line(o.Owner), acl: d.login.acl(),
		book: newBook(), granted: make(chan driver.Grant, unread), notices: newNotices(),
	}
}

func (s *session) ID() string             { return sessionID(s.id) }
func (s *session) TTL() time.Duration     { return s.ttl }
func (s *session) Ended() <-chan struct{} { return s.over }

// begin connects, logs in and calls first. If one of them fails, it closes the connection, which the driver's Close waits for.
func (s *session) begin(ctx context.Context, timeout time.Duration, first func() error) (err error) {
	s.zkSession = newZKSession(timeout, s.driver.options.TLS)
	defer func() {
		if err != nil {
			s.leave()
			s.driver.leaving.Go(s.gone)
		}
	}()
	asked := time.Now()
	if err := calls.Do(ctx, &s.calls, func() error { return s.connect(s.driver.servers, timeout) }); err != nil {
		return err
	}
	if err := s.established(ctx); err != nil {
		return err
	}
	s.id = s.conn.SessionID()
	s.ttl, _ = s.dialer.state()
	err = calls.Do(ctx, &s.calls, func() error {
		if err := s.driver.login.introduce(s.conn); err != nil {
			return err
		}
		return first()
	})
	if err == nil {
		s.renewed(asked, s.ttl)
	}
	return err
}

// gone waits until nothing of a session runs that could not be opened.
func (s *session) gone() {
	_ = s.calls.Join(context.Background()) // each ends with its connection
	if s.conn != nil {
		<-s.done
	}
}

// settle makes the session's nodes, and checks who may change them.
func (s *session) settle() error {
	if err := s.enter(); err != nil {
		return err
	}
	err := s.driver.login.guarded(s.conn, s.names.guarded()...)
	if errors.Is(err, zk.ErrNoNode) { // an earlier edition has made some of them
		if err = s.parents(); err == nil {
			err = s.driver.login.guarded(s.conn, s.names.guarded()...)
		}
	}
	return err
}

func (s *session) parents() error {
	for _, leaf := range s.names.parents() {
		path := ""
		for name := range strings.SplitSeq(leaf[1:], "/") {
			path += "/" + name
			if _, err := s.conn.Create(path, nil, zk.FlagPersistent, s.acl); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return fmt.Errorf("create %s: %w", path, err)
			}
		}
	}
	return nil
}

func (s *session) Release(ctx context.Context, held []driver.Held) error {
	err := calls.Do(ctx, &s.calls, func() error { return s.releaseAll(held) })
	if err = s.failed("release", err); errors.Is(err, driver.ErrSessionEnded) {
		return nil // with everything it held
	}
	return err
}

func (s *session) Check(ctx context.Context, held []driver.Held) ([]bool, error) {
	still, err := calls.Await(ctx, &s.calls, func() ([]bool, error) {
		if err := s.sync(); err != nil {
			return nil, err
		}
		return s.check(held)
	})
	return still, s.failed("check", err)
}

// check says which keys are held as far as the server that this session talks to knows.
func (s *session) check(held []driver.Held) ([]bool, error) {
	still := make([]bool, len(held))
	errs := calls.Each(len(held), inFlight, func(i int) (err error) {
		if h := s.findHeld(held[i]); h != nil {
			defer h.mu.Unlock()
			still[i], err = s.holds(h)
		}
		return err
	})
	return still, errors.Join(errs...)
}

// holds reports whether the node of what is held is there.
func (s *session) holds(h *holding) (bool, error) {
	node := h.node
	if h.kind.alone() {
		node = s.names.held(h.Key)
	}
	there, stat, err := s.conn.Exists(node)
	return there && err == nil && stat.EphemeralOwner == s.id && driver.Token(stat.Czxid) == h.token, err
}

// sync has the server that this session talks to catch up with the leader: what others were granted
// and lost before is seen by the reads that follow.
func (s *session) sync() error {
	_, err := s.conn.Sync(s.names.locks)
	return err
}

func (s *session) Evict(ctx context.Context, key string, token driver.Token) (bool, error) {
	freed, err := calls.Await(ctx, &s.calls, func() (bool, error) {
		if err := s.sync(); err != nil {
			return false, err
		}
		return s.evict(driver.Held{Key: key, Token: token})
	})
	return freed, s.failed("evict", err)
}

// closeAfter is how long Close waits for calls that are under way.
const closeAfter = 500 * time.Millisecond

// Close lets calls under way have their answers first: the library, once it is told to close, returns from them while it may still be
// reading an answer into what it returns.
func (s *session) Close(ctx context.Context) error {
	finishing, cancel := context.WithTimeout(ctx, closeAfter)
	_ = s.calls.Join(finishing)
	cancel()
	if err := cmp.Or(s.close(ctx), s.calls.Join(ctx)); err != nil {
		return fmt.Errorf("zklock: close at %s: %w", addresses(s.driver.servers), err)
	}
	return nil
}

// ungranted is failed for a request for keys. If the session was over before, nothing was sent. If it was given up
// meanwhile, and no server says that it has ended, the request may have been carried out: what was granted
// is held until they end it.
func (s *session) ungranted(over bool, err error) error {
	failed := s.failed("acquire", err)
	if errors.Is(failed, driver.ErrSessionEnded) && !over && !s.confirmed.Load() {
		return fmt.Errorf("zklock: acquire at %s: no answer before the session was given up: %w", addresses(s.driver.servers), err)
	}
	return failed
}

// failed says which operation failed where, in the driver's words.
func (s *session) failed(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrAuthFailed):
		err = s.driver.login.refused(s.names, err)
	case errors.Is(err, zk.ErrSessionExpired):
		s.confirmed.Store(true)
		s.end()
		err = driver.ErrSessionEnded
	case s.isOver() && s.id != 0: // before there is one, it cannot be lost
		err = driver.ErrSessionEnded
	case errors.Is(err, zk.ErrNoAuth):
		err = s.driver.login.refused(s.names, err)
	case errors.Is(err, zk.ErrNoServer): // given to what is still in the queue when all servers refuse
		err = fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	return fmt.Errorf("zklock: %s at %s: %w", op, addresses(s.driver.servers), err)
}
