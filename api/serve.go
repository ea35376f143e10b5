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

// shutdownTimeout is how long Serve lets requests finish that are under way when its context ends.
const shutdownTimeout = 5 * time.Second

// ServeOptions say how connections are served. The zero value works.
type ServeOptions struct {
	// TLS says with which certificate, and MinVersion; nothing below TLS 1.2 is spoken. nil: plain HTTP.
	TLS *tls.Config
	// MaxConnections bounds the connections of all clients; default 512. One address, or IPv6 network of 64
	// bits, has a quarter of them at most, this machine and trusted proxies excepted.
	MaxConnections int
	// TrustedProxies are addresses that carry many users; see Options.
	TrustedProxies []netip.Prefix
	// Logger gets a line, at most each 10 s, when connections are evicted; default: none.
	Logger *slog.Logger
}

// Serve serves h on l until ctx is done, then lets the requests under way finish, for a few
// seconds, and returns nil. Any other end is an error. It closes l. A client has 5 s for the TLS
// handshake, 5 s for the header of a request (8 KiB), 30 s for the whole of it, and 60 s to take the
// answer, 5 s where it has shown no token. A connection by which no good token came may be idle for 10 s, others for 2 minutes.
//
// For a connection beyond the bounds one without a token is evicted, of the address with most of those first, or an
// idle one; else it is closed. Each has up to 300 ms to send a token before it is evicted, or 100 ms if it is silent and its
// address has others. Errors of the system while it accepts are waited out.
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

// With HTTP/2, maxStreamsOfConnection bounds the requests that are under way on one connection, and the others what
// is in memory of what a client sends on it.
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
				c.turned(state)
			}
		},
	}
}

// stoppingKey finds, in the context of a request, what closes when its server stops: answers
// without an end must not be waited for.
type stoppingKey struct{}

// stopping returns nil for a server that does not say.
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
