package locks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// maxTopic is the longest topic of a notice, in bytes.
const maxTopic = 100

// Notify tells the Lockers of the namespace that listen, in all processes, that something has happened about a topic: 1 to 100
// bytes of printable ASCII without blanks. It takes one call. A notice may be lost, and several about one topic may arrive as
// one, so what waits for one also looks now and then.
//
// The error matches errors.ErrUnsupported if the backend has no notices (Caps.Notices), and ErrUnavailable if
// the service cannot be reached; then the notice may have been sent nevertheless.
func (l *Locker) Notify(ctx context.Context, topic string) error {
	if !printable(topic, maxTopic) {
		return fmt.Errorf("locks: notify: topic %q: must be 1 to %d printable ASCII characters without blanks", topic, maxTopic)
	}
	if !l.drv.Caps().Notices {
		return fmt.Errorf("locks: notify: %w", l.noNotices())
	}
	err := l.call(ctx, func(calling context.Context, s driver.Session) error { return s.Notifier().Notify(calling, topic) })
	if err != nil && !errors.Is(err, ErrUnavailable) {
		err = unavailable(err)
	}
	if err != nil {
		return fmt.Errorf("locks: notify: %w", err)
	}
	return nil
}

// Listen calls heard with the topic of each notice that arrives, one after the other, until ctx ends or l is closed. It begins
// anew with each session, and after an outage; what was sent meanwhile is lost. While heard runs, only the newest few are kept.
//
//  1. listen with the present session, or open one; if that fails, wait for a second and begin again
//  2. pass on what arrives, until the session ends, and begin again
//
// It returns nil once ctx has ended. The error matches errors.ErrUnsupported if the backend has no notices, and ErrUnavailable if
// l is closed.
func (l *Locker) Listen(ctx context.Context, heard func(topic string)) error {
	if !l.drv.Caps().Notices {
		return fmt.Errorf("locks: listen: %w", l.noNotices())
	}
	for {
		topics, over, err := l.topics(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errClosed):
			return fmt.Errorf("locks: listen: %w", err)
		}
		for err == nil {
			select {
			case topic := <-topics:
				heard(topic)
				continue
			case <-over:
			case <-ctx.Done():
				return nil
			}
			break
		}
		if err != nil {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(maxBackoff):
			}
		}
	}
}

// topics begins to listen; over is closed when the session has ended.
func (l *Locker) topics(ctx context.Context) (topics <-chan string, over <-chan struct{}, err error) {
	if err := l.start(); err != nil { //nolint:contextcheck // what it starts outlives the call
		return nil, nil, err
	}
	calling, cancel := l.calling(ctx)
	defer cancel()
	err = l.onSession(calling, func(s *session) (err error) {
		topics, err = s.drv.Notifier().Notified(calling)
		over = s.over
		return err
	})
	return topics, over, err
}

func (l *Locker) noNotices() error {
	return fmt.Errorf("%w: backend %s has no notices", errors.ErrUnsupported, l.backend)
}
