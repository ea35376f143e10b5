package zklock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
}

func newSession(d *Driver, o driver.Open) *session {
	return &session{driver: d, names: namesOf(d.options.Root, o.Namespace), owner: line(o.Owner), acl: d.login.acl()}
}

func (s *session) ID() string             { return sessionID(s.id) }
func (s *session) TTL() time.Duration     { return s.ttl }
func (s *session) Ended() <-chan struct{} { return s.over }

// begin connects, logs in and calls first. If one of them fails, it closes the connection.
func (s *session) begin(ctx context.Context, timeout time.Duration, first func() error) (err error) {
	s.zkSession = newZKSession(timeout, s.driver.options.TLS)
	defer func() {
		if err != nil {
			s.leave()
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

// settle makes the session's nodes, and checks who may change them.
func (s *session) settle() error {
	if err := s.enter(); err != nil {
		return err
	}
	return s.driver.login.guarded(s.conn, s.names.guarded()...)
}

// enter makes the session's own node, and the parents of all.
func (s *session) enter() error {
	node := s.names.sessions + "/" + s.ID()
	_, err := s.conn.Create(node, []byte(s.owner), zk.FlagEphemeral, s.acl)
	if errors.Is(err, zk.ErrNoNode) {
		if err = s.parents(); err != nil {
			return err
		}
		_, err = s.conn.Create(node, []byte(s.owner), zk.FlagEphemeral, s.acl)
	}
	if errors.Is(err, zk.ErrNodeExists) { // an earlier answer was lost
		return nil
	}
	return err
}

func (s *session) parents() error {
	for _, leaf := range []string{s.names.locks, s.names.sessions} {
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

// Renew is a write, since that is what a quorum must agree on. It leaves it to Check which keys were evicted.
func (s *session) Renew(ctx context.Context, _ []driver.Held) (bool, error) {
	asked := time.Now()
	err := calls.Do(ctx, &s.calls, func() error {
		_, err := s.conn.Set(s.names.sessions+"/"+s.ID(), []byte(s.owner), -1)
		if errors.Is(err, zk.ErrNoNode) { // removed by hand; the session does not depend on it
			err = s.enter()
		}
		return err
	})
	if err != nil {
		return false, s.failed("renew", err)
	}
	s.renewed(asked, s.ttl)
	return true, nil
}

func (s *session) TryAcquire(ctx context.Context, acquisition string, wants []driver.Want) ([]driver.Result, error) {
	over := s.isOver()
	results, err := calls.Await(ctx, &s.calls, func() ([]driver.Result, error) {
		results := make([]driver.Result, len(wants))
		calls.Each(len(wants), inFlight, func(i int) error {
			if ctx.Err() != nil { // the call was given up
				results[i].Err = calls.Ended(ctx)
				return nil
			}
			r, err := s.try(wants[i].Key, record{acquisition, s.owner, wants[i].Meta})
			if err != nil {
				r = driver.Result{Err: s.ungranted(over, err)}
			}
			results[i] = r
			return nil
		})
		return results, nil
	})
	if err != nil {
		return nil, s.ungranted(over, err)
	}
	return results, s.verdict(results)
}

// Queue implements driver.Session: this backend has no queue yet.
func (s *session) Queue() driver.Queue { return nil }

// Notifier implements driver.Session: this backend sends no notices.
func (s *session) Notifier() driver.Notifier { return nil }

func (s *session) Release(ctx context.Context, held []driver.Held) error {
	err := calls.Do(ctx, &s.calls, func() error {
		return errors.Join(calls.Each(len(held), inFlight, func(i int) error {
			_, err := s.remove(held[i], s.id)
			return err
		})...)
	})
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
		still := make([]bool, len(held))
		errs := calls.Each(len(held), inFlight, func(i int) error {
			there, stat, err := s.conn.Exists(s.names.held(held[i].Key))
			still[i] = there && err == nil && stat.EphemeralOwner == s.id && driver.Token(stat.Czxid) == held[i].Token
			return err
		})
		return still, errors.Join(errs...)
	})
	return still, s.failed("check", err)
}

// sync has the server that this session talks to catch up with the leader: what others were granted
// and lost before is seen by the reads that follow.
func (s *session) sync() error {
	_, err := s.conn.Sync(s.names.locks)
	return err
}

func (s *session) List(ctx context.Context, prefix, after string, limit int) ([]driver.Info, error) {
	infos, err := calls.Await(ctx, &s.calls, func() ([]driver.Info, error) {
		if err := s.sync(); err != nil {
			return nil, err
		}
		children, _, err := s.conn.Children(s.names.locks)
		if err != nil {
			return nil, err
		}
		var keys []string
		for _, name := range children {
			if key, ok := unescape(name); ok && strings.HasPrefix(key, prefix) && key > after {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		return s.holders(keys, limit)
	})
	return infos, s.failed("list", err)
}

// holders reads the holders of the first of these keys that are held, at most limit.
func (s *session) holders(keys []string, limit int) ([]driver.Info, error) {
	var infos []driver.Info
	for chunk := range slices.Chunk(keys, max(limit, inFlight)) {
		found := make([]driver.Info, len(chunk))
		errs := calls.Each(len(chunk), inFlight, func(i int) error {
			data, stat, err := s.conn.Get(s.names.held(chunk[i]))
			if err == nil {
				found[i] = parse(data).info(chunk[i], stat)
			} else if !errors.Is(err, zk.ErrNoNode) {
				return err
			}
			return nil
		})
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		infos = append(infos, slices.DeleteFunc(found, func(i driver.Info) bool { return i.Key == "" })...)
		if len(infos) >= limit {
			return infos[:limit], nil
		}
	}
	return infos, nil
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

func (s *session) Close(ctx context.Context) error {
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
