package redislock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/internal/handshake"
)

// way is how a client reaches its server.
type way struct {
	addrs   []string
	network string
	dial    func(ctx context.Context, network, addr string) (net.Conn, error)
	tls     bool
}

func wayOf(rdb redis.UniversalClient) way {
	w := way{network: "tcp"}
	switch c := rdb.(type) {
	case *redis.Client:
		o := c.Options()
		w = way{[]string{o.Addr}, o.Network, o.Dialer, o.TLSConfig != nil}
	case *redis.ClusterClient:
		o := c.Options()
		w.addrs, w.dial, w.tls = o.Addrs, o.Dialer, o.TLSConfig != nil
	}
	if w.dial == nil {
		w.dial = new(net.Dialer).DialContext
	}
	return w
}

// address names the server, for messages.
func address(rdb redis.UniversalClient) string {
	addrs := strings.Join(wayOf(rdb).addrs, ",")
	if addrs == behindSentinel {
		return "the master that Sentinel names"
	}
	return cmp.Or(addrs, "redis")
}

// behindSentinel is what the client has in place of an address that Sentinel knows.
const behindSentinel = "FailoverClient"

// refused explains why a server refuses the connection.
func refused(rdb redis.UniversalClient, err error) error {
	encrypted := wayOf(rdb).tls
	text := err.Error()
	switch {
	case strings.Contains(text, "WRONGPASS"):
		return fmt.Errorf("the server does not accept the user and the password: %w", err)
	case strings.Contains(text, "NOAUTH"), strings.Contains(text, "unauthenticated"):
		return fmt.Errorf("the server wants a password: %w", err)
	case strings.Contains(text, "NOPERM"), strings.Contains(text, "user executing the script can't"): // Redis 7.0, of a command in a script
		return fmt.Errorf("the user may not do what locks need: %w", err)
	case errors.Is(err, redis.Nil):
		return fmt.Errorf("the sentinels know no master of that name: %w", err)
	case encrypted && errors.Is(err, context.DeadlineExceeded): // a plain server waits for the end of a line
		return fmt.Errorf("no answer, perhaps the server does not speak TLS at this port: %w", err)
	}
	return handshake.Explain(err, encrypted)
}

// dial reports whether the server can be reached, once and without retries, in the client's own way
// (through Sentinel, for example). It sends nothing. Of a Cluster one node is enough.
func dial(ctx context.Context, rdb redis.UniversalClient) error {
	w := wayOf(rdb)
	var errs []error
	for _, addr := range w.addrs {
		conn, err := w.dial(ctx, w.network, addr)
		if err == nil {
			return conn.Close()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// shard is where the namespace is: in a Cluster, commands without keys go to every master, and one that
// has nothing to do with the namespace may be away.
func (s *session) shard(ctx context.Context) redis.Scripter {
	if c, ok := s.rdb.(*redis.ClusterClient); ok {
		if master, err := c.MasterForKey(ctx, s.keys[0]); err == nil {
			return master
		}
	}
	return s.rdb
}

// markOthers leaves the namespace's mark also with the other masters of a Cluster, which may be given
// its slot one day; those that do not answer soon go without.
func (s *session) markOthers(ctx context.Context) {
	if _, ok := s.rdb.(*redis.ClusterClient); !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = calls.Do(ctx, &s.calls, func() error { return s.mark.Load(ctx, s.rdb).Err() })
}

// answered reports whether err is an answer of the server, not a failed connection.
func answered(err error) bool {
	var said redis.Error
	return errors.As(err, &said)
}
