// Package redisconn says how a client of Redis reaches its server, and what the errors and the settings of a server mean to locks.
package redisconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/internal/handshake"
)

// BehindSentinel is what a client has in place of an address that Sentinel knows.
const BehindSentinel = "FailoverClient"

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

// Address names the server of a client, for messages.
func Address(rdb redis.UniversalClient) string {
	addrs := strings.Join(wayOf(rdb).addrs, ",")
	if addrs == BehindSentinel {
		return "the master that Sentinel names"
	}
	return cmp.Or(addrs, "redis")
}

// Dial returns nil if the server can be reached, once and without retries, in the client's own way
// (through Sentinel, for example). It sends nothing. Of a Cluster one node is enough.
func Dial(ctx context.Context, rdb redis.UniversalClient) error {
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

// Answered reports whether err is an answer of the server, not a failed connection.
func Answered(err error) bool {
	var said redis.Error
	return errors.As(err, &said)
}

// Refused puts the likely reason in front of the error with which a server refuses the connection or a command. Other errors are
// returned as they are.
func Refused(rdb redis.UniversalClient, err error) error {
	encrypted := wayOf(rdb).tls
	text := err.Error()
	switch {
	case strings.Contains(text, "WRONGPASS"):
		return fmt.Errorf("the server does not accept the user and the password: %w", err)
	case strings.Contains(text, "NOAUTH"), strings.Contains(text, "unauthenticated"):
		return fmt.Errorf("the server wants a password: %w", err)
	case strings.Contains(text, "NOPERM"), strings.Contains(text, "user executing the script can't"), // Redis 7.0, of a command in a script
		strings.Contains(text, "ACL failure in script"): // Valkey, and later ones of Redis
		return fmt.Errorf("the user may not do what locks need: %w", err)
	case errors.Is(err, redis.Nil):
		return fmt.Errorf("the sentinels know no master of that name: %w", err)
	case encrypted && errors.Is(err, context.DeadlineExceeded): // a plain server waits for the end of a line
		return fmt.Errorf("no answer, perhaps the server does not speak TLS at this port: %w", err)
	}
	return handshake.Explain(err, encrypted)
}

// Keeps returns an error if a script has answered {'evicts', policy}: the server may drop locks to save memory.
func Keeps(answer []any) error {
	if answer[0] == "evicts" {
		return fmt.Errorf("the server may evict locks: maxmemory-policy is %v; set it to noeviction or to one of volatile-*, which spare keys without a TTL (or maxmemory to 0)", answer[1])
	}
	return nil
}
