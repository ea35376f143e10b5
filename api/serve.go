package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// shutdownTimeout bounds the wait for requests under way when Serve's context ends.
const shutdownTimeout = 5 * time.Second

// ServeOptions are the options of Serve. The zero value works.
type ServeOptions struct {
	// TLS has the certificate, and MinVersion, at least TLS 1.2. nil: plain HTTP.
	TLS *tls.Config
	// MaxConnections bounds the connections of all clients; default 512. One address, or IPv6 /64, gets a quarter at
	// most, except loopback and trusted proxies.
	MaxConnections int
	// TrustedProxies are addresses that carry many users; see Options.
	TrustedProxies []netip.Prefix
	// Logger gets a line, at most each 10 s, when connections are evicted; default: none.
	Logger *slog.Logger
}

// Serve serves h on l until ctx is done, then waits some seconds for requests under way, and returns nil. Any other end
// is an error. It closes l. A client has 5 s for the TLS handshake, 5 s for a request's header (8 KiB), 30 s for the
// whole request, and 60 s to read the response, 5 s without a good token. The idle timeout is 2 minutes, 10 s without a
// good token.
//
// A connection beyond the bounds evicts one without a good token, of the address with most of those first, or an idle
// one; else it is closed. Each has up to 300 ms to send a token before it is evicted, or 100 ms if it is silent and its
// address has others. Errors of accept are retried.
func Serve(ctx context.Context, l net.Listener, h http.Handler, o ServeOptions) error {
	if h, ok := h.(*Handler); ok && h.incomplete != nil {
		_ = l.Close()
		return h.incomplete
	}
	srv := newServer(h)
	if o.TLS != nil {
		srv.TLSConfig = o.TLS.Clone()
		srv.TLSConfig.MinVersion = max(o.TLS.MinVersion, tls.VersionTLS12)
	}
	conns := newConnections(l, o)
	expired := make(chan struct{})
	go func() { defer close(expired); conns.expire() }()
	defer func() {
		_ = conns.Close() // ServeTLS leaves it open if it cannot begin
		<-expired
	}()
	return serve(ctx, conns, srv)
}

// With HTTP/2, maxStreamsOfConnection bounds the requests under way on one connection, and the others the memory for
// what a client sends on it.
const (
	maxStreamsOfConnection = 32
	maxFrame               = 16 << 10
	maxUnread              = 256 << 10
)

func newServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    8 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // what clients do wrong is no news
		ConnContext:       withConnection,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreamsOfConnection, MaxReadFrameSize: maxFrame,
			MaxReceiveBufferPerConnection: maxUnread, MaxReceiveBufferPerStream: maxUnread,
		},

		DisableGeneralOptionsHandler: true, // OPTIONS * is a path that is not there
		ConnState: func(conn net.Conn, state http.ConnState) {
			if c := connectionOf(conn); c != nil {
				c.setState(state)
			}
		},
	}
}

// stoppingKey is the context key of a channel that closes when the server stops, for endless responses.
type stoppingKey struct{}

// stopping returns nil for servers without that channel.
func stopping(ctx context.Context) <-chan struct{} {
	stop, _ := ctx.Value(stoppingKey{}).(<-chan struct{})
	return stop
}

func serve(ctx context.Context, l net.Listener, srv *http.Server) error {
	srv.BaseContext = func(net.Listener) context.Context {
		return context.WithValue(context.WithoutCancel(ctx), stoppingKey{}, ctx.Done())
	}
	served := make(chan error, 1)
	go func() {
		if srv.TLSConfig != nil {
			served <- srv.ServeTLS(l, "", "")
		} else {
			served <- srv.Serve(l)
		}
	}()
	select {
	case err := <-served:
		return fmt.Errorf("serve the api on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err := srv.Shutdown(stop)
	if errors.Is(err, context.DeadlineExceeded) {
		err = srv.Close() // requests that have not finished by now are cut off
	}
	<-served
	if err != nil {
		return fmt.Errorf("stop serving the api on %s: %w", l.Addr(), err)
	}
	return nil
}
