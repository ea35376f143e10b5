package zklock

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

const (
	// unreadTopics is how many notices a session may have unread: later ones are lost.
	unreadTopics = 64
	// kept is how many notices of a session are there at once. One that listens misses those that are gone when it looks.
	kept = 8
)

// notices are those of one session. A notice is a node; the next ones of the session delete it, or the session's end.
type notices struct {
	mu        sync.Mutex
	sent      []string // its nodes, the oldest first
	topics    chan string
	listening bool
}

func newNotices() notices { return notices{topics: make(chan string, unreadTopics)} }

// Notifier implements driver.Session.
func (s *session) Notifier() driver.Notifier { return s }

// Notify implements driver.Notifier.
func (s *session) Notify(ctx context.Context, topic string) error {
	return s.failed("notify", calls.Do(ctx, &s.calls, func() error {
		n := &s.notices
		n.mu.Lock()
		defer n.mu.Unlock()
		made, err := s.notice(topic, n.sent)
		if err == nil {
			n.sent = append(n.sent, made)
			if len(n.sent) > kept {
				n.sent = n.sent[len(n.sent)-kept:]
			}
		}
		return err
	}))
}

// notice makes the node of a notice, and deletes the oldest of those that were sent, if they are many.
func (s *session) notice(topic string, sent []string) (string, error) {
	node := &zk.CreateRequest{
		Path: s.names.notices + "/" + escape(topic) + "-", Acl: s.acl, Flags: zk.FlagEphemeral | zk.FlagSequence,
	}
	ops := []any{node}
	if len(sent) >= kept {
		ops = append(ops, &zk.DeleteRequest{Path: sent[0], Version: -1})
	}
	done, failed, err := s.multi(ops...)
	switch {
	case err == nil:
		return done[0].String, nil
	case failed == 1 && errors.Is(err, zk.ErrNoNode): // the oldest was deleted by hand
		return s.conn.Create(node.Path, nil, node.Flags, s.acl)
	case failed == 0 && errors.Is(err, zk.ErrNoNode):
		if err := s.parents(); err != nil {
			return "", err
		}
		return s.conn.Create(node.Path, nil, node.Flags, s.acl)
	}
	return "", err
}

// Notified implements driver.Notifier.
func (s *session) Notified(ctx context.Context) (<-chan string, error) {
	err := calls.Do(ctx, &s.calls, func() error {
		n := &s.notices
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.listening {
			return nil
		}
		there, changed, err := s.pending()
		if err == nil {
			n.listening = true
			s.calls.Go(func() { s.listen(there, changed) })
		}
		return err
	})
	if err != nil {
		return nil, s.failed("listen", err)
	}
	return s.notices.topics, nil
}

// pending lists the notices that are there, and waits for the next change.
func (s *session) pending() ([]string, <-chan zk.Event, error) {
	there, _, changed, err := s.conn.ChildrenW(s.names.notices)
	if errors.Is(err, zk.ErrNoNode) {
		if err = s.parents(); err == nil {
			there, _, changed, err = s.conn.ChildrenW(s.names.notices)
		}
	}
	return there, changed, err
}

// listen passes notices on until the session ends:
//
//  1. wait until the notices have changed;
//  2. list them, and begin to wait for the next change, again and again while the servers do not answer;
//  3. pass on those that were not there before.
func (s *session) listen(there []string, changed <-chan zk.Event) {
	for {
		select {
		case <-changed:
		case <-s.over:
			return
		}
		now, next, err := s.pending()
		for err != nil {
			if !s.pauses() {
				return
			}
			now, next, err = s.pending()
		}
		known := map[string]bool{}
		for _, name := range there {
			known[name] = true
		}
		for _, name := range now {
			if i := strings.LastIndexByte(name, '-'); !known[name] && i > 0 {
				s.pass(name[:i])
			}
		}
		there, changed = now, next
	}
}

// pass gives one notice to who reads them.
func (s *session) pass(name string) {
	topic, ok := unescape(name)
	if !ok {
		return
	}
	select {
	case s.notices.topics <- topic:
	default:
	}
}
