package redislock

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// address names the server, for messages.
func address(rdb redis.UniversalClient) string {
	switch c := rdb.(type) {
	case *redis.Client:
		return c.Options().Addr
	case *redis.ClusterClient:
		return strings.Join(c.Options().Addrs, ",")
	default:
		return "redis"
	}
}

// dial reports whether the server can be reached, once and without retries, in the client's own way
// (through Sentinel, for example). It sends nothing. Of a Cluster one node is enough.
func dial(ctx context.Context, rdb redis.UniversalClient) error {
	var addrs []string
	var dialer func(ctx context.Context, network, addr string) (net.Conn, error)
	network := "tcp"
	switch c := rdb.(type) {
	case *redis.Client:
		addrs, dialer, network = []string{c.Options().Addr}, c.Options().Dialer, c.Options().Network
	case *redis.ClusterClient:
		addrs, dialer = c.Options().Addrs, c.Options().Dialer
	}
	if dialer == nil {
		dialer = new(net.Dialer).DialContext
	}
	var errs []error
	for _, addr := range addrs {
		conn, err := dialer(ctx, network, addr)
		if err == nil {
			return conn.Close()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// answered reports whether err is what the server said, not a trouble on the way.
func answered(err error) bool {
	var said redis.Error
	return errors.As(err, &said)
}
