package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
// anew with each session, and after an outage; what was sent meanwhile is lost. While heard runs, only the newest 64 are kept. Each of
// several calls hears all notices.
//
//  1. have hear run
//  2. pass on what it hears, until ctx or l ends
//
// It returns nil once ctx has ended. The error matches errors.ErrUnsupported if the backend has no notices, and ErrUnavailable if
// l is closed.
func (l *Locker) Listen(ctx context.Context, heard func(topic string)) error {
	if !l.drv.Caps().Notices {
		return fmt.Errorf("locks: listen: %w", l.noNotices())
	}
	if err := l.start(); err != nil { //nolint:contextcheck // what it starts outlives the call
		return fmt.Errorf("locks: listen: %w", err)
	}
	e := &listener{topics: make(chan string, unheard)}
	l.mu.Lock()
	l.listeners = append(l.listeners, e)
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.listeners = slices.DeleteFunc(l.listeners, func(other *listener) bool { return other == e })
	}()
	l.wake() // starts hear
	for {
		select {
		case topic := <-e.topics:
			heard(topic)
		case <-ctx.Done():
			return nil
		case <-l.gone:
			return fmt.Errorf("locks: listen: %w", unavailable(errClosed))
		}
	}
}

// unheard is how many notices wait for one listener.
const unheard = 64

// listener is one call of Listen.
type listener struct{ topics chan string }

// tell keeps the newest topics. With mu held, so that no other one sends.
func (e *listener) tell(topic string) {
	if len(e.topics) == cap(e.topics) {
		select {
		case <-e.topics:
		default:
		}
	}
	e.topics <- topic
}

// hear passes notices on to all that listen, until Close:
//
//  1. listen with the present session, or open one; if that fails, wait for a second and begin again
//  2. pass on what arrives, until the session ends, and begin again
func (l *Locker) hear(ctx context.Context) {
	for ctx.Err() == nil {
		topics, over, err := l.topics(ctx)
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(maxBackoff):
			}
			continue
		}
		for open := true; open; {
			select {
			case topic := <-topics:
				l.mu.Lock()
				for _, e := range l.listeners {
					e.tell(topic)
				}
				l.mu.Unlock()
			case <-over:
				open = false
			case <-ctx.Done():
				return
			}
		}
	}
}

// topics begins to listen; over is closed when the session has ended.
func (l *Locker) topics(ctx context.Context) (topics <-chan string, over <-chan struct{}, err error) {
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
