package memlock

import (
	"context"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// unreadTopics is how many notices a session may have unread: later ones are lost.
const unreadTopics = 64

// Notifier implements driver.Session.
func (c *session) Notifier() driver.Notifier { return c }

// Notify implements driver.Notifier.
func (c *session) Notify(ctx context.Context, topic string) error {
	return c.call(ctx, "notify", func(s *Service) error {
		if !s.live(c) {
			return driver.ErrSessionEnded
		}
		for _, other := range s.sessions {
			if other.namespace != c.namespace {
				continue
			}
			select {
			case other.topics <- topic:
			default:
			}
		}
		return nil
	})
}

// Notified implements driver.Notifier.
func (c *session) Notified(context.Context) (<-chan string, error) { return c.topics, nil }
