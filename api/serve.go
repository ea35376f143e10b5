package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

// shutdownTimeout is how long Serve lets requests finish that are under way when its context ends.
const shutdownTimeout = 5 * time.Second

// Serve serves h on l until ctx is done, then lets the requests under way finish, for a few
// seconds, and returns nil. Any other end is an error. It closes l. A client has 5 s for the header
// of a request (16 KiB), 30 s for the whole of it, and 60 s to take the answer.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	return serve(ctx, l, newServer(h))
}

// ServeTLS is Serve over TLS. c says with which certificate, and MinVersion; nothing below TLS 1.2
// is spoken.
func ServeTLS(ctx context.Context, l net.Listener, h http.Handler, c *tls.Config) error {
	srv := newServer(h)
	srv.TLSConfig = c.Clone()
	srv.TLSConfig.MinVersion = max(c.MinVersion, tls.VersionTLS12)
	return serve(ctx, l, srv)
}

func newServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // what clients do wrong is no news
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
		err = srv.Close() // who has not finished by now is cut off
	}
	<-served
	if err != nil {
		return fmt.Errorf("stop serving the api on %s: %w", l.Addr(), err)
	}
	return nil
}
