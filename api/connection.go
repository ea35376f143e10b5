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
	// strangerIdle is how long a connection may be idle on which no good token came.
	strangerIdle = 10 * time.Second
	// strangerLeast is how long a stranger may stay where all places are taken: long enough to say who it is. One whose
	// address has other places may be silent for strangerSilence.
	strangerLeast, strangerSilence = 300 * time.Millisecond, 100 * time.Millisecond
	// spareIdle is how long one with a good token must have been idle to go for a new one.
	spareIdle = time.Second
)

// connection is one of connections.
type connection struct {
	net.Conn
	of      *connections
	address netip.Prefix // that it comes from; invalid: it may carry many parties
	shared  bool         // it counts for the share of its address
	trusted bool         // it is a trusted proxy's
	since   time.Time
	heard   atomic.Int64 // the time.Duration after since when something came last

	// Of of.mu:
	known   bool      // a good token came, or it is a trusted proxy's
	party   string    // that showed the last one; "": it counts for none
	serving bool      // a request is under way
	idle    time.Time // since when none is; zero: none has come yet
}

// Read notes that something came.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.heard.Store(int64(time.Since(c.since)))
	}
	return n, err
}

// Close gives its place free.
func (c *connection) Close() error {
	c.of.mu.Lock()
	c.of.leave(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite lets a server say that its answer ends before it closes.
func (c *connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (c *connection) isKnown() bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.known
}

// turned notes what the server says of it.
func (c *connection) turned(state http.ConnState) {
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

// withConnection lets requests find the connection that they came by.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	if c := connectionOf(conn); c != nil {
		return context.WithValue(ctx, connectionKey{}, c)
	}
	return ctx
}

// connectionOf finds it below TLS; nil: it came by another listener.
func connectionOf(conn net.Conn) *connection {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	c, _ := conn.(*connection)
	return c
}

// welcome makes the connection of a request no stranger's: a good token of party came by it, or there are no tokens.
func welcome(ctx context.Context, party string) {
	c, ok := ctx.Value(connectionKey{}).(*connection)
	if !ok {
		return
	}
	if victim := c.of.welcome(c, party); victim != nil {
		_ = victim.Conn.Close()
		c.of.note("a connection was closed: another one with a token has its place", "token", victim.party, "from", victim.RemoteAddr().String())
	}
}
