package quorumlock

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"net"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/lockstep-scheduler/lockstep/internal/calls"
	"github.com/lockstep-scheduler/lockstep/internal/handshake"
	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// mask is a set of servers, by their index.
type mask uint64

func (m mask) has(i int) bool     { return m&(1<<i) != 0 }
func (m mask) with(i int) mask    { return m | 1<<i }
func (m mask) without(i int) mask { return m &^ (1 << i) }
func (m mask) count() int         { return bits.OnesCount64(uint64(m)) }
func all(n int) mask              { return 1<<n - 1 }
func (m mask) each(f func(i int)) {
	for ; m != 0; m &= m - 1 {
		f(bits.TrailingZeros64(uint64(m)))
	}
}

// node is one server. After trouble, one call at a time tries it, so that calls do not pile up behind a server that does not
// answer.
type node struct {
	rdb     redis.UniversalClient
	suspect atomic.Bool // the last call had no answer
	trying  chan struct{}
}

func newNode(rdb redis.UniversalClient) *node { return &node{rdb: rdb, trying: make(chan struct{}, 1)} }

var errAway = errors.New("earlier calls have no answer")

// call makes a call, unless nothing can be sent: then the error wraps driver.ErrUnreachable.
func (n *node) call(ctx context.Context, g *calls.Group, f func() ([]any, error)) ([]any, error) {
	if n.suspect.Load() {
		select {
		case n.trying <- struct{}{}:
			defer func() { <-n.trying }()
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", driver.ErrUnreachable, errAway)
		}
		if n.suspect.Load() { // the client's own retries would hide that nothing was sent, and why
			if err := calls.Do(ctx, g, func() error { return n.dial(ctx) }); err != nil {
				return nil, fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
			}
		}
	}
	answer, err := calls.Await(ctx, g, f)
	n.suspect.Store(err != nil && !answered(err))
	return answer, err
}

// dial reports whether the server can be reached. It sends nothing.
func (n *node) dial(ctx context.Context) error {
	c, ok := n.rdb.(*redis.Client)
	if !ok {
		return nil
	}
	o := c.Options()
	dial := o.Dialer
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, o.Network, o.Addr)
	if err == nil {
		err = conn.Close()
	}
	return err
}

// address names the server, for messages.
func (n *node) address() string {
	if c, ok := n.rdb.(*redis.Client); ok {
		return c.Options().Addr
	}
	return "redis"
}

// refused explains why a server refuses the connection.
func (n *node) refused(err error) error {
	c, ok := n.rdb.(*redis.Client)
	encrypted := ok && c.Options().TLSConfig != nil
	text := err.Error()
	switch {
	case strings.Contains(text, "WRONGPASS"):
		return fmt.Errorf("the server does not accept the user and the password: %w", err)
	case strings.Contains(text, "NOAUTH"), strings.Contains(text, "unauthenticated"):
		return fmt.Errorf("the server wants a password: %w", err)
	case strings.Contains(text, "NOPERM"), strings.Contains(text, "user executing the script can't"): // Redis 7.0, of a command in a script
		return fmt.Errorf("the user may not do what locks need: %w", err)
	}
	return handshake.Explain(err, encrypted)
}

// answered reports whether err is an answer of the server, not a failed connection.
func answered(err error) bool {
	var said redis.Error
	return errors.As(err, &said)
}

// keeps reads the answer of memory.lua.
func keeps(answer []any) error {
	switch answer[0] {
	case "evicts":
		return fmt.Errorf("the server may evict locks: maxmemory-policy is %v; set it to noeviction or to one of volatile-*, which spare keys without a TTL (or maxmemory to 0)", answer[1])
	case "replica":
		return errors.New("the server is a replica: the servers of a quorum are independent of each other")
	}
	return nil
}
