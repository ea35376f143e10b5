package redislock

import (
	"context"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/internal/redisconn"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// unreadTopics is how many notices a session may have unread: later ones are lost.
const unreadTopics = 64

// Notifier implements driver.Session.
func (s *session) Notifier() driver.Notifier { return s }

// Notify implements driver.Notifier.
func (s *session) Notify(ctx context.Context, topic string) error {
	err := calls.Do(ctx, &s.calls, func() error { return s.rdb.Publish(ctx, s.noticeChannel(), topic).Err() })
	if err != nil {
		return s.failed("notify", redisconn.Refused(s.rdb, err))
	}
	return nil
}

// Notified implements driver.Notifier. Where the user may not subscribe, no notice arrives.
func (s *session) Notified(ctx context.Context) (<-chan string, error) {
	if err := s.listen(ctx); err != nil {
		return nil, s.failed("listen", err)
	}
	return s.topics, nil
}

// noticeChannel is where notices of the namespace are published.
func (s *session) noticeChannel() string { return strings.TrimSuffix(s.keys[0], "state") + "notices" }

// takeNotice passes a notice on, unless too many are unread.
func (s *session) takeNotice(topic string) {
	select {
	case s.topics <- topic:
	default:
	}
}
