package redislock

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/internal/redisconn"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// inbox is the subscription to the grants of a session and to the notices of its namespace: one connection. The client makes
// it anew when it breaks; grants that were published in between are found by Look.
type inbox struct {
	subscription *redis.PubSub
	reading      sync.WaitGroup
}

// listen subscribes to the session's grants, before the first place is taken, if the user may.
func (s *session) listen(ctx context.Context) error {
	if there, err := s.listens(); there || err != nil {
		return err
	}
	select {
	case s.listening <- struct{}{}:
		defer func() { <-s.listening }()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", driver.ErrUnreachable, calls.Ended(ctx))
	}
	if there, err := s.listens(); there || err != nil {
		return err
	}
	subscription := s.rdb.Subscribe(ctx)
	err := calls.Do(ctx, &s.calls, func() error {
		if err := subscription.Subscribe(ctx, s.channel(), s.noticeChannel()); err != nil {
			return err
		}
		_, err := subscription.Receive(ctx)
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		_ = subscription.Close()
		return driver.ErrSessionEnded
	}
	if err != nil && redisconn.Answered(err) { // grants are found by Look
		s.lacks.channels.Store(true)
		_ = subscription.Close()
		return nil
	}
	if err != nil {
		_ = subscription.Close()
		return fmt.Errorf("%w: subscribe to %s: %w", driver.ErrUnreachable, s.channel(), redisconn.Refused(s.rdb, err))
	}
	s.inbox = &inbox{subscription: subscription}
	published := subscription.Channel(redis.WithChannelSize(unread))
	s.inbox.reading.Go(func() {
		for m := range published {
			if m.Channel == s.noticeChannel() {
				s.takeNotice(m.Payload)
			} else {
				s.takeGrant(m.Payload)
			}
		}
	})
	return nil
}

// listens reports whether the session has subscribed, or cannot.
func (s *session) listens() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false, driver.ErrSessionEnded
	}
	return s.inbox != nil || s.lacks.channels.Load(), nil
}

// channel is where scripts publish the session's grants.
func (s *session) channel() string { return strings.TrimSuffix(s.keys[0], "state") + "inbox:" + s.id }

// takeGrant takes in "gen acquisition token key". A grant of a generation that has ended was not reasserted, and one that nobody
// asks for any more was abandoned.
func (s *session) takeGrant(message string) {
	f := strings.Fields(message)
	if len(f) != 4 {
		return
	}
	token, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil {
		return
	}
	g := driver.Grant{Place: driver.Place{Acquisition: f[1], Key: f[3]}, Token: driver.Token(token)}
	wanted := false
	s.inGeneration(f[0], func(b *book) { wanted = b.granted(g.Place, s.id, g.Token) })
	if !wanted {
		return
	}
	select {
	case s.granted <- g:
	default:
	}
}

// close ends the subscription.
func (i *inbox) close() {
	_ = i.subscription.Close()
	i.reading.Wait()
}
