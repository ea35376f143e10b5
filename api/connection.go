package api

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"
)

const (
	// anonymousIdle is the idle timeout of a connection without a good token.
	anonymousIdle = 10 * time.Second
	// anonymousLeast is the minimum time of an anonymous connection when all places are taken: enough to send a token.
	// A silent one whose address has other connections gets anonymousSilence.
	anonymousLeast, anonymousSilence = 300 * time.Millisecond, 100 * time.Millisecond
	// evictableIdle is the idle time after which an authenticated connection may be evicted for a new one.
	evictableIdle = time.Second
)

// connection is a connection that is counted.
type connection struct {
	net.Conn
	of      *connections
	address netip.Prefix // that it comes from; invalid: it may carry many parties
	shared  bool         // it counts for the share of its address
	trusted bool         // it is a trusted proxy's
	since   time.Time
	heard   atomic.Int64 // the time.Duration after since when bytes arrived last

	// Guarded by of.mu:
	authenticated bool      // a good token came, or it is a trusted proxy's
	party         string    // whose token came last; "": it counts for none
	serving       bool      // a request is under way
	idle          time.Time // since when none is; zero: none has come yet
}

// Read notes the arrival of bytes.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.heard.Store(int64(time.Since(c.since)))
	}
	return n, err
}

// Close releases its place.
func (c *connection) Close() error {
	c.of.mu.Lock()
	c.of.leave(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite ends the response before the connection closes.
func (c *connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (c *connection) isAuthenticated() bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.authenticated
}

// setState notes the state that the server reports.
func (c *connection) setState(state http.ConnState) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	switch state {
	case http.StateActive:
		c.serving = true
	case http.StateIdle:
		c.serving, c.idle = false, time.Now()
	}
}

type connectionKey struct{}

// withConnection puts the connection into the contexts of its requests.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	if c := connectionOf(conn); c != nil {
		return context.WithValue(ctx, connectionKey{}, c)
	}
	return ctx
}

// connectionOf finds the connection below TLS; nil if it is of another listener.
func connectionOf(conn net.Conn) *connection {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	c, _ := conn.(*connection)
	return c
}

// authenticate marks the connection of a request as authenticated by a good token of party, or without access control.
func authenticate(ctx context.Context, party string) {
	c, ok := ctx.Value(connectionKey{}).(*connection)
	if !ok {
		return
	}
	if evicted := c.of.authenticate(c, party); evicted != nil {
		_ = evicted.Conn.Close()
		c.of.note("connection evicted for another one with a token", "token", evicted.party, "from", evicted.RemoteAddr().String())
	}
}
